// What a program can ask about memory, answered as if the driver had served it all.
#include <algorithm>
#include <cstring>

#include "src/replay/replayer.h"

namespace ebt::replay {

bool Replayer::MemInfo(size_t* free_bytes, size_t* total_bytes, CUresult* result) {
  const std::shared_ptr<Space> space = CurrentSpace();
  if (!space) return false;
  size_t free = 0, total = 0;
  *result = driver_.fn_cuMemGetInfo_v2(&free, &total);
  if (*result != CUDA_SUCCESS) return true;
  uint64_t on_host = 0;
  {
    MutexLock lock(&mutex_);
    on_host = OnHost(*space);
  }
  // What we hold and nobody uses can be had. What the program holds cannot be free as well,
  // wherever it lies: programs check that free and used do not exceed the total.
  const uint64_t idle = space->idle_device_bytes();
  uint64_t usable = free + idle;
  usable -= std::min(usable, on_host);
  if (options_.budget > 0) {
    const uint64_t held = space->device_bytes();
    const uint64_t used = held - std::min(held, idle);
    usable = std::min(usable, options_.budget - std::min(options_.budget, used));
  }
  if (free_bytes) *free_bytes = usable;
  if (total_bytes) *total_bytes = total;
  return true;
}

uint64_t Replayer::ReservedFor(CUmemoryPool pool) {
  const std::shared_ptr<Space> space = AnySpace();
  // What the arenas hold is nobody's in particular: it is counted once, with the default pool.
  if (!space || !pool || pool != space->default_pool()) return 0;
  MutexLock lock(&mutex_);
  return Reserved(*space);
}

bool Replayer::PoolGet(CUmemoryPool pool, CUmemPool_attribute attribute, void* value,
                       CUresult* result) {
  uint64_t extra = 0;
  if (!value || !pools_.Extra(pool, attribute, ReservedFor(pool), &extra)) return false;
  *result = driver_.fn_cuMemPoolGetAttribute(pool, attribute, value);
  if (*result != CUDA_SUCCESS) return true;
  cuuint64_t total = 0;
  std::memcpy(&total, value, sizeof(total));
  total += extra;
  std::memcpy(value, &total, sizeof(total));
  return true;
}

bool Replayer::PoolSet(CUmemoryPool pool, CUmemPool_attribute attribute, void*, CUresult*) {
  pools_.ResetHigh(pool, attribute, ReservedFor(pool));
  return false;  // the driver's own mark is reset too
}

uint64_t Replayer::OnHost(const Space& space) const {
  // Asked at every allocation.
  if (space.swap()) return cold_live_bytes_ - std::min(cold_live_bytes_, space.swap()->staying());
  return space.trial() || !space.cold_on_device() ? cold_live_bytes_ : 0;
}

uint64_t Replayer::Reserved(const Space& space) const {
  return space.device_bytes() + OnHost(space);
}

ebbtide_statistics Replayer::Statistics() {
  const RunSample sample = Sample();
  ebbtide_statistics out{};
  out.allocations_planned = sample.planned;
  out.allocations_dynamic = sample.dynamic;
  out.allocations_native = sample.native;
  out.allocations_seen = sample.planned + sample.dynamic + sample.native;
  out.launches_seen = launches_;
  out.device_bytes = sample.device_bytes;
  out.device_bytes_peak = sample.peak_device_bytes;
  out.prefetched_bytes = sample.managed_in + sample.swap.bytes_in;
  out.evicted_bytes = sample.managed_out + sample.swap.bytes_out;
  MutexLock lock(&mutex_);
  out.steps = matcher_.steps();
  out.cold_bytes = cold_live_bytes_;
  out.cold_bytes_peak = cold_peak_bytes_;
  return out;
}

}  // namespace ebt::replay
