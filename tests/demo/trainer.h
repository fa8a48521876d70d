// A small training loop with the memory life of a transformer's: persistent weights, activations
// that live from forward to backward, gradients from backward to the optimizer, and Adam state
// that appears in the first step, stays, and is touched by the optimizer alone.
#ifndef EBBTIDE_TESTS_DEMO_TRAINER_H_
#define EBBTIDE_TESTS_DEMO_TRAINER_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "driver.h"

namespace demo {

enum class Handles { kModule, kLibrary };  // launch by CUfunction or by CUkernel

struct Options {
  int layers = 10;              // two weights each
  uint64_t hidden = 768 << 10;  // elements of a weight
  int batch = 2;                // activations are batch * hidden elements
  int steps = 20;
  bool item = true;  // the host reads the loss in every step
  Handles handles = Handles::kModule;
};

struct Outcome {
  std::vector<uint64_t> losses;      // one a step
  uint64_t parameters_checksum = 0;  // position-sensitive, over all weights
  std::vector<float> step_ms;
};

class Trainer {
 public:
  // `driver` must have a current context and outlive the trainer.
  Trainer(const Driver* driver, const Options& options);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // `sample` is called at fixed points of each step, where memory use is high.
  Outcome Run(const std::function<void()>& sample);

 private:
  struct Parameter {
    CUdeviceptr weight = 0, gradient = 0, m = 0, v = 0;
  };

  void LoadKernels();
  void CreateWeights();
  void FillInput();
  void Forward();
  void Loss(int step);
  void Backward();
  void Optimize(int step);
  void AddOptimizerState();
  void FreeGradients();
  uint64_t ChecksumParameters();

  CUdeviceptr Allocate(uint64_t bytes);
  void Free(CUdeviceptr address);
  void Launch(CUfunction function, uint64_t width, unsigned rows, void** parameters);
  void Fill(CUdeviceptr p, float value);
  void Mix(CUdeviceptr out, CUdeviceptr a, CUdeviceptr b);
  void Axpy(CUdeviceptr y, CUdeviceptr x, float a);
  void Checksum(CUdeviceptr p, uint64_t n, CUdeviceptr out);

  const Driver* driver_;
  Options options_;
  uint64_t weight_bytes_, activation_bytes_;
  CUstream stream_ = nullptr;
  CUevent input_copied_ = nullptr;
  CUfunction fill_ = nullptr, axpy_ = nullptr, mix_ = nullptr, adam_ = nullptr;
  CUfunction multi_adam_ = nullptr, checksum_ = nullptr;
  std::vector<Parameter> parameters_;
  std::vector<CUdeviceptr> activations_;  // [0] is the input
  CUdeviceptr loss_ = 0;                  // a checksum of the last activations
  float* host_input_ = nullptr;
  uint64_t* host_losses_ = nullptr;  // pinned, one a step
  uint64_t random_ = 0x2545F4914F6CDD1D;
};

}  // namespace demo

#endif  // EBBTIDE_TESTS_DEMO_TRAINER_H_
