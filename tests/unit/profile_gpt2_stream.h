// What a recorder sees of GPT-2 medium under a stream-ordered allocator, made up from counts: a
// step of 2500 launches that name 3 to 8 blocks each, 5000 allocations and as many frees. The
// program of a step is the same each time; what differs is what differs in a real one: addresses
// (a free list hands them out), when some frees come, and the GPU's own times.
#ifndef EBBTIDE_TESTS_UNIT_PROFILE_GPT2_STREAM_H_
#define EBBTIDE_TESTS_UNIT_PROFILE_GPT2_STREAM_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "src/profile/writer.h"

namespace ebt::profile {

inline constexpr uint32_t kGpt2Launches = 2500, kGpt2Allocs = 5000;
inline constexpr uint32_t kGpt2Kernels = 80, kGpt2Sites = 900, kGpt2Held = 292 * 4;
inline constexpr uint32_t kGpt2LaunchesAMark = 64;
// 5000 allocations, 5000 frees, 2500 launches, and 40 marks of the GPU's time: 2500 / 64, up.
inline constexpr uint32_t kGpt2EventsAStep = 2 * kGpt2Allocs + kGpt2Launches + 40;

class Gpt2Stream {
 public:
  Gpt2Stream() {
    for (uint64_t& site : sites_) site = random_();
    for (uint64_t& shape : shapes_) shape = random_();
    for (uint32_t i = 0; i < kGpt2Allocs; ++i) steps_allocs_.push_back(MakeAlloc(i));
    for (uint32_t i = 0; i < kGpt2Launches; ++i) steps_launches_.push_back(MakeLaunch(i));
  }

  std::vector<callsite::Site> Sites() const {
    using callsite::Frame;
    std::vector<callsite::Site> all;
    for (uint32_t i = 0; i < kGpt2Sites; ++i) {
      callsite::Site site{.id = sites_[i]};
      for (uint32_t depth = 0; depth < 24; ++depth) {
        const uint32_t place = i / (1 + depth * 4);
        if (depth < 8) {
          site.frames.push_back({Frame::Kind::kNative, "8f3c21d07aa45be1", 4096 + place * 52u, "",
                                 "/usr/lib/python3/dist-packages/torch/lib/libtorch_cuda.so"});
        } else {
          site.frames.push_back({Frame::Kind::kPython, "torch/nn/modules/module.py",
                                 100 + place % 1700, "Module._call_impl", ""});
        }
      }
      all.push_back(std::move(site));
    }
    return all;
  }

  std::vector<std::string> Functions() const {
    std::vector<std::string> names;
    for (uint32_t i = 0; i < kGpt2Kernels; ++i) {
      names.push_back("_ZN2at6native29vectorized_elementwise_kernelILi4EE_" + std::to_string(i));
    }
    return names;
  }

  // What lives as long as the process: weights, gradients and the optimizer's state.
  template <typename Take>
  void SetUp(Take&& take) {
    for (uint32_t i = 0; i < kGpt2Held; ++i) {
      held_.push_back(next_block_);
      Allocate({uint64_t{1024} << (i % 13), sites_[i % 8]}, take);
    }
  }

