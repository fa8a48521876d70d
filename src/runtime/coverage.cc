#include "src/runtime/coverage.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "fmt/format.h"
#include "src/base/config.h"
#include "src/base/json_text.h"
#include "src/base/log.h"
#include "src/runtime/unseen.h"

namespace ebt::runtime {
namespace {

const char* ServiceName(int service) {
  return service == kServed ? "served" : service == kTold ? "told" : "counted";
}

std::string UnseenLines(const ebt_front& front) {
  std::string lines;
  for (const UnseenLibrary& library : FindUnseen(front)) {
    std::string symbols;
    for (const std::string& symbol : library.symbols)
      symbols += (symbols.empty() ? "" : ",") + JsonText(symbol);
    lines += fmt::format("{{\"pid\":{},\"unseen\":{},\"symbols\":[{}]}}\n", getpid(),
                         JsonText(library.name), symbols);
  }
  return lines;
}

std::string Lines(const ebt_front& front) {
  const std::string who =
      fmt::format("{{\"pid\":{},\"program\":{}", getpid(), JsonText(ProgramIdentity()));
  std::string lines = fmt::format("{},\"driver\":{}}}\n", who, JsonText(DriverPath(front)));
  ebt_row_calls row;
  for (int i = 0; front.row_calls(i, &row); ++i) {
    if (row.linked + row.dlsym + row.proc_v1 + row.proc_v2 == 0) continue;
    lines += fmt::format(
        "{},\"symbol\":\"{}\",\"family\":\"{}\",\"service\":\"{}\",\"linked\":{},\"dlsym\":{},"
        "\"proc_v1\":{},\"proc_v2\":{}}}\n",
        who, row.symbol, row.family, ServiceName(row.service), row.linked, row.dlsym, row.proc_v1,
        row.proc_v2);
  }
  return lines + UnseenLines(front);
}

}  // namespace

void WriteCoverage(const ebt_front& front, const std::string& path) {
  const std::string lines = Lines(front);
  // In one write, so that the lines of processes that end together stay whole.
  const int fd = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  const bool written =
      fd >= 0 && write(fd, lines.data(), lines.size()) == static_cast<ssize_t>(lines.size());
  if (!written) Log(LogLevel::kWarning, "EBBTIDE_COVERAGE {}: {}", path, std::strerror(errno));
  if (fd >= 0) close(fd);
}

}  // namespace ebt::runtime
