// The Python interpreters of this machine.
#ifndef EBBTIDE_TESTS_PRELOAD_PYTHON_FRAMES_INTERPRETERS_H_
#define EBBTIDE_TESTS_PRELOAD_PYTHON_FRAMES_INTERPRETERS_H_

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace ebt::test {

// Those of the CPython versions that frames can be read of.
inline const auto kReadablePythons = testing::Values("3.9", "3.10", "3.11", "3.12", "3.13", "3.14");

// The real files of all pythons of this version ("3.9", "3.13t"): on PATH, pyenv's, the system's
// and what scripts/fetch_python brought.
std::set<std::string> Interpreters(const std::string& version);

// A test parameter that is a version, as a part of the test's name.
std::string PythonName(const testing::TestParamInfo<std::string>& info);

// An environment variable; empty if it is not set.
std::string Setting(const char* name);

}  // namespace ebt::test

#endif  // EBBTIDE_TESTS_PRELOAD_PYTHON_FRAMES_INTERPRETERS_H_
