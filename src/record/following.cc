#include "src/record/following.h"

#include <chrono>
#include <mutex>

#include "src/base/config.h"

namespace ebt::record {
namespace {

using std::chrono::milliseconds;

constexpr uint32_t kBareLaunches = 64;
constexpr auto kLongestTelling = milliseconds(200);
constexpr int64_t kMostTellingUs = 250000;  // all threads and the whole recording together

}  // namespace

Origin OriginOf(const RecorderState& state, uint64_t bytes) {
  const uint64_t fingerprint = state.options.fingerprint();
  // The sites are there once it watches, which is later than that it no longer records.
  if (!Recording(state) && state.watching.load(std::memory_order_acquire) && fingerprint != 0) {
    const auto known = state.known_sites.find(SiteKey(fingerprint, bytes));
    if (known != state.known_sites.end() && known->second != 0) return {known->second, fingerprint};
  }
  return {state.options.site(), fingerprint};
}

uint32_t CountBareLaunch(RecorderState& state) {
  const uint32_t launches = state.bare_launches.fetch_add(1, std::memory_order_relaxed) + 1;
  return launches >= kBareLaunches ? TakeBareLaunches(state) : 0;
}

void AwaitTold(RecorderState& state) {
  if (state.options.dump_path == kNoDump) return;
  const uint64_t refusal = state.refusals.fetch_add(1) + 1;
  state.Wake();
  if (state.telling_us.load(std::memory_order_relaxed) >= kMostTellingUs) return;
  const auto start = std::chrono::system_clock::now();
  {
    std::unique_lock lock(state.mutex);
    state.told.wait_until(lock, start + kLongestTelling,
                          [&] { return state.refusals_told >= refusal || state.finished; });
  }
  state.telling_us += std::chrono::duration_cast<std::chrono::microseconds>(
                          std::chrono::system_clock::now() - start)
                          .count();
}

}  // namespace ebt::record
