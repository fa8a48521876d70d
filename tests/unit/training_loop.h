// Training loops with everything that keeps steps from being equal. The loop knows its own steps
// and blocks: what it says is true by construction, not by detection.
#ifndef EBBTIDE_TESTS_UNIT_TRAINING_LOOP_H_
#define EBBTIDE_TESTS_UNIT_TRAINING_LOOP_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "src/profile/kinds.h"
#include "src/profile/step_spans.h"
#include "tests/unit/training_profile.h"

namespace ebt::profile {

struct LoopShape {
  int layers = 6;
  bool checkpoints = false;  // backward computes each layer's activations again
  bool clips = false;        // the gradients' norm, before the optimizer
  bool scales = false;       // a flag for infinite gradients, a scale behind the optimizer
  bool marks = false;        // ebbtide_step() and ebbtide_phase()
};

// A step, as the loop made it.
struct TrueSpan {
  uint64_t begin = 0;  // launches before it
  uint64_t launches = 0;
  StepKind kind = StepKind::kTraining;
};

class TrainingLoop : public ProfileBuilder {
 public:
  // What the launches' functions are called. Their numbers are those of the profile's functions.
  enum Function : uint32_t {
    kFill,
    kMatmul,
    kActivate,
    kPad,
    kCrossEntropy,
    kCrossEntropyBack,
    kActivateBack,
    kInputGradient,
    kWeightGradient,
    kAccumulate,
    kNorm,
    kCheckInfinite,
    kFirstMoment,
    kSecondMoment,
    kUpdate,
    kUpdateScale,
    kFunctions
  };

  struct Model {
    std::vector<uint32_t> weights, gradients, first, second;
    uint64_t weight = 0;  // bytes of the first; each further one has 4 KiB more
    bool frozen = false;
  };

  explicit TrainingLoop(const LoopShape& shape = {}) : shape_(shape) {
    for (uint32_t i = 0; i < kFunctions; ++i) {
      profile.functions.push_back({i, "kernel_" + std::to_string(i)});
    }
    profile.functions[kUpdate].name = "apply_update";
    if (shape.scales) scale_ = Block(4, 90, Kind::kUnknown);
    model = MakeModel(uint64_t{1} << 20);
  }

  // Set-up of a model: weights are made and filled.
  Model MakeModel(uint64_t weight) {
    Model made{.weight = weight};
    for (int i = 0; i < shape_.layers; ++i) {
      made.weights.push_back(Block(weight + uint64_t(i) * 4096, 1, Kind::kParameter));
      Launch(kFill, {made.weights.back()});
    }
    return made;
  }

  // A whole step of one model: zeroed gradients, micro-steps, optimizer.
  void Step(uint64_t length = 8, int micro_steps = 1, bool optimizes = true) {
    Begin(optimizes ? StepKind::kTraining : StepKind::kSkipped);
    FreeGradients(model);
    for (int i = 0; i < micro_steps; ++i) ForwardAndBackward(model, length);
    Clip(model);
    if (optimizes) Optimize(model);
    UpdateScale();
    End();
  }

  void Evaluate(int batches, uint64_t length = 8) {
    Begin(StepKind::kEvaluation);
    for (int i = 0; i < batches; ++i) Infer(model, length);
    End();
  }

  // The parts, for loops of another make.
  void Begin(StepKind kind) {
    if (shape_.marks) Step_();
    spans.push_back({.begin = launches, .kind = kind});
  }
  void End() { spans.back().launches = launches - spans.back().begin; }

  void ForwardAndBackward(Model& trained, uint64_t length) {
    Phase("forward");
    const uint32_t batch = Batch(length);
    std::vector<uint32_t> inputs = {batch}, hidden;
    for (uint32_t weight : trained.weights) {
      const auto [h, y] = Layer(weight, inputs.back(), length, true);
      hidden.push_back(h);
      inputs.push_back(y);
      if (shape_.checkpoints) Free(h);
    }
    const uint32_t loss = Block(4, 5, Kind::kUnknown);
    Launch(kCrossEntropy, {inputs.back(), loss}, length);
    Phase("backward");
    uint32_t gradient = Block(Bytes(length), 6, Kind::kTemporary);
    Launch(kCrossEntropyBack, {inputs.back(), loss, gradient}, length);
    Free(loss);
    const bool accumulates = !trained.gradients.empty();
    for (size_t i = trained.weights.size(); i-- > 0;) {
      gradient = LayerBack(trained, i, inputs, hidden, gradient, length, accumulates);
    }
    Free(gradient);
    Free(batch);
  }

  void Infer(const Model& used, uint64_t length) {
    uint32_t x = Batch(length);
    for (uint32_t weight : used.weights) {
      const auto [h, y] = Layer(weight, x, length, false);
      Free(h);
      Free(x);
      x = y;
    }
    Free(x);
  }

