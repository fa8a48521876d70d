// Recordings made on paper: a builder that keeps the event indices straight, and a
// transformer-like training run built with it.
#ifndef EBBTIDE_TESTS_UNIT_TRAINING_PROFILE_H_
#define EBBTIDE_TESTS_UNIT_TRAINING_PROFILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/profile/types.h"

namespace ebt::profile {

class ProfileBuilder {
 public:
  uint32_t Alloc(uint64_t bytes, uint64_t site, AllocKind kind = AllocKind::kAsync) {
    Block block;
    block.id = uint32_t(profile.blocks.size());
    block.site = site;
    block.fingerprint = site * 16;
    block.bytes = bytes;
    block.kind = kind;
    block.alloc_at = profile.events.size();
    profile.blocks.push_back(block);
    profile.events.push_back({.kind = EventKind::kAlloc, .block = block.id});
    return block.id;
  }
  void Free(uint32_t block) {
    profile.blocks[block].free_at = profile.events.size();
    profile.events.push_back({.kind = EventKind::kFree, .block = block});
  }
  void Launch(uint32_t function, std::vector<uint32_t> touched, uint64_t shape = 1) {
    profile.events.push_back({.kind = EventKind::kLaunch,
                              .function = function,
                              .shape = shape,
                              .touched = std::move(touched)});
    ++launches;
  }
  void Copy(uint32_t dst, CopyKind kind = CopyKind::kHtoD) {
    profile.events.push_back({.kind = EventKind::kCopy, .copy = kind, .touched = {dst}});
  }
  // GPU time passes: one millisecond a launch.
  void Mark() { profile.events.push_back({.kind = EventKind::kMark, .gpu_ms = double(launches)}); }
  void Step() { profile.events.push_back({.kind = EventKind::kStep}); }

  Profile profile;
  uint64_t launches = 0;
};

enum class Optimizer { kFused, kForeach, kLoop };

struct TrainingShape {
  int layers = 4;
  int steps = 5;
  Optimizer optimizer = Optimizer::kFused;
  bool frees_gradients = true;  // in the next step's begin, as set_to_none does
  bool marks_steps = false;
  int inference_passes = 0;  // behind the training
  uint64_t weight = uint64_t{1} << 20;
  uint64_t activation = uint64_t{2} << 20;
  uint64_t scratch = uint64_t{1} << 19;
};

// Functions of the launches, sites of the allocations.
enum : uint32_t { kInit, kForward, kGelu, kLoss, kBackward, kAdam, kSquare, kChecksum, kZero };
enum : uint64_t {
  kWeightSite = 1,
  kScratchSite,
  kActivationSite,
  kGradientSite,
  kStateSite,
  kBatchSite,
  kLossSite,
  kOptimizerScratchSite,
};

// Launches of a step: two a layer forward, the loss, one a layer backward, then the optimizer:
// 1 (fused), 4 (foreach) or 3 a layer (loop).
//
// Memory: a step holds a batch (activation bytes) and, layer by layer, an activation each, plus
// one scratch block within a layer; backward frees them and makes a gradient (weight bytes) a
// layer. Optimizer state is two blocks of weight bytes a layer, made in the first step.
class Training : public ProfileBuilder {
 public:
  explicit Training(const TrainingShape& shape) : shape_(shape) {
    profile.metadata = {{"program", "train.py"}, {"gpu", "paper"}};
    AddSites();
    for (int i = 0; i < shape.layers; ++i) {
      weights_.push_back(Alloc(shape.weight, kWeightSite));
      Launch(kInit, {weights_.back()});
    }
    Mark();
    for (int i = 0; i < shape.steps; ++i) TrainStep();
    for (int i = 0; i < shape.inference_passes; ++i) Infer();
    Launch(kChecksum, weights_);
    Mark();
  }

  uint64_t StepLaunches() const {
    const uint64_t layers = uint64_t(shape_.layers);
    const uint64_t optimizer = shape_.optimizer == Optimizer::kFused     ? 1
                               : shape_.optimizer == Optimizer::kForeach ? 4
                                                                         : 3 * layers;
    return 3 * layers + 1 + optimizer + (shape_.frees_gradients ? 0 : 1);
  }

