#ifndef EBBTIDE_SRC_CLI_EXIT_CODES_H_
#define EBBTIDE_SRC_CLI_EXIT_CODES_H_

namespace ebt::cli {

// Exit codes of our own, as env(1), timeout(1) and the shells use them.
inline constexpr int kProblemFound = 1;  // doctor
inline constexpr int kBadCommandLine = 2;
inline constexpr int kOwnFailure = 125;
inline constexpr int kNotExecutable = 126;
inline constexpr int kNotFound = 127;

}  // namespace ebt::cli

#endif  // EBBTIDE_SRC_CLI_EXIT_CODES_H_
