// Child processes for tests: what they print, how they end.
#ifndef EBBTIDE_TESTS_PRELOAD_RUN_PROCESS_H_
#define EBBTIDE_TESTS_PRELOAD_RUN_PROCESS_H_

#include <sys/types.h>

#include <map>
#include <ostream>
#include <string>
#include <vector>

namespace ebt::test {

// Added to the test's own environment; an empty value removes the variable.
using Variables = std::map<std::string, std::string>;

struct Outcome {
  int code = -1;  // as a shell tells it: 128+N for signal N
  std::string out;
  std::string err;

  bool operator==(const Outcome&) const = default;
};
std::ostream& operator<<(std::ostream& stream, const Outcome& outcome);

struct Process {
  pid_t pid = -1;
  int out = -1;
  int err = -1;
};

// Starts `argv` (found through PATH) in `folder` (empty: the present one), stdin empty.
Process Start(const std::vector<std::string>& argv, const Variables& variables = {},
              const std::string& folder = "");
Outcome Finish(const Process& process);
Outcome RunProcess(const std::vector<std::string>& argv, const Variables& variables = {},
                   const std::string& folder = "");

// Milliseconds from start to end of a silent program.
double TimeProcess(const std::vector<std::string>& argv, const Variables& variables);

// The product `name` ("ebbtide", "libebbtide.so") of the build under test.
std::string Product(const std::string& name);

// An empty folder of its own for the running test case.
std::string FreshFolder();

}  // namespace ebt::test

#endif  // EBBTIDE_TESTS_PRELOAD_RUN_PROCESS_H_
