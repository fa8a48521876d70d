#include "clock.h"

#include <algorithm>
#include <chrono>

#include "graph.h"
#include "state.h"

namespace sim {
namespace {

using RealClock = std::chrono::steady_clock;

// A thread that made no call for this long has been asleep rather than busy.
constexpr auto kAsleep = std::chrono::microseconds(500);

struct HostThread {
  Ns clock = 0;
  Ns lead = 0;  // part of `clock` that this thread alone has spent, blocked in a call
  RealClock::time_point left;
  bool known = false;
};
thread_local HostThread t_host;

struct Due {
  Stream* stream = nullptr;
  bool starts = false;  // else the running op ends
  Ns time = kNever;
  Ns ready = kNever;  // engines serve in the order in which work became ready
  Engine engine = Engine::kNone;

  bool Before(const Due& other) const {
    if (time != other.time) return time < other.time;
    if (starts != other.starts) return !starts;
    if (ready != other.ready) return ready < other.ready;
    return stream->queue.front().sequence < other.stream->queue.front().sequence;
  }
};

// When the op at the head of an idle stream could start; time stays kNever while it cannot.
Due StartOf(Stream* stream) {
  Due due{.stream = stream, .starts = true};
  Op& op = stream->queue.front();
  Ns ready = std::max(stream->ready, op.earliest);
  for (const TokenRef& token : op.after) {
    if (!token->done) return due;
    ready = std::max(ready, token->time);
  }
  Device* device = stream->context->device;
  const bool faulted = device->fault != CUDA_SUCCESS;
  if (op.work.satisfied && !faulted) {
    if (!op.work.satisfied()) {
      op.held = true;
      return due;
    }
    if (op.held) {
      Ns at = op.work.satisfied_at ? op.work.satisfied_at() : -1;
      ready = std::max(ready, at >= 0 ? at : S().device_now);
    }
  }
  due.ready = ready;
  if (op.work.engine && !faulted) due.engine = op.work.engine();
  due.time = due.engine == Engine::kNone
                 ? ready
                 : std::max(ready, device->free_at[static_cast<int>(due.engine)]);
  return due;
}

void Finish(Stream* stream) {
  Op& op = stream->queue.front();
  Device* device = stream->context->device;
  if (op.work.effect && device->fault == CUDA_SUCCESS) {
    CUresult result = op.work.effect();
    if (result != CUDA_SUCCESS) device->fault = result;
  }
  op.token->done = true;
  op.token->time = stream->end;
  stream->ready = stream->end;
  stream->running = false;
  stream->queue.pop_front();
}

void CallHost(Stream* stream) {
  std::function<void()> host = std::move(stream->queue.front().work.host);
  const Ns ends = stream->end;
  stream->end = kNever;  // nobody else may end it meanwhile
  S().mutex.unlock();
  host();
  S().mutex.lock();
  stream->end = ends;
  Finish(stream);
}

void Start(const Due& due) {
  Stream* stream = due.stream;
  Op& op = stream->queue.front();
  Device* device = stream->context->device;
  const bool faulted = device->fault != CUDA_SUCCESS;
  Ns duration = op.work.duration && !faulted ? op.work.duration() : 0;
  stream->running = true;
  stream->end = due.time + duration;
  if (due.engine != Engine::kNone) device->free_at[static_cast<int>(due.engine)] = stream->end;
  if (op.work.host && !faulted) {
    CallHost(stream);
  } else if (duration == 0) {
    Finish(stream);
  }
}

void ForgetDestroyedStreams() {
  auto& streams = S().streams;
  std::erase_if(streams, [](const std::unique_ptr<Stream>& stream) {
    return stream->destroyed && stream->queue.empty();
  });
}

// Work that the legacy default stream's implicit synchronization puts in front.
void AddImplicitOrder(Stream* stream, std::vector<TokenRef>* after) {
  Stream* legacy = stream->context->legacy;
  if (stream != legacy) {
    if (stream->blocking && legacy->last && !legacy->last->done) after->push_back(legacy->last);
    return;
  }
  for (const auto& other : S().streams) {
    if (other.get() == legacy || other->context != stream->context || !other->blocking) continue;
    if (other->last && !other->last->done) after->push_back(other->last);
  }
}

}  // namespace

bool Step(Ns limit) {
  ForgetDestroyedStreams();
  Due best;
  for (const auto& stream : S().streams) {
    if (stream->queue.empty()) continue;
    Due due = stream->running
                  ? Due{.stream = stream.get(), .time = stream->end, .ready = stream->end}
                  : StartOf(stream.get());
    if (due.time == kNever) continue;
    if (best.stream == nullptr || due.Before(best)) best = due;
  }
  if (best.stream == nullptr || best.time > limit) return false;
  S().device_now = std::max(S().device_now, best.time);
  if (best.starts) {
    Start(best);
  } else {
    Finish(best.stream);
  }
  S().moved.notify_all();
  return true;
}

void CatchUp() {
  while (Step(t_host.clock)) {
  }
}

void RunUntil(const std::function<bool()>& finished) {
  while (!finished()) {
    if (Step(kNever - 1)) {
      if (S().mutex.Contended()) {
        S().mutex.unlock();
        S().mutex.lock();
      }
      continue;
    }
    // What is waited for comes from another thread, or is a value that a program stores itself.
    std::unique_lock<FairMutex> lock(S().mutex, std::adopt_lock);
    S().moved.wait_for(lock, std::chrono::microseconds(200));
    lock.release();
  }
}

void AwaitToken(const TokenRef& token) {
  if (!token) return;
  RunUntil([&] { return token->done; });
  t_host.clock = std::max(t_host.clock, token->time);
  t_host.lead = 0;  // back in step with the device
}

void AwaitStream(Stream* stream) {
  std::vector<TokenRef> tokens;
  if (stream->last) tokens.push_back(stream->last);
  AddImplicitOrder(stream, &tokens);
  for (const TokenRef& token : tokens) AwaitToken(token);
}

void AwaitDevice(Device* device) {
  std::vector<TokenRef> tokens;
  for (const auto& stream : S().streams) {
    if (stream->context->device == device && stream->last) tokens.push_back(stream->last);
  }
  for (const TokenRef& token : tokens) AwaitToken(token);
}

TokenRef Enqueue(Stream* stream, Work work, std::vector<TokenRef> after) {
  if (stream->capture != nullptr) {
    stream->capture->nodes.push_back(std::move(work));
    return std::make_shared<Token>();
  }
  Op op;
  op.work = std::move(work);
  op.sequence = ++S().sequence;
  op.earliest = t_host.clock;
  op.after = std::move(after);
  AddImplicitOrder(stream, &op.after);
  TokenRef token = op.token;
  stream->last = token;
  stream->queue.push_back(std::move(op));
  S().moved.notify_all();
  return token;
}

Ns& ThreadClock() { return t_host.clock; }

void EnterThread(Ns cost) {
  State& state = S();
  if (!t_host.known || RealClock::now() - t_host.left > kAsleep) {
    t_host.clock = std::max(t_host.clock, state.host_base);
    t_host.known = true;
  }
  t_host.clock += cost;
  t_host.lead = std::clamp<Ns>(t_host.clock - state.host_base, 0, t_host.lead);
  state.host_base = std::max(state.host_base, t_host.clock - t_host.lead);
  CatchUp();
}

void BlockThread(Ns time) {
  t_host.clock += time;
  t_host.lead += time;
  CatchUp();
}

void LeaveThread() { t_host.left = RealClock::now(); }

}  // namespace sim
