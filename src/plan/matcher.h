// Which slot of the plan an allocation is: pure data, no driver. Replay asks at run time, the
// planner when it plays a recording by its plan.
#ifndef EBBTIDE_SRC_PLAN_MATCHER_H_
#define EBBTIDE_SRC_PLAN_MATCHER_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "src/plan/plan.h"

namespace ebt::plan {

// Follows the run along the plan: its prologue once, then its step over and over. An allocation
// is recognised by its place in that order, its size and its fingerprint. Where those disagree
// the site decides which later slot it is, if any; the order goes on from there. The size of a
// variable slot says nothing: place and fingerprint, else the site, decide alone, and whether the
// block fits is for the caller to see. A wrong answer costs a planned place, never correctness. Not
// thread-safe.
class Matcher {
 public:
  // The plan must outlive the matcher. site: the calling thread's site (callsite::Capture),
  // asked only when order and fingerprint disagree.
  Matcher(const Plan& plan, std::function<uint64_t()> site);

  // The slot of the allocation that happens now, nullptr if the plan does not know it.
  const Slot* Next(uint64_t bytes, uint64_t fingerprint);

  // Whole steps gone through.
  uint64_t steps() const { return steps_; }
  // Where in the step the last known allocation was; nullptr in the prologue.
  const Slot* last() const { return last_; }
  uint64_t matched() const { return matched_; }
  uint64_t missed() const { return missed_; }

 private:
  using Indices = std::vector<uint32_t>;  // of slots in a sequence, ascending
  using Places = absl::flat_hash_map<uint64_t, Indices>;

  const Slot* FindInPrologue(uint64_t bytes, uint64_t site);
  const Slot* FindInStep(uint64_t bytes, uint64_t site);
  const Slot* TakePrologue(uint32_t at);
  const Slot* TakeStep(uint32_t at);

  const Plan& plan_;
  const std::function<uint64_t()> site_;
  Places prologue_places_, step_places_;  // by size: slots that are as large in every step
  Places variable_places_;                // of the step, by site
  bool in_step_ = false;
  uint32_t prologue_next_ = 0, step_next_ = 0;
  const Slot* last_ = nullptr;
  uint64_t steps_ = 0, matched_ = 0, missed_ = 0;
};

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_MATCHER_H_
