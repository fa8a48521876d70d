#include "src/replay/trial_outcome.h"

#include <fcntl.h>
#include <unistd.h>

#include "fmt/format.h"
#include "src/base/json_text.h"

namespace ebt::replay {
namespace {

std::string SiteList(const std::vector<uint64_t>& sites) {
  std::string list;
  for (uint64_t site : sites) list += fmt::format("{}\"{:#x}\"", list.empty() ? "" : ",", site);
  return list;
}

}  // namespace

TrialOutcome::TrialOutcome(const std::string& path, std::string_view gpu, int driver_version)
    : fd_(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC)), pid_(getpid()) {
  Write(fmt::format("\"gpu\":{},\"driver\":{}", JsonText(gpu), driver_version));
}

TrialOutcome::~TrialOutcome() {
  if (fd_ >= 0) ::close(fd_);
}

void TrialOutcome::Touched(const std::vector<uint64_t>& sites) {
  if (!sites.empty()) Write(fmt::format("\"touched\":[{}]", SiteList(sites)));
}

void TrialOutcome::Steps(uint64_t steps) { Write(fmt::format("\"steps\":{}", steps)); }

void TrialOutcome::Fault(std::string_view kind, std::string_view work, std::string_view error,
                         const std::vector<uint64_t>& sites) {
  std::string body = fmt::format("\"fault\":{},\"launch\":{}", JsonText(kind), JsonText(work));
  if (!error.empty()) body += fmt::format(",\"error\":{}", JsonText(error));
  if (!sites.empty()) body += fmt::format(",\"sites\":[{}]", SiteList(sites));
  Write(body);
}

void TrialOutcome::Write(std::string_view body) noexcept {
  if (fd_ < 0 || getpid() != pid_) return;
  try {
    const std::string line = fmt::format("{{\"pid\":{},{}}}\n", pid_, body);
    [[maybe_unused]] const ssize_t written = ::write(fd_, line.data(), line.size());
  } catch (...) {
    // Out of memory: the line is missing, and the command sees a step less.
  }
}

}  // namespace ebt::replay
