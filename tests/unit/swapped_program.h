// A small training job under replay whose state is swapped, on the simulated driver.
#ifndef EBBTIDE_TESTS_UNIT_SWAPPED_PROGRAM_H_
#define EBBTIDE_TESTS_UNIT_SWAPPED_PROGRAM_H_

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/report/run_log.h"
#include "tests/unit/replayed_program.h"

namespace ebt::replay {

// The state is two blocks, one a slab; a third block of ones is on the device all the time. A step
// is five launches:
//
//   0, 1   into an activation of two slabs' size, which is allocated before and freed behind them
//   2, 3   add the ones to the first and to the second block of the state
//   4      names neither
//
// Both slabs are fetched before launch 2, to where the activation was, and leave behind launch 3.
// So the first block holds kFirst + steps everywhere, the second one kSecond + steps.
class SwappedProgram : public ReplayerTest {
 protected:
  static constexpr uint64_t kSlab = 2 * kMiB, kActivation = 2 * kSlab;
  static constexpr uint64_t kFloats = kSlab / sizeof(float);
  static constexpr uint64_t kOnDevice = kActivation + kSlab;
  static constexpr float kFirst = 10, kSecond = 20;
  static constexpr uint64_t kFirstSite = 11, kSecondSite = 12;
  static constexpr int kLaunches = 5;

  SwappedProgram() {
    folder_ = testing::TempDir() + "ebbtide-swapped-" + std::to_string(getpid());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    EXPECT_EQ(cuModuleLoadData(&module_, "any image"), CUDA_SUCCESS);
    stream_ = NewStream();
  }
  ~SwappedProgram() override {
    SetFaults("");
    std::filesystem::remove_all(folder_);
  }

  static Slot State(uint64_t bytes, uint64_t offset, uint64_t site) {
    Slot slot = Cold(bytes, offset);
    slot.site = site;
    return slot;
  }
  // bytes: of each block of the state, which begins its slab.
  static plan::Plan ThePlan(uint64_t bytes = kSlab) {
    plan::Plan plan;
    plan.warm_bytes = kOnDevice;
    plan.cold_bytes = 2 * kSlab;
    plan.slab_bytes = kSlab;
    plan.slabs = {{0, 2, 3, 0}, {kSlab, 2, 3, 0}};
    plan.step_launches = kLaunches;
    plan.prologue = {State(bytes, kOnDevice, kFirstSite),
                     State(bytes, kOnDevice + kSlab, kSecondSite), Warm(kSlab, kActivation)};
    plan.step = {Warm(kActivation, 0)};
    return plan;
  }
  ReplayOptions Options(ebt::Cold cold) const {
    ReplayOptions options;
    options.cold = cold;
    options.host_budget = kGiB;
    options.guard = &Guard;
    options.run_log_path = folder_ + "/run.log";
    return options;
  }

  // Begins the run; its set-up is three launches.
  void Start(ReplayOptions options, plan::Plan plan = ThePlan()) {
    bytes_ = plan.prologue[0].bytes;
    replayer_ =
        std::make_unique<Replayer>(test::SimulatedDriver(), std::move(plan), std::move(options));
    first_ = Allocated(bytes_);
    second_ = Allocated(bytes_);
    ones_ = Allocated(kSlab);
    Fill(first_, kFirst, bytes_ / sizeof(float));
    Fill(second_, kSecond, bytes_ / sizeof(float));
    Fill(ones_, 1, kFloats);
  }
  void StartSwapped() { Start(Options(Cold::kSwap)); }

