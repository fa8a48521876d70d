// A file that is written piece by piece.
#ifndef EBBTIDE_SRC_REPORT_REPORT_FILE_H_
#define EBBTIDE_SRC_REPORT_REPORT_FILE_H_

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace ebt::report {

// The first error is kept, and nothing is written behind it. Not thread-safe.
class ReportFile {
 public:
  // Creates or empties `path`.
  explicit ReportFile(std::string path);

  void Write(std::string_view text);
  // Whether everything has been written. The error names the file and the reason.
  absl::Status Close();

 private:
  void Fail(const char* what);

  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  absl::Status failed_;
};

}  // namespace ebt::report

#endif  // EBBTIDE_SRC_REPORT_REPORT_FILE_H_