  template <typename Take>
  void Step(Take&& take) {
    std::vector<uint32_t> blocks(kGpt2Allocs);
    std::vector<std::pair<uint32_t, uint32_t>> due;  // launch, slot
    for (uint32_t slot = 0; slot < kGpt2Allocs; ++slot) {
      const uint32_t late = random_() % 100 == 0 ? 1 + random_() % 3 : 0;
      due.emplace_back(std::min(steps_allocs_[slot].dies + late, kGpt2Launches - 1), slot);
    }
    std::stable_sort(due.begin(), due.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    size_t freed = 0;
    for (uint32_t i = 0; i < kGpt2Launches; ++i) {
      for (const uint32_t slot : {2 * i, 2 * i + 1}) {
        blocks[slot] = next_block_;
        Allocate(steps_allocs_[slot].what, take);
      }
      Launch(i, blocks, take);
      for (; freed < due.size() && due[freed].first == i; ++freed) {
        Free(blocks[due[freed].second], take);
      }
    }
  }

 private:
  struct What {
    uint64_t bytes = 0, site = 0;
  };
  struct StepAlloc {
    What what;
    uint32_t dies = 0;  // behind this launch
  };
  struct StepLaunch {
    uint32_t function = 0;
    uint64_t shape = 0;
    std::vector<uint32_t> slots, held;
  };

  // Half of forward's blocks are saved for backward, which frees them in the opposite order; all
  // others live for a few launches.
  StepAlloc MakeAlloc(uint32_t slot) {
    const uint32_t launch = slot / 2;
    const bool saved = launch < 800 && slot % 2 == 0;
    const uint32_t dies =
        saved ? 800 + (800 - launch) * 1500 / 800 : launch + uint32_t(random_() % 6);
    const uint64_t bytes = (1 + random_() % 40) * (uint64_t{512} << (random_() % 5 * 4));
    return {{bytes, sites_[8 + random_() % (kGpt2Sites - 8)]}, std::min(dies, kGpt2Launches - 1)};
  }

  StepLaunch MakeLaunch(uint32_t launch) {
    StepLaunch made{.function = uint32_t(random_() % kGpt2Kernels),
                    .shape = shapes_[random_() % std::size(shapes_)],
                    .slots = {2 * launch, 2 * launch + 1}};
    const uint64_t wanted = 3 + random_() % 6;
    for (uint64_t i = 2; i < wanted; ++i) {
      if (random_() % 2 == 0) {
        made.held.push_back(uint32_t(random_() % kGpt2Held));
      } else {
        made.slots.push_back(uint32_t(random_() % (2 * launch + 2)));
      }
    }
    return made;
  }

  template <typename Take>
  void Allocate(const What& what, Take& take) {
    std::vector<uint64_t>& free = free_[what.bytes];
    uint64_t address = end_;
    if (free.empty()) {
      end_ += what.bytes;
    } else {
      address = free.back();
      free.pop_back();
    }
    const uint32_t block = next_block_++;
    places_.emplace_back(address, what.bytes);
    alive_.push_back(true);
    take(EventRecord{.sequence = sequence_++,
                     .kind = RecordKind::kAlloc,
                     .alloc = AllocKind::kAsync,
                     .stream = 1,
                     .block = block,
                     .bytes = what.bytes,
                     .site = what.site,
                     .fingerprint = what.site * 0x9e3779b97f4a7c15,
                     .address = address});
  }

  template <typename Take>
  void Free(uint32_t block, Take& take) {
    alive_[block] = false;
    free_[places_[block].second].push_back(places_[block].first);
    take(EventRecord{
        .sequence = sequence_++, .kind = RecordKind::kFree, .stream = 1, .block = block});
  }

  template <typename Take>
  void Launch(uint32_t i, const std::vector<uint32_t>& blocks, Take& take) {
    const StepLaunch& launch = steps_launches_[i];
    std::vector<uint32_t> touched;
    for (const uint32_t slot : launch.slots) {
      if (alive_[blocks[slot]]) touched.push_back(blocks[slot]);
    }
    // A third input lives for certain.
    touched.push_back(held_[i % kGpt2Held]);
    for (const uint32_t held : launch.held) touched.push_back(held_[held]);
    std::sort(touched.begin(), touched.end());
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    take(EventRecord{.sequence = sequence_++,
                     .kind = RecordKind::kLaunch,
                     .stream = 1,
                     .function = launch.function,
                     .shape = launch.shape,
                     .touched = touched});
    gpu_ms_ += 0.05 + double(random_() % 1000) * 1e-6;
    if (i % kGpt2LaunchesAMark != 0) return;
    take(EventRecord{
        .sequence = sequence_++, .kind = RecordKind::kMark, .stream = 1, .gpu_ms = gpu_ms_});
  }

  std::mt19937_64 random_{20261130};
  uint64_t sites_[kGpt2Sites];
  uint64_t shapes_[300];
  std::vector<StepAlloc> steps_allocs_;
  std::vector<StepLaunch> steps_launches_;
  std::map<uint64_t, std::vector<uint64_t>> free_;  // by size
  std::vector<std::pair<uint64_t, uint64_t>> places_;
  std::vector<bool> alive_;
  std::vector<uint32_t> held_;
  uint64_t end_ = 0x7f0000000000;
  uint64_t sequence_ = 0;
  uint32_t next_block_ = 0;
  double gpu_ms_ = 0;
};

}  // namespace ebt::profile

#endif  // EBBTIDE_TESTS_UNIT_PROFILE_GPT2_STREAM_H_
