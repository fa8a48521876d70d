#include "src/runtime/engine.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "src/base/dump_signal.h"
#include "src/base/log.h"
#include "src/base/units.h"
#include "src/callsite/callsite.h"
#include "src/plan/usable_plan.h"
#include "src/runtime/coverage.h"

namespace ebt::runtime {
namespace {

std::vector<std::string_view> Environment() {
  std::vector<std::string_view> all;
  for (char** entry = environ; entry && *entry; ++entry) all.emplace_back(*entry);
  return all;
}

// What cold blocks may take of the host: what the user allows and is there, else half of it.
uint64_t HostBudget(const Config& config) {
  const uint64_t available = AvailableHostMemory();
  return config.host_budget > 0 ? std::min(config.host_budget, available) : available / 2;
}

void LogSwap(const tier::SwapCounters& swap) {
  if (swap.fetches + swap.missed_room + swap.missed_busy + swap.off_plan == 0) return;
  Log(LogLevel::kInfo,
      "swap: of {} planned fetches {} were used, {} found no room and {} the memory in use; {} "
      "touches off plan; waits: on the device {:.1f} ms for copies in and {:.1f} ms for copies "
      "out, on the host {:.1f} ms for room, {:.1f} ms for copies to be issued, {:.1f} ms off plan",
      swap.fetches + swap.missed_room + swap.missed_busy, swap.hits, swap.missed_room,
      swap.missed_busy, swap.off_plan, swap.waits_arrival_ms, swap.waits_departure_ms,
      swap.host_room_ms, swap.host_issue_ms, swap.host_off_plan_ms);
}

}  // namespace

Engine* Engine::Open(const ebt_front& front) {
  Config config = ParseConfig(Environment());
  SetLogLevel(config.log_level);
  for (const std::string& complaint : config.complaints) Log(LogLevel::kWarning, "{}", complaint);
  const bool counting = !config.coverage_path.empty();
  if (config.mode == Mode::kOff && !counting) return nullptr;
  std::unique_ptr<Engine> engine(new Engine(front, std::move(config)));
  auto driver = LoadDriverApi([&front](const char* symbol) { return front.real(symbol); });
  if (!driver.ok()) {
    Log(LogLevel::kWarning, "{}: the program runs natively", Message(driver.status()));
    return nullptr;
  }
  engine->driver_ = *driver;
  callsite::Initialize(front.libc_dlsym);
  if (engine->config_.mode == Mode::kReplay && !engine->PrepareReplay() && !counting)
    return nullptr;
  return engine.release();
}

bool Engine::PrepareReplay() {
  if (config_.plan_path.empty()) {
    Log(LogLevel::kWarning,
        "EBBTIDE_MODE=replay needs EBBTIDE_PLAN (make one with `ebbtide plan`): the program runs "
        "natively");
    return false;
  }
  // Every helper process of the job inherits the plan; only the job itself is expected to fit.
  auto plan = plan::ReadUsablePlan(config_.plan_path,
                                   {ProgramIdentity(), config_.budget, config_.cold == Cold::kOff});
  if (!plan.ok()) {
    Log(LogLevel::kWarning, "{}: the program runs natively", Message(plan.status()));
    return false;
  }
  const uint64_t budget = config_.budget > 0 ? config_.budget : plan->budget;
  replay::ReplayOptions options;
  options.cold = config_.cold;
  options.trial_path = config_.trial_path;
  options.trial_sites = config_.trial_sites;
  options.run_log_path = config_.run_log_path;
  options.plan_path = config_.plan_path;
  options.dump_path = config_.dump_path;
  options.budget = budget;
  options.host_budget = HostBudget(config_);
  options.guard = front_.guard;
  replayer_ = std::make_unique<replay::Replayer>(driver_, *std::move(plan), std::move(options));
  return true;
}

record::Recorder* Engine::recorder() {
  record::Recorder* recorder = recorder_.load(std::memory_order_acquire);
  if (recorder || config_.mode != Mode::kRecord) return recorder;
  return CreateRecorder();
}

record::Recorder* Engine::CreateRecorder() {
  MutexLock lock(&mutex_);
  if (recorder_tried_) return recorder_.load(std::memory_order_relaxed);
  recorder_tried_ = true;
  record::RecorderOptions options;
  options.path = config_.profile_path;
  options.stop_after_steps = static_cast<uint64_t>(config_.record_steps);
  if (!config_.step_kernel.empty()) options.metadata["step_kernel"] = config_.step_kernel;
  options.guard = front_.guard;
  options.dump_path = config_.dump_path;
  auto recorder = record::Recorder::Create(driver_, std::move(options));
  if (!recorder.ok()) {
    Log(LogLevel::kWarning, "{}: nothing is recorded", Message(recorder.status()));
    return nullptr;
  }
  if (config_.dump_signal > 0) CatchDumpSignal(config_.dump_signal);
  recorder_owner_ = *std::move(recorder);
  recorder_.store(recorder_owner_.get(), std::memory_order_release);
  return recorder_owner_.get();
}

bool Engine::IsPrimary(CUcontext context) const {
  int devices = 0;
  driver_.fn_cuDeviceGetCount(&devices);
  for (CUdevice device = 0; device < devices; ++device)
    if (context && Primary(device) == context) return true;
  return false;
}

void Engine::ReleasingPrimary(CUdevice device) {
  const CUcontext context = Primary(device);
  MutexLock lock(&mutex_);
  releasing_[device] = context;
}

CUcontext Engine::PrimaryThatEnded(CUdevice device) {
  if (PrimaryContextIsActive(driver_, device)) return nullptr;
  MutexLock lock(&mutex_);
  const auto at = releasing_.find(device);
  if (at == releasing_.end()) return nullptr;
  const CUcontext ended = at->second;
  releasing_.erase(at);
  return ended;
}

ebbtide_statistics Engine::Statistics() {
  if (replayer_) return replayer_->Statistics();
  return {};
}

void Engine::AfterFork() {
  callsite::AfterFork();
  if (record::Recorder* recorder = recorder_.load(std::memory_order_acquire)) recorder->AfterFork();
}

void Engine::Exiting() {
  if (record::Recorder* recorder = recorder_.load(std::memory_order_acquire)) recorder->Close();
  // A child that was forked without exec has none of our threads and none of the driver.
  if (getpid() != pid_) return;
  if (!config_.coverage_path.empty()) WriteCoverage(front_, config_.coverage_path);
  if (!replayer_) return;
  replayer_->Finish();
  const ebbtide_statistics s = replayer_->Statistics();
  Log(LogLevel::kInfo,
      "{} steps; allocations: {} planned, {} dynamic, {} native; device peak {}, cold peak {}, "
      "fetched {}, evicted {}",
      s.steps, s.allocations_planned, s.allocations_dynamic, s.allocations_native,
      FormatSize(s.device_bytes_peak), FormatSize(s.cold_bytes_peak),
      FormatSize(s.prefetched_bytes), FormatSize(s.evicted_bytes));
  LogSwap(replayer_->Sample().swap);
}

}  // namespace ebt::runtime
