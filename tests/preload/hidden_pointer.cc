// A small training loop whose optimizer state looks as if the optimizer alone touched it: in
// every backward a kernel reaches one state block through a pointer that lies in device memory,
// so that no launch names it there. Two more blocks of state, made elsewhere, are what they look
// like.
//
//   hidden_pointer [steps]
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <vector>

#include "tests/demo/driver.h"

// The text of kernels.ptx, with a zero behind it for the driver's compiler.
asm(R"(
    .pushsection .rodata
    .global hidden_kernels_ptx
hidden_kernels_ptx:
    .incbin ")" DEMO_KERNELS_PTX R"("
    .byte 0
    .popsection
)");
extern "C" const char hidden_kernels_ptx[];

namespace {

constexpr uint64_t kElements = 1 << 20;
constexpr uint64_t kBytes = kElements * sizeof(float);
constexpr unsigned kThreads = 256;
constexpr size_t kLayers = 8;

class Loop {
 public:
  explicit Loop(const demo::Driver& driver) : driver_(driver) {
    CUmodule module = nullptr;
    Check(driver_.fn_cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    Check(driver_.fn_cuModuleLoadData(&module, hidden_kernels_ptx), "cuModuleLoadData");
    fill_ = Find(module, "ebt_fill");
    mix_ = Find(module, "ebt_mix");
    axpy_ = Find(module, "ebt_axpy");
    chase_ = Find(module, "ebt_chase");
    for (CUdeviceptr& weight : weights_) Fill(weight = Allocate(), 0.5f);
    table_ = Allocate();
  }

  void Run(int steps) {
    for (int step = 0; step < steps; ++step) {
      const std::vector<CUdeviceptr> activations = Forward();
      const CUdeviceptr gradient = Backward(activations, step > 0);
      if (step == 0) MakeState();
      Optimize(gradient);
      Free(gradient);
      Check(driver_.fn_cuStreamSynchronize(stream_), "cuStreamSynchronize");
    }
  }

 private:
  void Check(CUresult result, const char* call) const { driver_.Check(result, call); }

  CUfunction Find(CUmodule module, const char* name) {
    CUfunction function = nullptr;
    Check(driver_.fn_cuModuleGetFunction(&function, module, name), name);
    return function;
  }
  CUdeviceptr Allocate() {
    CUdeviceptr address = 0;
    Check(driver_.fn_cuMemAllocAsync(&address, kBytes, stream_), "cuMemAllocAsync");
    return address;
  }
  void Free(CUdeviceptr address) {
    Check(driver_.fn_cuMemFreeAsync(address, stream_), "cuMemFreeAsync");
  }
  void Launch(CUfunction function, void** parameters) {
    Check(driver_.fn_cuLaunchKernel(function, kElements / kThreads, 1, 1, kThreads, 1, 1, 0,
                                    stream_, parameters, nullptr),
          "cuLaunchKernel");
  }
  void Fill(CUdeviceptr to, float value) {
    uint64_t n = kElements;
    void* parameters[] = {&to, &value, &n};
    Launch(fill_, parameters);
  }
  void Mix(CUdeviceptr out, CUdeviceptr a, CUdeviceptr b) {
    uint64_t n = kElements;
    void* parameters[] = {&out, &a, &b, &n};
    Launch(mix_, parameters);
  }
  void Axpy(CUdeviceptr to, CUdeviceptr x, float a) {
    uint64_t n = kElements;
    void* parameters[] = {&to, &x, &a, &n};
    Launch(axpy_, parameters);
  }
  void Chase(CUdeviceptr to) {
    uint64_t n = kElements;
    void* parameters[] = {&to, &table_, &n};
    Launch(chase_, parameters);
  }

  std::vector<CUdeviceptr> Forward() {
    std::vector<CUdeviceptr> activations;
    CUdeviceptr in = weights_[0];
    for (CUdeviceptr weight : weights_) {
      activations.push_back(Allocate());
      Mix(activations.back(), in, weight);
      in = activations.back();
    }
    return activations;
  }

  CUdeviceptr Backward(const std::vector<CUdeviceptr>& activations, bool chase) {
    const CUdeviceptr gradient = Allocate();
    Fill(gradient, 0.25f);
    for (size_t layer = kLayers; layer-- > 0;) {
      const CUdeviceptr part = Allocate();
      Mix(part, activations[layer], weights_[layer]);
      Axpy(gradient, part, 0.125f);
      if (chase && layer == kLayers / 2) Chase(part);
      Free(part);
      Free(activations[layer]);
    }
    return gradient;
  }

  // Sites of their own: neither call may be folded into the other.
  [[gnu::noinline]] CUdeviceptr MakeHidden() {
    const CUdeviceptr state = Allocate();
    Fill(state, 0.0f);
    return state;
  }
  [[gnu::noinline]] CUdeviceptr MakeHonest() {
    const CUdeviceptr state = Allocate();
    Fill(state, 1.0f);
    return state;
  }
  void MakeState() {
    hidden_ = MakeHidden();
    for (CUdeviceptr& state : honest_) state = MakeHonest();
    Check(driver_.fn_cuMemcpyHtoDAsync_v2(table_, &hidden_, sizeof(hidden_), stream_),
          "cuMemcpyHtoDAsync");
    Check(driver_.fn_cuStreamSynchronize(stream_), "cuStreamSynchronize");
  }

  void Optimize(CUdeviceptr gradient) {
    for (CUdeviceptr weight : weights_) Axpy(weight, gradient, 0.001f);
    for (CUdeviceptr state : {hidden_, honest_[0], honest_[1]}) {
      Axpy(state, gradient, 0.5f);
      Axpy(weights_[0], state, 0.001f);
    }
  }

  const demo::Driver& driver_;
  CUstream stream_ = nullptr;
  CUfunction fill_ = nullptr, mix_ = nullptr, axpy_ = nullptr, chase_ = nullptr;
  CUdeviceptr weights_[kLayers] = {};
  CUdeviceptr table_ = 0, hidden_ = 0, honest_[2] = {};
};

void Train(int steps) {
  const demo::Driver driver = demo::LoadDriver(demo::Via::kProcAddress);
  CUdevice device = 0;
  CUcontext context = nullptr;
  driver.Check(driver.fn_cuInit(0), "cuInit");
  driver.Check(driver.fn_cuDeviceGet(&device, 0), "cuDeviceGet");
  driver.Check(driver.fn_cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  driver.Check(driver.fn_cuCtxSetCurrent(context), "cuCtxSetCurrent");
  Loop(driver).Run(steps);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Train(argc > 1 ? atoi(argv[1]) : 12);
  } catch (const std::exception& error) {
    fprintf(stderr, "hidden_pointer: %s\n", error.what());
    return 1;
  }
  return 0;
}
