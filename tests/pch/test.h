// What most tests include and takes longest to read: compiled once for all of them.
#ifndef EBBTIDE_TESTS_PCH_TEST_H_
#define EBBTIDE_TESTS_PCH_TEST_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "fmt/format.h"

#endif  // EBBTIDE_TESTS_PCH_TEST_H_
