// The virtual clock: work queued on streams, engines that take time for it, and the event loop
// that carries it out in the order of virtual time.
#ifndef EBBTIDE_TESTS_SIMCUDA_CLOCK_H_
#define EBBTIDE_TESTS_SIMCUDA_CLOCK_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "abi.h"

namespace sim {

using Ns = int64_t;  // virtual time in nanoseconds

struct Context;
struct Device;
struct Graph;

// Completion of one piece of work; shared by everything that waits for it.
struct Token {
  bool done = false;
  Ns time = 0;  // when done: the end of the work
};
using TokenRef = std::shared_ptr<Token>;

enum class Engine { kNone, kCompute, kCopyIn, kCopyOut };

// What a stream does, without when: a graph keeps these and replays them.
struct Work {
  // Which engine serves it, judged by the mappings at the moment it could start. Empty: none.
  std::function<Engine()> engine;
  // Holds it back until true. Empty: nothing does.
  std::function<bool()> satisfied;
  // When satisfied turned true, where that is known; else the current device time is taken.
  std::function<Ns()> satisfied_at;
  // Called at the start: nanoseconds that it takes. Empty: none.
  std::function<Ns()> duration;
  // Called at the end; anything but success is a fault of the device. Empty: no effect.
  std::function<CUresult()> effect;
  // Called at the start without the lock, on whichever thread drives the clock.
  std::function<void()> host;
};

struct Op {
  Work work;
  uint64_t sequence = 0;
  Ns earliest = 0;              // not before it was queued
  std::vector<TokenRef> after;  // not before these
  TokenRef token = std::make_shared<Token>();
  bool held = false;  // seen waiting for `satisfied`
};

struct Stream {
  Context* context = nullptr;
  bool blocking = true;  // synchronizes with the legacy stream
  int priority = 0;
  uint64_t id = 0;
  std::deque<Op> queue;
  bool running = false;
  Ns end = 0;     // of the running op
  Ns ready = 0;   // end of the last op done
  TokenRef last;  // of the op queued last; null: none yet
  bool destroyed = false;
  Graph* capture = nullptr;
  Stream* capture_origin = nullptr;
};

struct Event {
  Context* context = nullptr;
  bool timing = true;
  TokenRef recorded;           // null: never recorded
  Stream* captured = nullptr;  // recorded inside the capture of this stream
};

// Carries out the next piece of work if it is due at or before `limit`. False: none is.
bool Step(Ns limit);

// Lets virtual time pass up to the calling thread's clock.
void CatchUp();

// Drives the clock until `finished`, then moves the calling thread's clock to at least
// `finished_at`. Waits in real time for other threads when nothing can move.
void RunUntil(const std::function<bool()>& finished);

// Waits for a token and takes its time over into the thread's clock.
void AwaitToken(const TokenRef& token);
void AwaitStream(Stream* stream);
void AwaitDevice(Device* device);

// Queues work, or adds it to the graph that the stream is capturing. Returns its token.
TokenRef Enqueue(Stream* stream, Work work, std::vector<TokenRef> after = {});

// The calling host thread's clock.
Ns& ThreadClock();
// At the entry of a call: a thread that has slept wakes at the latest time that any has reached.
void EnterThread(Ns cost);
void LeaveThread();
// A call that blocks its caller alone: threads that wake meanwhile are not held up by it.
void BlockThread(Ns time);

inline constexpr Ns kNever = INT64_MAX;
constexpr Ns Microseconds(double us) { return static_cast<Ns>(us * 1000); }
// Nanoseconds for `bytes` at a rate in GB/s (10^9 bytes a second).
constexpr Ns Transfer(uint64_t bytes, double gb_per_s) {
  return static_cast<Ns>(static_cast<double>(bytes) / gb_per_s);
}

}  // namespace sim

#endif  // EBBTIDE_TESTS_SIMCUDA_CLOCK_H_
