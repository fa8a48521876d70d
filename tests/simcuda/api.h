// The implementations behind the exported functions. Each has the parameters of its export; what
// a NULL stream means there is in NullStream(). All are called with the lock held.
#ifndef EBBTIDE_TESTS_SIMCUDA_API_H_
#define EBBTIDE_TESTS_SIMCUDA_API_H_

#include <cstdint>
#include <string>

#include "abi.h"
#include "clock.h"

namespace sim {

#define SIM_FN(needs, symbol, base, since, impl, parameters, arguments) CUresult impl parameters;
#define SIM_STREAM_FN(needs, symbol, suffix, base, since, suffix_since, impl, parameters, \
                      arguments)                                                          \
  CUresult impl parameters;
#define SIM_OLD(symbol, base, since, parameters)
#include "symbols.def"
#undef SIM_FN
#undef SIM_STREAM_FN
#undef SIM_OLD

enum Needs { kAny, kInit, kContext };
enum class StreamMode { kEither, kLegacy, kPerThread };

struct Entry {
  const char* symbol;
  const char* base;
  int since;
  StreamMode mode;
  Needs needs;
  void* address;
  uint64_t calls;
  Ns cost;
};

inline constexpr int kDriverVersion = 13000;

struct EntryList {
  Entry* begin_;
  Entry* end_;
  Entry* begin() const { return begin_; }
  Entry* end() const { return end_; }
};
EntryList Entries();

// Virtual time that a call of this base name takes on the host beside what it waits for.
Ns CallCost(const char* base);

// What NULL means in the entry point that the calling thread is in.
CUstream& NullStream();

// The seeded result of this call, or CUDA_SUCCESS. `call` counts from 1.
CUresult SeededFault(const char* symbol, uint64_t call);
bool LogEnabled();
void LogLine(const std::string& line);

}  // namespace sim

#endif  // EBBTIDE_TESTS_SIMCUDA_API_H_
