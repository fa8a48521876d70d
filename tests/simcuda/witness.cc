// Seeded faults, the call log, and what tests ask: all that stands beside the driver API.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "api.h"
#include "simcuda.h"
#include "state.h"

namespace sim {
namespace {

enum class Strike { kOnce, kFrom, kEvery };

struct Fault {
  std::string symbol;
  Strike strike = Strike::kOnce;
  uint64_t call = 1;
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  uint64_t counted_before = 0;  // calls made before the list was set
};

uint64_t CallsOf(const std::string& symbol) {
  for (const Entry& entry : Entries()) {
    if (symbol == entry.symbol) return entry.calls;
  }
  return 0;
}

bool KnownSymbol(const std::string& symbol) {
  for (const Entry& entry : Entries()) {
    if (symbol == entry.symbol) return true;
  }
  return false;
}

// "NAME:N", "NAME:N+", "NAME:%N", each with an optional "=CODE".
bool ParseFault(const std::string& text, Fault* fault) {
  size_t colon = text.find(':');
  if (colon == std::string::npos) return false;
  fault->symbol = text.substr(0, colon);
  if (!KnownSymbol(fault->symbol)) return false;
  const char* at = text.c_str() + colon + 1;
  if (*at == '%') {
    fault->strike = Strike::kEvery;
    ++at;
  }
  char* end = nullptr;
  fault->call = strtoull(at, &end, 10);
  if (end == at || fault->call == 0) return false;
  if (*end == '+' && fault->strike == Strike::kOnce) {
    fault->strike = Strike::kFrom;
    ++end;
  }
  if (*end == '=') {
    const char* code = end + 1;
    fault->result = static_cast<CUresult>(strtol(code, &end, 10));
    if (end == code) return false;
  }
  fault->counted_before = CallsOf(fault->symbol);
  return *end == '\0';
}

bool ParseFaults(const std::string& list, std::vector<Fault>* faults) {
  for (size_t at = 0; at < list.size();) {
    size_t comma = std::min(list.find(',', at), list.size());
    Fault fault;
    if (!ParseFault(list.substr(at, comma - at), &fault)) return false;
    faults->push_back(fault);
    at = comma + 1;
  }
  return true;
}

std::vector<Fault>& Faults() {
  static auto* faults = [] {
    auto* list = new std::vector<Fault>();
    const char* text = getenv("SIMCUDA_FAIL");
    if (text != nullptr && !ParseFaults(text, list)) {
      dprintf(STDERR_FILENO, "simcuda: SIMCUDA_FAIL=%s cannot be read, no fault is seeded\n", text);
      list->clear();
    }
    return list;
  }();
  return *faults;
}

int LogFile() {
  static const int file = [] {
    const char* path = getenv("SIMCUDA_LOG");
    if (path == nullptr || *path == '\0') return -1;
    int opened = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (opened < 0) dprintf(STDERR_FILENO, "simcuda: SIMCUDA_LOG=%s cannot be opened\n", path);
    return opened;
  }();
  return file;
}

Device* DeviceAt(int ordinal) {
  const auto& devices = S().devices;
  return ordinal >= 0 && ordinal < static_cast<int>(devices.size()) ? devices[ordinal].get()
                                                                    : nullptr;
}

}  // namespace

CUresult SeededFault(const char* symbol, uint64_t call) {
  for (const Fault& fault : Faults()) {
    if (fault.symbol != symbol) continue;
    const uint64_t nth = call - fault.counted_before;
    const bool strikes = fault.strike == Strike::kOnce   ? nth == fault.call
                         : fault.strike == Strike::kFrom ? nth >= fault.call
                                                         : nth % fault.call == 0;
    if (strikes) return fault.result;
  }
  return CUDA_SUCCESS;
}

bool LogEnabled() { return LogFile() >= 0; }

void LogLine(const std::string& line) {
  std::string text = line + '\n';
  // A lost line of a witness is worth no failure of the driver.
  if (write(LogFile(), text.data(), text.size()) < 0) return;
}

}  // namespace sim

using sim::S;
#define SIM_QUERY extern "C" __attribute__((visibility("default")))

SIM_QUERY double simcuda_now_ms(void) {
  std::lock_guard<sim::FairMutex> lock(S().mutex);
  return static_cast<double>(sim::ThreadClock()) / 1e6;
}

SIM_QUERY void simcuda_host_work_ms(double ms) {
  std::lock_guard<sim::FairMutex> lock(S().mutex);
  sim::EnterThread(sim::Microseconds(ms * 1000));
  sim::LeaveThread();
}

SIM_QUERY uint64_t simcuda_device_bytes(int device) {
  std::lock_guard<sim::FairMutex> lock(S().mutex);
  sim::Device* found = sim::DeviceAt(device);
  return found == nullptr ? 0 : found->used;
}

SIM_QUERY uint64_t simcuda_peak_device_bytes(int device) {
  std::lock_guard<sim::FairMutex> lock(S().mutex);
  sim::Device* found = sim::DeviceAt(device);
  return found == nullptr ? 0 : found->peak;
}

SIM_QUERY void simcuda_reset_peak(int device) {
  std::lock_guard<sim::FairMutex> lock(S().mutex);
  sim::Device* found = sim::DeviceAt(device);
  if (found != nullptr) found->peak = found->used;
}

SIM_QUERY uint64_t simcuda_call_count(const char* symbol) {
  std::lock_guard<sim::FairMutex> lock(S().mutex);
  std::string name = symbol == nullptr ? "" : symbol;
  if (name.empty() || name.back() != '*') return sim::CallsOf(name);
  name.pop_back();
  uint64_t calls = 0;
  for (const sim::Entry& entry : sim::Entries()) {
    if (name == entry.base) calls += entry.calls;
  }
  return calls;
}

SIM_QUERY int simcuda_set_faults(const char* list) {
  std::lock_guard<sim::FairMutex> lock(S().mutex);
  std::vector<sim::Fault> faults;
  if (list != nullptr && !sim::ParseFaults(list, &faults)) return 0;
  sim::Faults() = faults;
  return 1;
}

SIM_QUERY uint64_t simcuda_link_bytes_in(int device) {
  std::lock_guard<sim::FairMutex> lock(S().mutex);
  sim::Device* found = sim::DeviceAt(device);
  return found == nullptr ? 0 : found->link_in;
}

SIM_QUERY uint64_t simcuda_link_bytes_out(int device) {
  std::lock_guard<sim::FairMutex> lock(S().mutex);
  sim::Device* found = sim::DeviceAt(device);
  return found == nullptr ? 0 : found->link_out;
}
