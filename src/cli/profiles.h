// The profiles that a recording left behind, and what is worth saying about them.
#ifndef EBBTIDE_SRC_CLI_PROFILES_H_
#define EBBTIDE_SRC_CLI_PROFILES_H_

#include <filesystem>
#include <string>
#include <vector>

#include "src/profile/types.h"

namespace ebt::cli {

// Files whose path fits `pattern` ({pid}, {rank}, {host}, {program} stand for anything within a
// file or folder name), or would without the numbers that a process put before the suffix since
// the name was taken, and that were written at `since` or later; by name.
std::vector<std::string> ProfilesWritten(const std::string& pattern,
                                         std::filesystem::file_time_type since);

// One line for each profile (the first few of many): what is in it, and what to do next.
void DescribeProfiles(const std::vector<std::string>& paths);

// "job.ebp ends early: …" of a recording that was cut, else "".
std::string CutNote(const profile::Profile& profile, const std::string& path);

}  // namespace ebt::cli

#endif  // EBBTIDE_SRC_CLI_PROFILES_H_
