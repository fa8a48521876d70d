#include "src/report/report_file.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "fmt/format.h"

namespace ebt::report {

ReportFile::ReportFile(std::string path)
    : path_(std::move(path)), file_(std::fopen(path_.c_str(), "wb"), &std::fclose) {
  if (file_ == nullptr) Fail("cannot be created");
}

void ReportFile::Fail(const char* what) {
  if (failed_.ok())
    failed_ = absl::UnavailableError(fmt::format("{}: {}: {}", path_, what, strerror(errno)));
}

void ReportFile::Write(std::string_view text) {
  if (!failed_.ok()) return;
  if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size())
    Fail("cannot be written");
}

absl::Status ReportFile::Close() {
  if (file_ != nullptr && std::fclose(file_.release()) != 0) Fail("cannot be written");
  return failed_;
}

}  // namespace ebt::report
