// What is told while the program runs: the outcome of a trial to `ebbtide verify`, the run log to
// whoever reads it.
#include <iterator>

#include "src/replay/replayer.h"

namespace ebt::replay {

void Replayer::OpenTrialOutcome() {
  if (!options_.trial_path.empty())
    outcome_ = std::make_unique<TrialOutcome>(options_.trial_path, gpu_, driver_version_);
}

void Replayer::OpenRunLog(const Space& space) {
  if (options_.run_log_path.empty()) return;
  RunInfo info;
  info.program = plan_.program;
  info.plan = options_.plan_path;
  info.gpu = gpu_;
  info.driver_version = driver_version_;
  info.budget = options_.budget;
  for (const std::vector<plan::Slot>* slots : {&plan_.prologue, &plan_.step}) {
    for (const plan::Slot& slot : *slots) {
      if (slot.tier != plan::Tier::kCold) continue;
      (homes_->Of(slot).swapped ? info.cold_swap
       : space.cold_on_device() ? info.cold_off
                                : info.cold_managed) += slot.bytes;
    }
  }
  run_log_ = RunLog::Open(options_.run_log_path, info);
}

void Replayer::NoteTouchedSites(const std::vector<tier::Extent>& extents) {
  std::vector<uint64_t> fresh;
  {
    MutexLock lock(&mutex_);
    for (const tier::Extent& extent : extents) {
      // A copy may name several blocks, or the middle of one.
      auto at = untouched_.lower_bound(extent.offset);
      if (at != untouched_.begin()) {
        const auto before = std::prev(at);
        if (before->first + before->second.bytes > extent.offset) at = before;
      }
      while (at != untouched_.end() && at->first < extent.offset + extent.bytes) {
        if (touched_sites_.insert(at->second.site).second) fresh.push_back(at->second.site);
        at = untouched_.erase(at);
      }
    }
  }
  outcome_->Touched(fresh);
}

void Replayer::TrialFaulted(const tier::Fault& fault) {
  std::vector<uint64_t> sites;
  {
    MutexLock lock(&mutex_);
    for (const auto& [address, block] : blocks_) {
      if (!space_ || block.arena != space_->swapped()) continue;
      for (const tier::Extent& extent : fault.captured) {
        if (block.offset < extent.offset + extent.bytes &&
            extent.offset < block.offset + block.bytes)
          sites.push_back(block.site);
      }
    }
  }
  outcome_->Fault(tier::FaultWord(fault.kind), fault.work,
                  fault.error == CUDA_SUCCESS ? "" : ErrorName(driver_, fault.error), sites);
}

void Replayer::ReportSteps() {
  if (!reporting_.load(std::memory_order_acquire)) return;
  const uint64_t steps = steps_.load(std::memory_order_relaxed);
  uint64_t reported = reported_steps_.load(std::memory_order_relaxed);
  if (steps == reported ||
      !reported_steps_.compare_exchange_strong(reported, steps, std::memory_order_relaxed))
    return;
  if (outcome_) outcome_->Steps(steps);
  if (run_log_ && run_log_->Due()) run_log_->Sample(Sample());
}

RunSample Replayer::Sample() {
  const std::shared_ptr<Space> space = AnySpace();
  RunSample sample;
  if (!space) {
    MutexLock lock(&mutex_);
    sample = last_sample_;
  }
  sample.planned = planned_;
  sample.dynamic = dynamic_;
  sample.native = native_;
  sample.steps = steps_;
  if (!space) return sample;
  sample.device_bytes = space->device_bytes();
  sample.peak_device_bytes = space->peak_device_bytes();
  if (space->swap()) sample.swap = space->swap()->Counters();
  if (space->prefetcher()) {
    sample.managed_in = space->prefetcher()->fetched_bytes();
    sample.managed_out = space->prefetcher()->evicted_bytes();
  }
  MutexLock lock(&mutex_);
  sample.peak_warm = warm_peak_bytes_;
  const bool on_host = space->swap() || !space->cold_on_device();
  sample.peak_cold_on_host = on_host ? cold_peak_bytes_ : 0;
  sample.peak_cold_on_device = on_host ? sample.swap.peak_device_bytes : cold_peak_bytes_;
  return sample;
}

void Replayer::Finish() {
  {
    MutexLock lock(&refusals_mutex_);
    if (refusals_ != nullptr) refusals_->Finish();
  }
  const std::shared_ptr<Space> space = AnySpace();
  if (!space) return;
  if (space->swap()) space->swap()->Finish();
  if (space->trial() && captures_.load(std::memory_order_relaxed) == 0) space->trial()->Check();
  if (run_log_) run_log_->Finish(Sample());
}

}  // namespace ebt::replay
