#include "src/plan/matcher.h"

#include <algorithm>
#include <utility>

namespace ebt::plan {
namespace {

bool Agrees(const Slot& slot, uint64_t bytes, uint64_t fingerprint) {
  if (slot.variable()) {
    return (slot.dynamic || bytes <= slot.room_bytes) &&
           (slot.fingerprint == fingerprint || slot.fingerprint == 0);
  }
  return slot.bytes == bytes &&
         (slot.fingerprint == fingerprint || slot.fingerprint == 0 || fingerprint == 0);
}

}  // namespace

Matcher::Matcher(const Plan& plan, std::function<uint64_t()> site)
    : plan_(plan), site_(std::move(site)) {
  for (uint32_t i = 0; i < plan_.prologue.size(); ++i) {
    prologue_places_[plan_.prologue[i].bytes].push_back(i);
  }
  for (uint32_t i = 0; i < plan_.step.size(); ++i) {
    const Slot& slot = plan_.step[i];
    (slot.variable() ? variable_places_[slot.site] : step_places_[slot.bytes]).push_back(i);
  }
}

const Slot* Matcher::TakePrologue(uint32_t at) {
  prologue_next_ = at + 1;
  return &plan_.prologue[at];
}

const Slot* Matcher::TakeStep(uint32_t at) {
  if (in_step_ && at < step_next_) ++steps_;
  in_step_ = true;
  step_next_ = at + 1;
  if (step_next_ == plan_.step.size()) {
    step_next_ = 0;
    ++steps_;
  }
  last_ = &plan_.step[at];
  return last_;
}

const Slot* Matcher::Next(uint64_t bytes, uint64_t fingerprint) {
  const auto in_order = [&](const std::vector<Slot>& sequence, uint32_t next) {
    return next < sequence.size() && Agrees(sequence[next], bytes, fingerprint);
  };
  if (prologue_next_ == plan_.prologue.size()) in_step_ = true;
  const Slot* slot = nullptr;
  if (!in_step_ && in_order(plan_.prologue, prologue_next_)) {
    slot = TakePrologue(prologue_next_);
  } else if (in_step_ && in_order(plan_.step, step_next_)) {
    slot = TakeStep(step_next_);
  } else if (prologue_places_.contains(bytes) || step_places_.contains(bytes) ||
             !variable_places_.empty()) {
    // Set-up that came late (a lazily made optimizer state after a warm-up that the recording
    // did not have) is still set-up, so both sequences are asked, the present one first.
    const uint64_t site = site_();
    slot = in_step_ ? FindInStep(bytes, site) : FindInPrologue(bytes, site);
    if (!slot) slot = in_step_ ? FindInPrologue(bytes, site) : FindInStep(bytes, site);
  }
  ++(slot ? matched_ : missed_);
  return slot;
}

const Slot* Matcher::FindInPrologue(uint64_t bytes, uint64_t site) {
  const auto places = prologue_places_.find(bytes);
  if (places == prologue_places_.end()) return nullptr;
  const Indices& indices = places->second;
  for (auto at = std::lower_bound(indices.begin(), indices.end(), prologue_next_);
       at != indices.end(); ++at) {
    if (plan_.prologue[*at].site == site) return TakePrologue(*at);
  }
  return nullptr;
}

const Slot* Matcher::FindInStep(uint64_t bytes, uint64_t site) {
  const auto slots = uint32_t(plan_.step.size());
  uint32_t nearest = slots;  // how far ahead, round the step's end
  for (const auto& [places, key] :
       {std::pair(&step_places_, bytes), std::pair(&variable_places_, site)}) {
    const auto found = places->find(key);
    if (found == places->end()) continue;
    const Indices& indices = found->second;
    const size_t first =
        std::lower_bound(indices.begin(), indices.end(), step_next_) - indices.begin();
    for (size_t i = 0; i < indices.size(); ++i) {
      const uint32_t at = indices[(first + i) % indices.size()];
      if (plan_.step[at].site != site) continue;
      nearest = std::min(nearest, (at + slots - step_next_) % slots);
      break;
    }
  }
  return nearest == slots ? nullptr : TakeStep((step_next_ + nearest) % slots);
}

}  // namespace ebt::plan
