// The exported functions: each counts, logs, lets seeded faults strike, checks what it needs and
// hands over to its implementation.
#include <type_traits>

#include "api.h"
#include "simcuda.h"
#include "state.h"

namespace sim {
namespace {

enum EntryId {
#define SIM_FN(needs, symbol, ...) kEntry_##symbol,
#define SIM_STREAM_FN(needs, symbol, suffix, ...) kEntry_##symbol, kEntry_##symbol##suffix,
#define SIM_OLD(symbol, ...) kEntry_##symbol,
#include "symbols.def"
#undef SIM_FN
#undef SIM_STREAM_FN
#undef SIM_OLD
};

#define SIM_ADDRESS(symbol) reinterpret_cast<void*>(&::symbol)

Entry g_entries[] = {
#define SIM_FN(needs, symbol, base, since, ...) \
  {#symbol, base, since, StreamMode::kEither, needs, SIM_ADDRESS(symbol), 0, -1},
#define SIM_STREAM_FN(needs, symbol, suffix, base, since, suffix_since, ...)      \
  {#symbol, base, since, StreamMode::kLegacy, needs, SIM_ADDRESS(symbol), 0, -1}, \
      {#symbol #suffix,                                                           \
       base,                                                                      \
       suffix_since,                                                              \
       StreamMode::kPerThread,                                                    \
       needs,                                                                     \
       SIM_ADDRESS(symbol##suffix),                                               \
       0,                                                                         \
       -1},
#define SIM_OLD(symbol, base, since, ...) \
  {#symbol, base, since, StreamMode::kLegacy, kAny, SIM_ADDRESS(symbol), 0, -1},
#include "symbols.def"
#undef SIM_FN
#undef SIM_STREAM_FN
#undef SIM_OLD
};

std::string Text(const char* value) { return value == nullptr ? "null" : value; }
std::string Text(CUmemLocation value) {
  return "{" + std::to_string(value.type) + "," + std::to_string(value.id) + "}";
}
std::string Text(const CUipcMemHandle&) { return "handle"; }
template <typename T>
std::string Text(T value) {
  if constexpr (std::is_pointer_v<T>) {
    char buffer[24];
    snprintf(buffer, sizeof buffer, "%p", reinterpret_cast<const void*>(value));
    return buffer;
  } else if constexpr (std::is_enum_v<T>) {
    return std::to_string(static_cast<long long>(value));
  } else if constexpr (sizeof(T) == 8) {
    char buffer[24];  // addresses and sizes: large ones are addresses
    snprintf(buffer, sizeof buffer, value >= (1ull << 40) ? "0x%llx" : "%llu",
             static_cast<unsigned long long>(value));
    return buffer;
  } else {
    return std::to_string(value);
  }
}

CUresult Admit(Entry* entry) {
  if (entry->needs == kAny) return CUDA_SUCCESS;
  if (!S().initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (entry->needs == kInit) return CUDA_SUCCESS;
  Context* context = CurrentContext();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return context->device->fault;
}

template <typename... Parameters, typename... Arguments>
CUresult Call(EntryId id, CUstream null_stream, CUresult (*implementation)(Parameters...),
              Arguments... arguments) {
  S().mutex.lock();
  Entry* entry = &g_entries[id];
  if (entry->cost < 0) entry->cost = CallCost(entry->base);
  EnterThread(entry->cost);
  ++entry->calls;
  if (LogEnabled()) {
    std::string line = entry->symbol;
    ((line += ' ', line += Text(arguments)), ...);
    LogLine(line);
  }
  CUresult result = SeededFault(entry->symbol, entry->calls);
  if (result == CUDA_SUCCESS) result = Admit(entry);
  if (result == CUDA_SUCCESS) {
    NullStream() = null_stream;
    result = implementation(arguments...);
  }
  // A wait may have come upon a fault.
  if (result == CUDA_SUCCESS && entry->needs == kContext) result = Admit(entry);
  LeaveThread();
  S().mutex.unlock();
  return result;
}

CUresult Refuse(EntryId id) {
  S().mutex.lock();
  ++g_entries[id].calls;
  if (LogEnabled()) LogLine(g_entries[id].symbol);
  S().mutex.unlock();
  return CUDA_ERROR_INVALID_CONTEXT;
}

}  // namespace

EntryList Entries() { return {std::begin(g_entries), std::end(g_entries)}; }

CUstream& NullStream() {
  static thread_local CUstream null_stream = CU_STREAM_LEGACY;
  return null_stream;
}

}  // namespace sim

#define SIM_NAMES(...) __VA_OPT__(, ) __VA_ARGS__
#define SIM_EXPORT extern "C" __attribute__((visibility("default"))) CUresult CUDAAPI
#define SIM_FN(needs, symbol, base, since, impl, parameters, arguments)                       \
  SIM_EXPORT symbol parameters {                                                              \
    return sim::Call(sim::kEntry_##symbol, CU_STREAM_LEGACY, &sim::impl SIM_NAMES arguments); \
  }
#define SIM_STREAM_FN(needs, symbol, suffix, base, since, suffix_since, impl, parameters, \
                      arguments)                                                          \
  SIM_FN(needs, symbol, base, since, impl, parameters, arguments)                         \
  SIM_EXPORT symbol##suffix parameters {                                                  \
    return sim::Call(sim::kEntry_##symbol##suffix, CU_STREAM_PER_THREAD,                  \
                     &sim::impl SIM_NAMES arguments);                                     \
  }
#define SIM_OLD(symbol, base, since, parameters) \
  SIM_EXPORT symbol parameters { return sim::Refuse(sim::kEntry_##symbol); }
#include "symbols.def"
