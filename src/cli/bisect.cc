#include "src/cli/bisect.h"

#include <algorithm>
#include <optional>

#include "fmt/format.h"

namespace ebt::cli {
namespace {

using Sites = std::vector<uint64_t>;

bool Contains(const Sites& sites, uint64_t site) {
  return std::find(sites.begin(), sites.end(), site) != sites.end();
}

std::string FaultText(const TrialFault& fault) {
  return fault.launch.empty() ? fault.error : fmt::format("{} at {}", fault.error, fault.launch);
}

class Search {
 public:
  explicit Search(const Trials& trials) : trials_(trials) {}

  // known: how a run with what is cleared and `chunk` failed; none: it has not been tried.
  absl::Status Try(Sites chunk, std::optional<TrialFault> known) {
    while (!known) {
      if (chunk.empty()) return absl::OkStatus();
      const absl::StatusOr<TrialResult> result = RunWith(chunk);
      if (!result.ok()) return result.status();
      if (result->verdict == TrialResult::Verdict::kPassed) {
        findings_.cleared.insert(findings_.cleared.end(), chunk.begin(), chunk.end());
        findings_.steps = result->steps;
        return absl::OkStatus();
      }
      const bool narrowed = result->verdict == TrialResult::Verdict::kUnwatched
                                ? Refuse(result->untouched, true, {}, &chunk)
                                : Refuse(result->fault.sites, false, result->fault, &chunk);
      if (narrowed) continue;
      if (result->verdict == TrialResult::Verdict::kUnwatched) return TooShort();
      if (absl::Status native = RunWithNothing(); !native.ok()) return native;
      known = result->fault;
    }
    return Split(chunk, *known);
  }

  Findings findings_;

 private:
  absl::StatusOr<TrialResult> RunWith(const Sites& chunk) const {
    Sites sites = findings_.cleared;
    sites.insert(sites.end(), chunk.begin(), chunk.end());
    return trials_(sites);
  }

  // Moves what of `sites` is in the chunk over to the refused ones; false: nothing is.
  bool Refuse(const Sites& sites, bool untouched, const TrialFault& fault, Sites* chunk) {
    const size_t before = chunk->size();
    for (uint64_t site : sites) {
      if (!Contains(*chunk, site)) continue;
      findings_.refused.push_back({site, untouched, fault});
      chunk->erase(std::remove(chunk->begin(), chunk->end(), site), chunk->end());
    }
    return chunk->size() < before;
  }

  absl::Status RunWithNothing() {
    if (native_known_) return absl::OkStatus();
    const absl::StatusOr<TrialResult> result = trials_({});
    if (!result.ok()) return result.status();
    if (result->verdict == TrialResult::Verdict::kFailed)
      return absl::FailedPreconditionError(
          fmt::format("CMD itself fails, with no site on trial: {}", FaultText(result->fault)));
    native_known_ = true;
    return absl::OkStatus();
  }

  static absl::Status TooShort() {
    return absl::FailedPreconditionError(
        "too few steps to watch: CMD ended before a steady step was over; let it run longer");
  }

  absl::Status Split(const Sites& chunk, const TrialFault& fault) {
    if (chunk.size() == 1) {
      findings_.refused.push_back({chunk[0], false, fault});
      return absl::OkStatus();
    }
    const auto middle = chunk.begin() + static_cast<std::ptrdiff_t>(chunk.size() / 2);
    const Sites first(chunk.begin(), middle), second(middle, chunk.end());
    const size_t cleared = findings_.cleared.size();
    if (absl::Status status = Try(first, std::nullopt); !status.ok()) return status;
    // All of the first half cleared: then the second one together with it is the run that failed.
    if (findings_.cleared.size() == cleared + first.size()) return Try(second, fault);
    return Try(second, std::nullopt);
  }

  const Trials& trials_;
  bool native_known_ = false;
};

}  // namespace

absl::StatusOr<Findings> FindHiddenAccesses(const std::vector<uint64_t>& sites,
                                            const Trials& trials) {
  Search search(trials);
  if (absl::Status status = search.Try(sites, std::nullopt); !status.ok()) return status;
  return std::move(search.findings_);
}

}  // namespace ebt::cli
