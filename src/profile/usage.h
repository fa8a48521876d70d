// How work uses the blocks that outlive a step. No framework is known here, only who is named
// together with whom.
//
// A launch that names a persistent block is an *update* when every other block it names is as
// large as a persistent one that it names too: an optimizer reads and writes parameters, their
// gradients and its state element by element. Otherwise it is *model use*: a product, a
// normalization or a convolution names activations, whose sizes are the batch's. A parameter has
// both, an optimizer's state has updates alone. A block is persistent when it lives through the
// ends of two windows that update the same parameters: a gradient sees one, an activation none.
#ifndef EBBTIDE_SRC_PROFILE_USAGE_H_
#define EBBTIDE_SRC_PROFILE_USAGE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "src/profile/types.h"

namespace ebt::profile {

// The events that name each block, ascending. Launches, graphs and copies.
class BlockTouches {
 public:
  explicit BlockTouches(const Profile& profile);
  std::span<const uint32_t> Of(uint32_t block) const {
    return {events_.data() + begin_[block], begin_[block + 1] - begin_[block]};
  }

 private:
  std::vector<uint64_t> begin_;
  std::vector<uint32_t> events_;
};

struct Usage {
  enum class Use : uint8_t { kNone, kModel, kUpdate };
  // The launches with which an optimizer goes through its parameters: the events [begin, end).
  struct Window {
    uint64_t begin = 0, end = 0;
    uint64_t bytes = 0;             // of the parameters in it
    std::vector<uint32_t> updated;  // parameters, ascending
    // Windows of one group update the same parameters, or some of the same: an optimizer's.
    uint32_t group = 0;
  };

  std::vector<uint64_t> launches_before;  // by event, and one behind the last
  std::vector<bool> persistent;           // by block
  std::vector<Use> use;                   // by event
  std::vector<bool> in_model;             // by block: persistent, and the model uses it
  std::vector<Window> windows;            // in order, apart from each other
};

// Metadata: part of a kernel's name. Its launches up to the next model use are then a window,
// and nothing else is.
inline constexpr char kStepKernelKey[] = "step_kernel";

Usage FindUsage(const Profile& profile, const BlockTouches& touches);

}  // namespace ebt::profile

#endif  // EBBTIDE_SRC_PROFILE_USAGE_H_