 private:
  void AddSites() {
    auto add = [&](uint64_t id, const char* file, uint64_t line, const char* function) {
      using callsite::Frame;
      Frame native{Frame::Kind::kNative, "ab12", 64, "cudaMallocAsync", "/lib/libcudart.so"};
      Frame python{Frame::Kind::kPython, file, line, function, ""};
      profile.sites.push_back({id, {native, python}});
    };
    add(kWeightSite, "/usr/lib/nn/modules/linear.py", 12, "__init__");
    add(kActivationSite, "/usr/lib/nn/modules/gelu.py", 34, "forward");
    add(kGradientSite, "/usr/lib/autograd/engine.py", 56, "backward");
    add(kStateSite, "/usr/lib/torch/optim/adamw.py", 128, "_init_group");
  }

  void TrainStep() {
    if (shape_.marks_steps) Step();
    if (shape_.frees_gradients) FreeGradients();
    const uint32_t batch = Alloc(shape_.activation, kBatchSite);
    Copy(batch);
    std::vector<uint32_t> activations = {batch};
    for (uint32_t weight : weights_) {
      const uint32_t scratch = Alloc(shape_.scratch, kScratchSite);
      Launch(kForward, {weight, activations.back(), scratch});
      const uint32_t activation = Alloc(shape_.activation, kActivationSite);
      Launch(kGelu, {scratch, activation});
      Free(scratch);
      activations.push_back(activation);
    }
    const uint32_t loss = Alloc(512, kLossSite);
    Launch(kLoss, {activations.back(), loss});
    if (!shape_.frees_gradients && !gradients_.empty()) Launch(kZero, gradients_);
    Backward(activations);
    Free(batch);
    Optimize();
    Free(loss);
    Mark();
  }

  void Backward(const std::vector<uint32_t>& activations) {
    const bool first = gradients_.empty();
    if (first && !shape_.frees_gradients) Launch(kZero, {});
    for (size_t i = weights_.size(); i-- > 0;) {
      if (first) gradients_.push_back(Alloc(shape_.weight, kGradientSite));
      const uint32_t gradient = gradients_[weights_.size() - 1 - i];
      Launch(kBackward, {weights_[i], activations[i + 1], activations[i], gradient});
      Free(activations[i + 1]);
    }
  }

  void Optimize() {
    const bool first = states_.empty();
    for (size_t i = 0; first && i < 2 * weights_.size(); ++i) {
      states_.push_back(Alloc(shape_.weight, kStateSite));
      Launch(kInit, {states_.back()});
    }
    std::vector<uint32_t> all = weights_;
    all.insert(all.end(), gradients_.begin(), gradients_.end());
    all.insert(all.end(), states_.begin(), states_.end());
    if (shape_.optimizer == Optimizer::kFused) Launch(kAdam, all);
    for (uint64_t i = 0; shape_.optimizer == Optimizer::kForeach && i < 4; ++i) {
      Launch(kAdam, all, i);
    }
    for (size_t i = 0; shape_.optimizer == Optimizer::kLoop && i < weights_.size(); ++i) {
      const uint32_t scratch = Alloc(shape_.weight, kOptimizerScratchSite);
      const uint32_t gradient = gradients_[weights_.size() - 1 - i];
      Launch(kSquare, {gradient, states_[2 * i], scratch});
      Launch(kAdam, {states_[2 * i], scratch}, 1);
      Launch(kAdam, {weights_[i], states_[2 * i], states_[2 * i + 1]}, 2);
      Free(scratch);
    }
  }

  void FreeGradients() {
    for (uint32_t gradient : gradients_) Free(gradient);
    gradients_.clear();
  }

  void Infer() {
    uint32_t last = Alloc(shape_.activation, kBatchSite);
    for (uint32_t weight : weights_) {
      const uint32_t next = Alloc(shape_.activation, kActivationSite);
      Launch(kForward, {weight, last, next});
      Launch(kGelu, {next});
      Free(last);
      last = next;
    }
    Free(last);
  }

  TrainingShape shape_;
  std::vector<uint32_t> weights_, gradients_, states_;
};

}  // namespace ebt::profile

#endif  // EBBTIDE_TESTS_UNIT_TRAINING_PROFILE_H_
