#include "src/profile/snapshot_advice.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/units.h"

namespace ebt::profile {
namespace {

using Sentences = std::vector<std::string>;

int Percent(double share) { return static_cast<int>(share * 100 + 0.5); }

double Share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : double(part) / double(whole);
}

std::string PlanCommand(const Snapshot& it) {
  const auto profile = it.metadata.find("profile");
  return fmt::format("`ebbtide plan {} --budget SIZE`",
                     profile == it.metadata.end() ? "PROFILE" : profile->second);
}

// What would be free of the device if this process held nothing.
uint64_t MostThatCouldBeFree(const Snapshot& it) {
  return it.total_bytes - std::min(it.total_bytes, it.OthersBytes());
}

// True: no freeing would have helped, and the rest need not be said.
bool OfOneHugePiece(const Snapshot& it, Sentences& out) {
  const bool never =
      it.refusal && it.total_bytes > 0 && it.refusal->bytes > MostThatCouldBeFree(it);
  if (!never && !MayBeAProbe(it)) return false;
  out.push_back(fmt::format(
      "{} at once is {}. A library that asks to find out how much there is goes on with less, and "
      "nothing needs to be done; otherwise look at the size that the site of the request works "
      "out.",
      FormatSize(it.refusal->bytes),
      never ? fmt::format("more than the device could give if this process held nothing ({})",
                          FormatSize(MostThatCouldBeFree(it)))
            : std::string("most of the device")));
  return never;
}

void OfOthers(const Snapshot& it, Sentences& out) {
  const uint64_t others = it.OthersBytes();
  if (double(others) < kMuchOfDevice * double(it.total_bytes) || others == 0) return;
  out.push_back(
      fmt::format("{} of the device's {} are in use beside this process's blocks: by its context "
                  "and kernels (some hundred MiB) and by other processes, which nvidia-smi lists.",
                  FormatSize(others), FormatSize(it.total_bytes)));
}

void OfScatteredMemory(const Snapshot& it, Sentences& out) {
  if (!it.fragmentation) return;
  const SnapshotFragmentation& f = *it.fragmentation;
  const bool enough = it.refusal && f.free_bytes + it.free_bytes >= it.refusal->bytes;
  const bool much = double(f.free_bytes) >= kMuchFreePart * double(it.live_bytes);
  if (f.free_bytes == 0 || f.Share() < kScattered || !(enough || much)) return;
  out.push_back(fmt::format(
      "{} lie free between live blocks in {} pieces, the largest of {}. Fixed places avoid that: "
      "{} packs the recorded blocks, `ebbtide run` keeps to it.",
      FormatSize(f.free_bytes), f.pieces, FormatSize(f.largest_free_bytes), PlanCommand(it)));
}

void OfIdleMemory(const Snapshot& it, Sentences& out) {
  if (!it.idle_bytes || double(*it.idle_bytes) < kMuchIdle * double(it.live_bytes) ||
      *it.idle_bytes == 0) {
    return;
  }
  out.push_back(fmt::format(
      "{} ({} %) of what is live was not touched for more than half a step: {} says what the step "
      "takes if such memory waits on the host.",
      FormatSize(*it.idle_bytes), Percent(Share(*it.idle_bytes, it.live_bytes)), PlanCommand(it)));
}

void OfPersistentMemory(const Snapshot& it, Sentences& out) {
  if (!it.persistent_bytes || it.live_bytes == 0) return;
  const double share = Share(*it.persistent_bytes, it.live_bytes);
  const bool idle_is_said = !out.empty() && it.idle_bytes && *it.idle_bytes > 0;
  if (share >= kMost && !idle_is_said) {
    out.push_back(fmt::format(
        "{} ({} %) have lived through whole steps (parameters, optimizer state and the like): {} "
        "says what of it can wait on the host. Without Ebbtide: an optimizer with less state, "
        "parameters of a narrower type, or sharding over ranks.",
        FormatSize(*it.persistent_bytes), Percent(share), PlanCommand(it)));
  } else if (1 - share >= kMost) {
    out.push_back(fmt::format(
        "{} ({} %) were allocated within the last step (activations, gradients, temporaries): a "
        "smaller batch with accumulation, checkpointing of activations, or a narrower type.",
        FormatSize(it.live_bytes - *it.persistent_bytes), Percent(1 - share)));
  } else if (share >= kMuchPersistent && !idle_is_said) {
    out.push_back(
        fmt::format("{} have lived through whole steps: {} says what of it can wait on "
                    "the host.",
                    FormatSize(*it.persistent_bytes), PlanCommand(it)));
  }
}

void OfOneSite(const Snapshot& it, Sentences& out) {
  if (it.sites.largest.empty() || it.live_bytes == 0) return;
  const SnapshotSite& first = it.sites.largest.front();
  if (first.site == 0 || double(first.bytes) < kMost * double(it.live_bytes)) return;
  out.push_back(fmt::format("One site holds {} in {} blocks ({} %): begin there.",
                            FormatSize(first.bytes), first.blocks,
                            Percent(Share(first.bytes, it.live_bytes))));
}

void OfGrowth(const Snapshot& it, Sentences& out) {
  std::vector<uint64_t> peaks;
  for (const SnapshotStep& step : it.steps)
    if (step.whole && step.by != StepsBy::kLaunches) peaks.push_back(step.peak_bytes);
  constexpr size_t kFewSteps = 4;
  if (peaks.size() < kFewSteps) return;
  if (double(peaks.back()) < double(peaks.front()) * (1 + kGrowth)) return;
  for (size_t i = 1; i < peaks.size(); ++i)
    if (peaks[i] <= peaks[i - 1]) return;
  out.push_back(fmt::format(
      "Each of the last {} steps took more than the one before it, {} in all: something keeps what "
      "it should let go (a list of losses with their graphs, a cache).",
      peaks.size(), FormatSize(peaks.back() - peaks.front())));
}

void OfPlan(const Snapshot& it, Sentences& out) {
  if (!it.plan) return;
  const SnapshotPlan& plan = *it.plan;
  if (plan.dynamic > 0 && Share(plan.dynamic, it.live_bytes) >= kMuchBesidePlan) {
    out.push_back(fmt::format(
        "{} are live beside the plan: the job does something that its recording did not hold. "
        "Record it again, with that in it, and plan anew.",
        FormatSize(plan.dynamic)));
  }
  out.push_back(
      fmt::format("Plan with a smaller budget than {}: more waits on the host then.",
                  plan.budget > 0 ? FormatSize(plan.budget) : "all of the device (--budget SIZE)"));
}

}  // namespace

std::vector<std::string> Advice(const Snapshot& snapshot) {
  Sentences out;
  if (OfOneHugePiece(snapshot, out)) return out;
  OfOthers(snapshot, out);
  OfScatteredMemory(snapshot, out);
  if (snapshot.plan) {
    OfPlan(snapshot, out);
  } else {
    Sentences living;
    OfIdleMemory(snapshot, living);
    OfPersistentMemory(snapshot, living);
    out.insert(out.end(), living.begin(), living.end());
  }
  OfGrowth(snapshot, out);
  OfOneSite(snapshot, out);
  if (out.empty()) {
    out.push_back(
        fmt::format("Nothing stands out: {} says what planning the recorded steps saves; "
                    "a smaller batch always does.",
                    PlanCommand(snapshot)));
  }
  return out;
}

}  // namespace ebt::profile