  CUdeviceptr Allocated(uint64_t bytes) {
    const Given given = AllocateAsync(bytes, stream_);
    EXPECT_EQ(given.result, CUDA_SUCCESS);
    EXPECT_TRUE(given.served);
    return given.ptr;
  }
  CUfunction Function(const char* name) {
    CUfunction function = nullptr;
    EXPECT_EQ(cuModuleGetFunction(&function, module_, name), CUDA_SUCCESS);
    return function;
  }
  // A launch as it comes through the front: `params` or `extra`.
  CUresult Launch(const char* name, uint64_t n, CUstream stream, void** params,
                  void** extra = nullptr) {
    ebt_launch launch{};
    launch.function = Function(name);
    launch.stream = stream;
    launch.grid[0] = static_cast<unsigned>((n + 255) / 256);
    launch.block[0] = 256;
    launch.params = params;
    launch.extra = extra;
    const bool touches = replayer_->Launch(launch);
    const CUresult result = cuLaunchKernel(static_cast<CUfunction>(launch.function), launch.grid[0],
                                           1, 1, launch.block[0], 1, 1, 0, stream, params, extra);
    if (touches) replayer_->Touched();
    return result;
  }
  void Fill(CUdeviceptr p, float value, uint64_t n, CUstream stream) {
    void* params[] = {&p, &value, &n};
    EXPECT_EQ(Launch("ebt_fill", std::max<uint64_t>(n, 1), stream, params), CUDA_SUCCESS);
  }
  void Fill(CUdeviceptr p, float value, uint64_t n) { Fill(p, value, n, stream_); }
  // y += x
  void Add(CUdeviceptr y, CUdeviceptr x, uint64_t n, CUstream stream) {
    float one = 1;
    void* params[] = {&y, &x, &one, &n};
    EXPECT_EQ(Launch("ebt_axpy", n, stream, params), CUDA_SUCCESS);
  }
  void Add(CUdeviceptr y, CUdeviceptr x, uint64_t n) { Add(y, x, n, stream_); }
  // A copy or memset as it comes through the front; `call` is the driver's.
  template <typename Call>
  void Queue(const ebt_copy& copy, Call&& call) {
    const bool touches = replayer_->Copy(copy);
    EXPECT_EQ(call(), CUDA_SUCCESS);
    if (touches) replayer_->Touched();
  }

  void Forward() {
    const CUdeviceptr activation = Allocated(kActivation);
    Fill(activation, 2, 2 * kFloats);
    Fill(activation, 3, 2 * kFloats);
    EXPECT_EQ(FreeAsync(activation, stream_), CUDA_SUCCESS);
  }
  void UpdateFirst() { Add(first_, ones_, bytes_ / sizeof(float)); }
  void UpdateSecond() { Add(second_, ones_, bytes_ / sizeof(float)); }
  void Close() { Fill(ones_, 1, kFloats); }
  void Step() {
    Forward();
    UpdateFirst();
    UpdateSecond();
    Close();
  }
  void Steps(int count) {
    for (int i = 0; i < count; ++i) Step();
  }

  // First, middle and last float of a block of the state, by copies of the application's.
  std::vector<float> Read(CUdeviceptr block) {
    const uint64_t floats = bytes_ / sizeof(float);
    std::vector<float> values;
    for (uint64_t at : {uint64_t{0}, floats / 2, floats - 1}) values.push_back(FloatAt(block, at));
    return values;
  }
  float FloatAt(CUdeviceptr block, uint64_t index) {
    float value = 0;
    const CUdeviceptr from = block + index * sizeof value;
    Queue({EBT_COPY_DTOH, reinterpret_cast<uintptr_t>(&value), from, sizeof value, stream_, 0,
           sizeof value, sizeof value},
          [&] { return cuMemcpyDtoHAsync(&value, from, sizeof value, stream_); });
    EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
    return value;
  }
  static std::vector<float> All(float value) { return {value, value, value}; }
  void ExpectState(int steps) {
    EXPECT_EQ(Read(first_), All(kFirst + static_cast<float>(steps)));
    EXPECT_EQ(Read(second_), All(kSecond + static_cast<float>(steps)));
  }

  // Ends the run as the process's end does.
  report::RunLog End() {
    replayer_->Finish();
    auto log = report::ReadRunLog(folder_ + "/run.log");
    EXPECT_TRUE(log.ok()) << log.status();
    if (!log.ok()) return {};
    EXPECT_TRUE(log->ended);
    return *std::move(log);
  }

  std::string folder_;
  CUmodule module_ = nullptr;
  CUstream stream_ = nullptr;
  uint64_t bytes_ = 0;  // of each block of the state
  CUdeviceptr first_ = 0, second_ = 0, ones_ = 0;
};

}  // namespace ebt::replay

#endif  // EBBTIDE_TESTS_UNIT_SWAPPED_PROGRAM_H_