  void Clip(const Model& trained) {
    if (!shape_.clips) return;
    const uint32_t norm = Block(4, 7, Kind::kUnknown);
    Launch(kNorm, With(trained.gradients, {norm}));
    Free(norm);
  }

  // A foreach Adam: moments, then the update, several tensors a launch.
  void Optimize(Model& trained) {
    Phase("optimizer");
    const bool first = trained.first.empty();
    for (size_t i = 0; first && i < trained.weights.size(); ++i) {
      for (auto* moments : {&trained.first, &trained.second}) {
        moments->push_back(
            Block(profile.blocks[trained.weights[i]].bytes, 8, Kind::kOptimizerState));
        Launch(kFill, {moments->back()});
      }
    }
    if (shape_.scales) Launch(kCheckInfinite, With(trained.gradients, {scale_}));
    Launch(kFirstMoment, With(trained.gradients, trained.first));
    Launch(kSecondMoment, With(trained.gradients, trained.second));
    Launch(kUpdate, With(With(trained.weights, trained.first), trained.second));
    Phase("other");
  }

  void FreeGradients(Model& trained) {
    for (uint32_t gradient : trained.gradients) Free(gradient);
    trained.gradients.clear();
  }

  void UpdateScale() {
    if (shape_.scales) Launch(kUpdateScale, {scale_});
  }

  void Graph(uint32_t number) {
    profile.events.push_back({.kind = EventKind::kGraph, .function = number});
    ++launches;
  }

  Model model;
  std::vector<TrueSpan> spans;
  std::vector<Kind> kinds;                                    // of each block
  std::vector<std::pair<uint64_t, std::string>> true_phases;  // launches before each

  uint32_t Block(uint64_t bytes, uint64_t site, Kind kind) {
    kinds.push_back(kind);
    return Alloc(bytes, site);
  }

 private:
  static uint64_t Bytes(uint64_t length) { return length * 100 * 1024; }
  // From this length on a layer needs a launch more.
  static constexpr uint64_t kLong = 12;

  static std::vector<uint32_t> With(std::vector<uint32_t> a, const std::vector<uint32_t>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }

  void Step_() { ProfileBuilder::Step(); }
  void Phase(const char* name) {
    if (true_phases.empty() || true_phases.back().second != name) {
      true_phases.emplace_back(launches, name);
    }
    if (shape_.marks) profile.events.push_back({.kind = EventKind::kPhase, .phase = name});
  }

  uint32_t Batch(uint64_t length) {
    const uint32_t batch = Block(Bytes(length), 2, Kind::kInput);
    Copy(batch);
    return batch;
  }

  // The hidden and the final activation.
  std::pair<uint32_t, uint32_t> Layer(uint32_t weight, uint32_t x, uint64_t length, bool saves) {
    const bool keeps_hidden = saves && !shape_.checkpoints;
    const uint32_t h =
        Block(2 * Bytes(length), 3, keeps_hidden ? Kind::kActivation : Kind::kTemporary);
    if (length >= kLong) Launch(kPad, {x}, length);
    Launch(kMatmul, {weight, x, h}, length);
    const uint32_t y = Block(Bytes(length), 4, saves ? Kind::kActivation : Kind::kTemporary);
    Launch(kActivate, {h, y}, length);
    return {h, y};
  }

  uint32_t LayerBack(Model& trained, size_t i, std::vector<uint32_t>& inputs,
                     std::vector<uint32_t>& hidden, uint32_t dy, uint64_t length,
                     bool accumulates) {
    const uint32_t weight = trained.weights[i];
    if (shape_.checkpoints) {
      hidden[i] = Block(2 * Bytes(length), 3, Kind::kTemporary);
      Launch(kMatmul, {weight, inputs[i], hidden[i]}, length);
    }
    const uint32_t dh = Block(2 * Bytes(length), 9, Kind::kTemporary);
    Launch(kActivateBack, {hidden[i], dy, dh}, length);
    Free(dy);
    Free(hidden[i]);
    Free(inputs[i + 1]);
    const uint32_t dx = Block(Bytes(length), 9, Kind::kTemporary);
    Launch(kInputGradient, {weight, dh, dx}, length);
    const uint32_t dw =
        Block(profile.blocks[weight].bytes, 10, accumulates ? Kind::kTemporary : Kind::kGradient);
    Launch(kWeightGradient, {inputs[i], dh, dw}, length);
    Free(dh);
    if (accumulates) {
      Launch(kAccumulate, {trained.gradients[trained.weights.size() - 1 - i], dw});
      Free(dw);
    } else {
      trained.gradients.push_back(dw);
    }
    return dx;
  }

  const LoopShape shape_;
  uint32_t scale_ = 0;
};

}  // namespace ebt::profile

#endif  // EBBTIDE_TESTS_UNIT_TRAINING_LOOP_H_
