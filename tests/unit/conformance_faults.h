// The driver as Ebbtide's classes see it in the conformance suite: every function of DriverApi
// counts its calls and refuses some on a seeded schedule. The test's own calls do not go this way.
#ifndef EBBTIDE_TESTS_UNIT_CONFORMANCE_FAULTS_H_
#define EBBTIDE_TESTS_UNIT_CONFORMANCE_FAULTS_H_

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <utility>

#include "src/driver/driver_api.h"
#include "tests/unit/simulated_device.h"

namespace ebt::test {

// The engines' threads set theirs; the application's threads leave it.
inline int* ThreadGuard() {
  thread_local int guard = 0;
  return &guard;
}

// A mixer of 64 bits (the finalizer of MurmurHash3).
constexpr uint64_t Mix(uint64_t x) {
  x = (x ^ x >> 33) * 0xff51afd7ed558ccd;
  x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53;
  return x ^ x >> 33;
}

enum DriverFunction : size_t {
#define EBT_INDEX(name, parameters) kIndex_##name,
  EBT_DRIVER_FUNCTIONS(EBT_INDEX)
#undef EBT_INDEX
      kDriverFunctions
};

// One schedule a process, since a driver's functions carry no state.
class Faults {
 public:
  // Which calls are refused. Deterministic for each function's calls, in the order of the calls
  // that the application's threads make and of those that the engines' threads make.
  struct Schedule {
    uint64_t seed = 0;
    size_t function = kDriverFunctions;  // the others: by others_one_in; kDriverFunctions: all
    uint64_t nth = 0;                    // the nth call of the function and no other; 0: by one_in
    uint64_t one_in = 0;                 // 0: none
    uint64_t others_one_in = 0;
    bool lasting = false;  // the nth call and all after it
    bool any() const { return nth != 0 || one_in != 0 || others_one_in != 0; }
  };
  static void Set(const Schedule& schedule) {
    State& state = Shared();
    state.nth = state.one_in = state.others_one_in = 0;  // none between two schedules
    for (auto& counts : state.since)
      for (auto& count : counts) count = 0;
    state.seed = schedule.seed;
    state.function = schedule.function;
    state.lasting = schedule.lasting;
    state.nth = schedule.nth;
    state.one_in = schedule.one_in;
    state.others_one_in = schedule.others_one_in;
    ++state.schedules;
  }
  static void Clear() { Set({}); }

  // Since the process began.
  static uint64_t calls(size_t function) { return Shared().calls[function]; }
  static uint64_t refused(size_t function) { return Shared().refused[function]; }
  static const char* NameOf(size_t function) {
    static constexpr const char* kNames[] = {
#define EBT_NAME(name, parameters) #name,
        EBT_DRIVER_FUNCTIONS(EBT_NAME)
#undef EBT_NAME
    };
    return kNames[function];
  }

  static const DriverApi& Driver() {
    static const DriverApi driver = [] {
      DriverApi wrapped;
#define EBT_WRAP(name, parameters)                                                      \
  if (SimulatedDriver().fn_##name)                                                      \
    wrapped.fn_##name =                                                                 \
        &Wrapper<decltype(&DriverApi::fn_##name)>::template Call<&DriverApi::fn_##name, \
                                                                 kIndex_##name>;
      EBT_DRIVER_FUNCTIONS(EBT_WRAP)
#undef EBT_WRAP
      return wrapped;
    }();
    return driver;
  }

 private:
  struct State {
    std::atomic<uint64_t> seed{0}, nth{0}, one_in{0}, others_one_in{0}, schedules{0};
    std::atomic<bool> lasting{false};
    std::atomic<size_t> function{kDriverFunctions};
    std::array<std::atomic<uint64_t>, kDriverFunctions> calls{}, refused{};
    // [whose thread][function]
    std::array<std::array<std::atomic<uint64_t>, kDriverFunctions>, 2> since{};
  };
  static State& Shared() {
    static State state;
    return state;
  }

  // At most two refusals in so many calls of a thread: what is refused for want of something is
  // granted at the third time, and more than that no class of ours promises to survive.
  class Bearable {
   public:
    void Count(uint64_t schedule) {
      if (schedule_ != schedule) *this = {};
      schedule_ = schedule;
      ++now_;
    }
    bool Another() {
      if (now_ - before_last_ < kCalls) return false;
      before_last_ = std::exchange(last_, now_);
      return true;
    }

   private:
    static constexpr uint64_t kCalls = 16;
    uint64_t schedule_ = 0, now_ = kCalls, last_ = 0, before_last_ = 0;
  };

  static CUresult Strike(size_t function) {
    State& state = Shared();
    ++state.calls[function];
    const size_t chosen = state.function;
    const bool is_chosen = chosen == kDriverFunctions || chosen == function;
    const uint64_t nth = is_chosen ? state.nth.load() : 0;
    const uint64_t one_in = is_chosen ? state.one_in.load() : state.others_one_in.load();
    thread_local Bearable bearable;
    bearable.Count(state.schedules);
    if (nth == 0 && one_in == 0) return CUDA_SUCCESS;
    const size_t whose = *ThreadGuard() != 0 ? 1 : 0;
    const uint64_t call = ++state.since[whose][function];
    const uint64_t hash = Mix(state.seed ^ Mix(function << 56 ^ whose << 48 ^ call));
    const bool spared = state.lasting ? call < nth : call != nth;
    if (nth != 0 ? spared : hash % one_in != 0 || !bearable.Another()) return CUDA_SUCCESS;
    ++state.refused[function];
    constexpr CUresult kErrors[] = {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_INVALID_VALUE,
                                    CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_UNKNOWN};
    return kErrors[(hash >> 40) % std::size(kErrors)];
  }

  template <typename Member>
  struct Wrapper;
  template <typename... P>
  struct Wrapper<CUresult (*DriverApi::*)(P...)> {
    template <CUresult (*DriverApi::*kMember)(P...), size_t kFunction>
    static CUresult Call(P... parameters) {
      const CUresult struck = Strike(kFunction);
      return struck != CUDA_SUCCESS ? struck : (SimulatedDriver().*kMember)(parameters...);
    }
  };
};

}  // namespace ebt::test

#endif  // EBBTIDE_TESTS_UNIT_CONFORMANCE_FAULTS_H_
