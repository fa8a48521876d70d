#include "src/driver/function_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

namespace ebt {
namespace {

// The driver allows 32 764 bytes of parameters. A stop for one that answers for every index.
constexpr size_t kMostParams = 32764;

// Counts HandlesMayEnd.
std::atomic<uint64_t> current_epoch{0};

uint64_t NextSerial() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

// What a thread found last at this place. A job launches the same few dozen functions over and
// over.
struct Recent {
  uint64_t table = 0;  // its serial
  uint64_t epoch = 0;
  void* function = nullptr;
  const FunctionLayout* layout = nullptr;
};
constexpr size_t kRecent = 128;
thread_local Recent recent_functions[kRecent];

Recent& RecentAt(void* function) {
  // Handles are addresses of objects of some size; the high bits of the product depend on all.
  return recent_functions[(reinterpret_cast<uint64_t>(function) * 0x9e3779b97f4a7c15ull) >> 57];
}
static_assert(kRecent == size_t{1} << (64 - 57));

}  // namespace

FunctionTable::FunctionTable(const DriverApi& driver) : driver_(driver), serial_(NextSerial()) {}

void FunctionTable::HandlesMayEnd() { current_epoch.fetch_add(1, std::memory_order_acq_rel); }

const FunctionLayout* FunctionTable::Find(void* function) {
  if (function == nullptr) return nullptr;
  const uint64_t epoch = current_epoch.load(std::memory_order_acquire);
  Recent& recent = RecentAt(function);
  if (recent.function != function || recent.epoch != epoch || recent.table != serial_)
    recent = {serial_, epoch, function, FindShared(function, epoch)};
  return recent.layout;
}

const FunctionLayout* FunctionTable::FindShared(void* function, uint64_t epoch) {
  {
    std::shared_lock lock(mutex_);
    const auto it = by_handle_.find(function);
    if (it != by_handle_.end() && it->second.epoch >= epoch) return it->second.layout;
  }
  std::unique_ptr<FunctionLayout> layout = Ask(function);
  std::string name = Name(function);
  std::unique_lock lock(mutex_);
  Known& known = by_handle_[function];
  // Another thread may have been faster.
  if (known.layout != nullptr && known.epoch >= epoch) return known.layout;
  known.epoch = epoch;
  if (known.layout != nullptr && known.layout->sizes == layout->sizes &&
      (name.empty() || names_[known.layout->id] == name))
    return known.layout;
  const std::pair key(name, layout->sizes);
  if (known.layout != nullptr && !name.empty()) {
    if (const auto same = by_name_.find(key); same != by_name_.end())
      return known.layout = same->second;
  }
  layout->id = static_cast<uint32_t>(layouts_.size());
  names_.push_back(name.empty() ? fmt::format("kernel#{}", layout->id) : std::move(name));
  known.layout = layouts_.emplace_back(std::move(layout)).get();
  if (!key.first.empty()) by_name_.emplace(key, known.layout);
  return known.layout;
}

void FunctionTable::NamesSince(uint32_t& from, std::vector<std::string>& names) const {
  std::shared_lock lock(mutex_);
  names.insert(names.end(), names_.begin() + from, names_.end());
  from = static_cast<uint32_t>(names_.size());
}

bool FunctionTable::ParamInfo(void* function, bool is_kernel, size_t index, size_t& size) const {
  size_t offset = 0;
  if (is_kernel) {
    return driver_.fn_cuKernelGetParamInfo != nullptr &&
           driver_.fn_cuKernelGetParamInfo(static_cast<CUkernel>(function), index, &offset,
                                           &size) == CUDA_SUCCESS;
  }
  return driver_.fn_cuFuncGetParamInfo != nullptr &&
         driver_.fn_cuFuncGetParamInfo(static_cast<CUfunction>(function), index, &offset, &size) ==
             CUDA_SUCCESS;
}

std::unique_ptr<FunctionLayout> FunctionTable::Ask(void* function) const {
  auto layout = std::make_unique<FunctionLayout>();
  size_t size = 0;
  const bool is_kernel = !ParamInfo(function, /*is_kernel=*/false, 0, size);
  for (size_t index = 0; index < kMostParams; ++index) {
    if (!ParamInfo(function, is_kernel, index, size)) break;
    layout->sizes.push_back(static_cast<uint16_t>(std::min(size, kMostParams)));
  }
  return layout;
}

std::string FunctionTable::Name(void* function) const {
  const char* name = nullptr;
  if (driver_.fn_cuFuncGetName != nullptr &&
      driver_.fn_cuFuncGetName(&name, static_cast<CUfunction>(function)) == CUDA_SUCCESS &&
      name != nullptr) {
    return name;
  }
  if (driver_.fn_cuKernelGetName != nullptr &&
      driver_.fn_cuKernelGetName(&name, static_cast<CUkernel>(function)) == CUDA_SUCCESS &&
      name != nullptr) {
    return name;
  }
  return {};
}

}  // namespace ebt
