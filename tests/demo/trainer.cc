#include "trainer.h"

#include <cmath>
#include <stdexcept>

#include "tests/simcuda/kernel_abi.h"

// The text of kernels.ptx, with a zero behind it for the driver's compiler.
asm(R"(
    .pushsection .rodata
    .global demo_kernels_ptx
demo_kernels_ptx:
    .incbin ")" DEMO_KERNELS_PTX R"("
    .byte 0
    .popsection
)");
extern "C" const char demo_kernels_ptx[];

namespace demo {
namespace {

constexpr unsigned kThreads = 256;
constexpr float kLearningRate = 1e-3f, kBeta1 = 0.9f, kBeta2 = 0.999f, kEpsilon = 1e-8f;

#define DEMO_CALL(function, ...) driver_->Check(driver_->fn_##function(__VA_ARGS__), #function)

// 24 bits of a linear congruential generator, as a number in [-0.5, 0.5).
float NextRandom(uint64_t* state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return static_cast<float>(*state >> 40) * (1.0f / 16777216.0f) - 0.5f;
}

}  // namespace

Trainer::Trainer(const Driver* driver, const Options& options)
    : driver_(driver),
      options_(options),
      weight_bytes_(options.hidden * sizeof(float)),
      activation_bytes_(weight_bytes_ * static_cast<uint64_t>(options.batch)) {
  const bool sensible =
      options.layers > 0 && options.hidden > 0 && options.batch > 0 && options.steps > 0;
  if (!sensible) throw std::runtime_error("layers, hidden, batch and steps must be positive");
  DEMO_CALL(cuStreamCreate, &stream_, CU_STREAM_NON_BLOCKING);
  DEMO_CALL(cuEventCreate, &input_copied_, CU_EVENT_DISABLE_TIMING);
  DEMO_CALL(cuMemAlloc_v2, &loss_, sizeof(uint64_t));
  void* pinned = nullptr;
  DEMO_CALL(cuMemHostAlloc, &pinned, activation_bytes_, 0);
  host_input_ = static_cast<float*>(pinned);
  DEMO_CALL(cuMemHostAlloc, &pinned, sizeof(uint64_t) * static_cast<size_t>(options.steps + 1), 0);
  host_losses_ = static_cast<uint64_t*>(pinned);
  LoadKernels();
  CreateWeights();
}

Trainer::~Trainer() {
  // What fails here has been reported by the call that failed first.
  driver_->fn_cuStreamSynchronize(stream_);
  for (const Parameter& parameter : parameters_) {
    for (CUdeviceptr block : {parameter.weight, parameter.gradient, parameter.m, parameter.v}) {
      if (block != 0) driver_->fn_cuMemFreeAsync(block, stream_);
    }
  }
  for (CUdeviceptr block : activations_) driver_->fn_cuMemFreeAsync(block, stream_);
  driver_->fn_cuStreamSynchronize(stream_);
  driver_->fn_cuMemFree_v2(loss_);
  driver_->fn_cuMemFreeHost(host_input_);
  driver_->fn_cuMemFreeHost(host_losses_);
  driver_->fn_cuEventDestroy_v2(input_copied_);
  driver_->fn_cuStreamDestroy_v2(stream_);
}

void Trainer::LoadKernels() {
  struct Wanted {
    CUfunction* function;
    const char* name;
  };
  const Wanted wanted[] = {{&fill_, "ebt_fill"},
                           {&axpy_, "ebt_axpy"},
                           {&mix_, "ebt_mix"},
                           {&adam_, "ebt_adam"},
                           {&multi_adam_, "ebt_multi_adam"},
                           {&checksum_, "ebt_checksum"}};
  if (options_.handles == Handles::kModule) {
    CUmodule module = nullptr;
    DEMO_CALL(cuModuleLoadData, &module, demo_kernels_ptx);
    for (const Wanted& w : wanted) DEMO_CALL(cuModuleGetFunction, w.function, module, w.name);
    return;
  }
  CUlibrary library = nullptr;
  DEMO_CALL(cuLibraryLoadData, &library, demo_kernels_ptx, nullptr, nullptr, 0, nullptr, nullptr,
            0);
  for (const Wanted& w : wanted) {
    CUkernel kernel = nullptr;
    DEMO_CALL(cuLibraryGetKernel, &kernel, library, w.name);
    *w.function = reinterpret_cast<CUfunction>(kernel);  // launches take either
  }
}

void Trainer::CreateWeights() {
  parameters_.resize(static_cast<size_t>(options_.layers) * 2);
  CUdeviceptr noise = Allocate(weight_bytes_);
  for (uint64_t i = 0; i < options_.hidden; ++i) host_input_[i] = NextRandom(&random_);
  DEMO_CALL(cuMemcpyHtoDAsync_v2, noise, host_input_, weight_bytes_, stream_);
  float scale = 0.5f;
  for (Parameter& parameter : parameters_) {
    parameter.weight = Allocate(weight_bytes_);
    Fill(parameter.weight, scale);
    Axpy(parameter.weight, noise, scale);
    scale = scale == 0.5f ? 0.75f : 0.5f;
  }
  Free(noise);
  DEMO_CALL(cuStreamSynchronize, stream_);
}

Outcome Trainer::Run(const std::function<void()>& sample) {
  Outcome outcome;
  std::vector<CUevent> marks(static_cast<size_t>(options_.steps) + 1);
  for (CUevent& mark : marks) DEMO_CALL(cuEventCreate, &mark, CU_EVENT_DEFAULT);
  DEMO_CALL(cuEventRecord, marks[0], stream_);
  for (int step = 0; step < options_.steps; ++step) {
    FillInput();
    Forward();
    Loss(step);
    sample();
    Backward();
    sample();
    Optimize(step);
    FreeGradients();
    DEMO_CALL(cuEventRecord, marks[static_cast<size_t>(step) + 1], stream_);
    if (options_.item) DEMO_CALL(cuStreamSynchronize, stream_);
  }
  DEMO_CALL(cuStreamSynchronize, stream_);
  outcome.losses.assign(host_losses_, host_losses_ + options_.steps);
  for (size_t i = 0; i + 1 < marks.size(); ++i) {
    float ms = 0;
    DEMO_CALL(cuEventElapsedTime, &ms, marks[i], marks[i + 1]);
    outcome.step_ms.push_back(ms);
  }
  for (CUevent mark : marks) DEMO_CALL(cuEventDestroy_v2, mark);
  outcome.parameters_checksum = ChecksumParameters();
  return outcome;
}

void Trainer::FillInput() {
  // The pinned buffer is free again once the copy of the step before has left it.
  DEMO_CALL(cuEventSynchronize, input_copied_);
  const uint64_t count = activation_bytes_ / sizeof(float);
  for (uint64_t i = 0; i < count; ++i) host_input_[i] = NextRandom(&random_);
  activations_.push_back(Allocate(activation_bytes_));
  DEMO_CALL(cuMemcpyHtoDAsync_v2, activations_[0], host_input_, activation_bytes_, stream_);
  DEMO_CALL(cuEventRecord, input_copied_, stream_);
}

void Trainer::Forward() {
  for (const Parameter& parameter : parameters_) {
    const CUdeviceptr in = activations_.back();
    const CUdeviceptr out = Allocate(activation_bytes_);
    activations_.push_back(out);
    for (uint64_t at = 0; at < activation_bytes_; at += weight_bytes_) {
      Mix(out + at, in + at, parameter.weight);
    }
  }
}

void Trainer::Loss(int step) {
  DEMO_CALL(cuMemsetD8Async, loss_, 0, sizeof(uint64_t), stream_);
  Checksum(activations_.back(), activation_bytes_ / sizeof(float), loss_);
  DEMO_CALL(cuMemcpyDtoHAsync_v2, host_losses_ + step, loss_, sizeof(uint64_t), stream_);
}

void Trainer::Backward() {
  // The gradient of the loss: any function of the output will do.
  CUdeviceptr flowing = Allocate(activation_bytes_);
  for (uint64_t at = 0; at < activation_bytes_; at += weight_bytes_) {
    Mix(flowing + at, activations_.back() + at, parameters_.back().weight);
  }
  for (size_t i = parameters_.size(); i-- > 0;) {
    Parameter& parameter = parameters_[i];
    Free(activations_.back());
    activations_.pop_back();
    const CUdeviceptr in = activations_.back();
    parameter.gradient = Allocate(weight_bytes_);
    Mix(parameter.gradient, in, flowing);
    if (options_.batch > 1) {
      const CUdeviceptr part = Allocate(weight_bytes_);
      for (uint64_t at = weight_bytes_; at < activation_bytes_; at += weight_bytes_) {
        Mix(part, in + at, flowing + at);
        Axpy(parameter.gradient, part, 1.0f);
      }
      Free(part);
    }
    const CUdeviceptr next = Allocate(activation_bytes_);
    for (uint64_t at = 0; at < activation_bytes_; at += weight_bytes_) {
      Mix(next + at, flowing + at, parameter.weight);
    }
    Free(flowing);
    flowing = next;
  }
  Free(flowing);
  Free(activations_.back());
  activations_.pop_back();
}

void Trainer::AddOptimizerState() {
  for (Parameter& parameter : parameters_) {
    parameter.m = Allocate(weight_bytes_);
    parameter.v = Allocate(weight_bytes_);
    DEMO_CALL(cuMemsetD8Async, parameter.m, 0, weight_bytes_, stream_);
    DEMO_CALL(cuMemsetD8Async, parameter.v, 0, weight_bytes_, stream_);
  }
}

void Trainer::Optimize(int step) {
  if (step == 0) AddOptimizerState();
  float lr = kLearningRate, beta1 = kBeta1, beta2 = kBeta2, epsilon = kEpsilon;
  float bias1 = static_cast<float>(1.0 / (1.0 - std::pow(0.9, step + 1)));
  float bias2 = static_cast<float>(1.0 / (1.0 - std::pow(0.999, step + 1)));
  // One launch a tensor for the first half, one launch for all the rest, as frameworks do both.
  const size_t half = parameters_.size() / 2;
  for (size_t i = 0; i < half; ++i) {
    Parameter& p = parameters_[i];
    void* arguments[] = {&p.weight,       &p.gradient, &p.m,     &p.v,   &lr,
                         &beta1,          &beta2,      &epsilon, &bias1, &bias2,
                         &options_.hidden};
    Launch(adam_, options_.hidden, 1, arguments);
  }
  for (size_t first = half; first < parameters_.size();) {
    ebt::kernel::MultiAdam list = {};
    for (; first < parameters_.size() && list.tensors < ebt::kernel::kMultiAdamTensors; ++first) {
      const Parameter& p = parameters_[first];
      list.p[list.tensors] = p.weight;
      list.g[list.tensors] = p.gradient;
      list.m[list.tensors] = p.m;
      list.v[list.tensors] = p.v;
      list.n[list.tensors] = options_.hidden;
      ++list.tensors;
    }
    list.lr = lr;
    list.beta1 = beta1;
    list.beta2 = beta2;
    list.eps = epsilon;
    list.bias1 = bias1;
    list.bias2 = bias2;
    void* arguments[] = {&list};
    Launch(multi_adam_, options_.hidden, list.tensors, arguments);
  }
}

void Trainer::FreeGradients() {
  for (Parameter& parameter : parameters_) {
    Free(parameter.gradient);
    parameter.gradient = 0;
  }
}

uint64_t Trainer::ChecksumParameters() {
  // Chained: each weight's sum is multiplied into the total, so that order counts.
  uint64_t total = 0;
  uint64_t* sum = host_losses_ + options_.steps;
  for (const Parameter& parameter : parameters_) {
    DEMO_CALL(cuMemsetD8Async, loss_, 0, sizeof(uint64_t), stream_);
    Checksum(parameter.weight, options_.hidden, loss_);
    DEMO_CALL(cuMemcpyDtoHAsync_v2, sum, loss_, sizeof(uint64_t), stream_);
    DEMO_CALL(cuStreamSynchronize, stream_);
    total = total * 0x9E3779B97F4A7C15u + *sum;
  }
  return total;
}

CUdeviceptr Trainer::Allocate(uint64_t bytes) {
  CUdeviceptr address = 0;
  DEMO_CALL(cuMemAllocAsync, &address, bytes, stream_);
  return address;
}

void Trainer::Free(CUdeviceptr address) { DEMO_CALL(cuMemFreeAsync, address, stream_); }

void Trainer::Launch(CUfunction function, uint64_t width, unsigned rows, void** parameters) {
  const auto blocks = static_cast<unsigned>((width + kThreads - 1) / kThreads);
  DEMO_CALL(cuLaunchKernel, function, blocks, rows, 1, kThreads, 1, 1, 0, stream_, parameters,
            nullptr);
}

void Trainer::Fill(CUdeviceptr p, float value) {
  void* arguments[] = {&p, &value, &options_.hidden};
  Launch(fill_, options_.hidden, 1, arguments);
}

void Trainer::Mix(CUdeviceptr out, CUdeviceptr a, CUdeviceptr b) {
  void* arguments[] = {&out, &a, &b, &options_.hidden};
  Launch(mix_, options_.hidden, 1, arguments);
}

void Trainer::Axpy(CUdeviceptr y, CUdeviceptr x, float a) {
  void* arguments[] = {&y, &x, &a, &options_.hidden};
  Launch(axpy_, options_.hidden, 1, arguments);
}

void Trainer::Checksum(CUdeviceptr p, uint64_t n, CUdeviceptr out) {
  void* arguments[] = {&p, &n, &out};
  Launch(checksum_, n, 1, arguments);
}

}  // namespace demo
