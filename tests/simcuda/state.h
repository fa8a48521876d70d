// The state of the simulated driver. One lock guards all of it; a function that is not an entry
// point expects the lock to be held.
#ifndef EBBTIDE_TESTS_SIMCUDA_STATE_H_
#define EBBTIDE_TESTS_SIMCUDA_STATE_H_

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "clock.h"
#include "memory.h"

namespace sim {

struct Pool;

struct Device {
  int ordinal = 0;
  uint64_t capacity = 0, used = 0, peak = 0;
  uint64_t link_in = 0, link_out = 0;
  Ns free_at[4] = {};             // by Engine
  CUresult fault = CUDA_SUCCESS;  // sticky
  Context* primary = nullptr;
  unsigned primary_flags = 0;
  int primary_references = 0;
  std::unique_ptr<Pool> default_pool;
  Pool* pool = nullptr;
};

struct Context {
  Device* device = nullptr;
  bool primary = false;
  unsigned flags = 0;
  Stream* legacy = nullptr;
  std::map<std::thread::id, Stream*> per_thread;
  uint32_t peers = 0;  // bit a device
  uint64_t id = 0;
};

// Serves threads in the order in which they ask: a thread that drives the clock through much work
// must let others queue theirs in between.
class FairMutex {
 public:
  void lock() {
    std::unique_lock<std::mutex> hold(mutex_);
    const uint64_t ticket = next_++;
    turn_.wait(hold, [&] { return ticket == serving_; });
  }
  void unlock() {
    std::lock_guard<std::mutex> hold(mutex_);
    ++serving_;
    if (next_ != serving_) turn_.notify_all();
  }
  // Whether others wait while the caller holds it.
  bool Contended() {
    std::lock_guard<std::mutex> hold(mutex_);
    return next_ - serving_ > 1;
  }

 private:
  std::mutex mutex_;
  std::condition_variable turn_;
  uint64_t next_ = 0, serving_ = 0;
};

struct State {
  FairMutex mutex;
  std::condition_variable_any moved;
  bool initialized = false;
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<std::unique_ptr<Stream>> streams;
  std::set<Context*> contexts;
  std::set<Event*> events;
  std::set<Pool*> pools;
  std::map<uint64_t, uint64_t> reservations;      // base to bytes
  std::unordered_map<uint64_t, Ns> value_writes;  // address to time of the last stream write
  uint64_t sequence = 0;
  uint64_t use_counter = 0;
  uint64_t next_id = 1;
  Ns device_now = 0;
  Ns host_base = 0;  // the latest time at which any thread has made a call
};

// Leaked on purpose: threads may still call while the process exits.
State& S();
// NULL: no such device.
Device* DeviceOf(CUdevice ordinal);

// The context current to the calling thread, or null.
Context* CurrentContext();

// A stream handle's stream: NULL stands for `null_stream`, which is CU_STREAM_LEGACY or
// CU_STREAM_PER_THREAD. Null when the handle is not one.
Stream* FindStream(CUstream handle);
Stream* NewStream(Context* context, bool blocking, int priority);
Event* FindEvent(CUevent handle);

void DestroyContext(Context* context);

}  // namespace sim

#endif  // EBBTIDE_TESTS_SIMCUDA_STATE_H_
