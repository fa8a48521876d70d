// What work names of the blocks that move: before it is queued they are brought to where it will
// find them.
#include <optional>
#include <utility>

#include "src/driver/current_context.h"
#include "src/replay/replayer.h"

namespace ebt::replay {
namespace {

// What the calling thread is about to queue, from the hook's begin to `Touched`.
struct Touching {
  std::shared_ptr<Space> space;
  std::vector<tier::Extent> extents;
  CUstream stream = nullptr;
  bool captured = false;
  bool synchronous = false;
  std::optional<CUstream> awaited;  // at the end
  // A copy over the link: what its direction's RightOfWay is told at the end.
  size_t in = tier::RightOfWay::kNone, out = tier::RightOfWay::kNone;
};

bool GoesIn(const ebt_copy& copy) {
  return copy.kind == EBT_COPY_HTOD || copy.kind == EBT_COPY_UNIFIED;
}
bool GoesOut(const ebt_copy& copy) {
  return copy.kind == EBT_COPY_DTOH || copy.kind == EBT_COPY_UNIFIED;
}

// Hooks run until the thread is gone: one that comes behind the reaper gets another, which stays.
Touching& ThisThread() {
  thread_local Touching* touching = nullptr;
  struct Reaper {
    // With a space still in it the work was cut off, and this is no place to end a space.
    ~Reaper() {
      if (touching && !touching->space) delete std::exchange(touching, nullptr);
    }
  };
  thread_local Reaper reaper;
  if (!touching) touching = new Touching;
  return *touching;
}

}  // namespace

std::shared_ptr<Space> Replayer::NamingSpace() {
  if (!naming_.load(std::memory_order_acquire)) return nullptr;
  std::shared_ptr<Space> space = AnySpace();
  return space && space->named() ? space : nullptr;
}

bool Replayer::Launch(const ebt_launch& launch) {
  launches_.fetch_add(1, std::memory_order_relaxed);
  LaunchPoints(launch.stream);
  bool touches = false;
  if (std::shared_ptr<Space> space = NamingSpace()) {
    Touching& touching = ThisThread();
    touching.extents.clear();
    space->named()->OfLaunch(launch, &touching.extents);
    touches = Touch(std::move(space), launch.stream,
                    [&](Space& naming) { return naming.named()->FunctionName(launch.function); });
  }
  ReportSteps();
  return touches;
}

bool Replayer::Copy(const ebt_copy& copy) {
  const bool synchronizes = Synchronizes(copy);
  if (synchronizes) ThisThread().awaited = copy.stream;
  return Copies(1, [&](size_t) { return copy; }) || synchronizes;
}

bool Replayer::Copies(size_t count, absl::FunctionRef<ebt_copy(size_t)> copy_at) {
  std::shared_ptr<Space> space = NamingSpace();
  if (!space || count == 0) return false;
  Touching& touching = ThisThread();
  touching.extents.clear();
  const ebt_copy first = copy_at(0);
  bool in = false, out = false;
  for (size_t i = 0; i < count; ++i) {
    const ebt_copy copy = copy_at(i);
    space->named()->OfSpan(copy.dst, copy.dst_span, &touching.extents);
    space->named()->OfSpan(copy.src, copy.src_span, &touching.extents);
    in = in || GoesIn(copy);
    out = out || GoesOut(copy);
  }
  const bool touches = Touch(space, first.stream, [&](Space&) {
    return std::string(first.kind == EBT_COPY_MEMSET ? "a memset" : "a copy");
  });
  if (!space->swap() || !(in || out) || Capturing(first.stream) ||
      CurrentContext(driver_).context() != space->context())
    return touches;
  // Behind the touches: what the copy itself must wait for is no reason to give way.
  using Direction = tier::Mover::Direction;
  if (in) touching.in = space->swap()->application(Direction::kIn).Begin(first.stream);
  if (out) touching.out = space->swap()->application(Direction::kOut).Begin(first.stream);
  touching.stream = first.stream;
  touching.synchronous = first.synchronous != 0;
  touching.space = std::move(space);
  return true;
}

void Replayer::GraphLaunch(CUstream stream) {
  launches_.fetch_add(1, std::memory_order_relaxed);
  LaunchPoints(stream);
  // What a graph names was pinned when it was captured or its nodes were made.
  const std::shared_ptr<Space> space = NamingSpace();
  if (space && space->trial()) {
    space->trial()->Begin({}, "a graph", captures_.load(std::memory_order_relaxed) != 0);
    space->trial()->Queued();
  }
  ReportSteps();
}

template <typename Name>
bool Replayer::Touch(std::shared_ptr<Space> space, CUstream stream, Name&& name) {
  Touching& touching = ThisThread();
  if (tier::Trial* trial = space->trial()) {
    NoteTouchedSites(touching.extents);
    trial->Begin(touching.extents, name(*space).c_str(),
                 captures_.load(std::memory_order_relaxed) != 0);
  } else if (touching.extents.empty()) {
    return false;
  } else {
    // Work of another context is ordered with nothing of the space's: as if it were captured.
    const CurrentContext before(driver_, space->context());
    touching.stream = stream;
    touching.captured = before.context() != space->context() || Capturing(stream);
    for (const tier::Extent& extent : touching.extents)
      space->swap()->Touch(extent.offset, extent.bytes, stream, touching.captured);
  }
  touching.space = std::move(space);
  return true;
}

void Replayer::Touched() {
  Touching& touching = ThisThread();
  if (const auto awaited = std::exchange(touching.awaited, std::nullopt))
    driver_.fn_cuStreamSynchronize(*awaited);
  const std::shared_ptr<Space> space = std::move(touching.space);
  touching.space.reset();
  if (!space) return;
  if (space->trial()) return space->trial()->Queued();
  if (!touching.extents.empty()) {
    const CurrentContext before(driver_, space->context());
    for (const tier::Extent& extent : touching.extents)
      space->swap()->Touched(extent.offset, extent.bytes, touching.stream, touching.captured);
  }
  using Direction = tier::Mover::Direction;
  const size_t in = std::exchange(touching.in, tier::RightOfWay::kNone);
  const size_t out = std::exchange(touching.out, tier::RightOfWay::kNone);
  space->swap()->application(Direction::kIn).End(in, touching.stream, touching.synchronous);
  space->swap()->application(Direction::kOut).End(out, touching.stream, touching.synchronous);
}

void Replayer::AddressTaken(CUdeviceptr ptr, const char* what) {
  const std::shared_ptr<Space> space = NamingSpace();
  if (!space) return;
  Block block{};
  {
    MutexLock lock(&mutex_);
    const auto at = Holding(ptr);
    if (at == blocks_.end() || at->second.arena != space->swapped()) return;
    block = at->second;
  }
  const CurrentContext before(driver_, space->context());
  Keep(*space, {{block.offset, block.bytes}}, what);
}

void Replayer::NodeMade(const ebt_launch& launch) {
  const std::shared_ptr<Space> space = NamingSpace();
  if (!space) return;
  // Whoever makes a node may be in no context, where a function tells nothing of its parameters.
  const CurrentContext before(driver_, space->context());
  std::vector<tier::Extent> named;
  space->named()->OfLaunch(launch, &named);
  Keep(*space, named, "a graph's kernel");
}

void Replayer::NodeMade(const ebt_copy& copy) {
  const std::shared_ptr<Space> space = NamingSpace();
  if (!space) return;
  const CurrentContext before(driver_, space->context());
  std::vector<tier::Extent> named;
  space->named()->OfSpan(copy.dst, copy.dst_span, &named);
  space->named()->OfSpan(copy.src, copy.src_span, &named);
  Keep(*space, named, copy.kind == EBT_COPY_MEMSET ? "a graph's memset" : "a graph's copy");
}

void Replayer::Keep(Space& space, const std::vector<tier::Extent>& named, const char* what) {
  if (named.empty()) return;
  for (const tier::Extent& extent : named)
    if (space.swap()) space.swap()->Pin(extent.offset, extent.bytes);
  if (space.trial()) {
    space.trial()->Begin(named, what, /*capturing=*/true);
    space.trial()->Queued();
  }
}

void Replayer::LaunchPoints(CUstream stream) {
  if (points_.empty() || !in_step_.load(std::memory_order_relaxed) ||
      disabled_.load(std::memory_order_relaxed))
    return;
  std::vector<const Point*> due;
  points_.Launched(&due);
  if (!due.empty()) Perform(due, stream);
}

void Replayer::Perform(const std::vector<const Point*>& due, CUstream stream) {
  if (Capturing(stream)) return;
  const std::shared_ptr<Space> space = AnySpace();
  if (!space) return;
  // Another context's launch may be the one that a point comes before.
  const CurrentContext before(driver_, space->context());
  const bool elsewhere = before.context() != space->context();
  const auto prefetch = [&](const Point& point, tier::Prefetcher::Direction direction) {
    const ColdHome& home = homes_->Of(*point.slot);
    if (space->prefetcher() && !home.swapped && !elsewhere)
      space->prefetcher()->Request(direction, home.offset, point.slot->bytes, stream);
  };
  for (const Point* point : due) {
    switch (point->kind) {
      case Point::Kind::kPrefetch:
        prefetch(*point, tier::Prefetcher::Direction::kFetch);
        break;
      case Point::Kind::kPrefetchBack:
        prefetch(*point, tier::Prefetcher::Direction::kEvict);
        break;
      case Point::Kind::kSwapIn:
        if (space->swap() && homes_->Moves(point->slab)) space->swap()->Fetch(point->slab, stream);
        break;
      case Point::Kind::kSwapOut:
        if (space->swap()) space->swap()->Evict(point->slab, stream);
        break;
    }
  }
}

}  // namespace ebt::replay
