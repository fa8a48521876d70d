// A swap engine over a small device arena on the simulated driver.
#ifndef EBBTIDE_TESTS_UNIT_SWAP_FIXTURE_H_
#define EBBTIDE_TESTS_UNIT_SWAP_FIXTURE_H_

#include <cuda.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "src/base/units.h"
#include "src/tier/swap.h"
#include "tests/unit/simulated_device.h"

namespace ebt::tier {

inline int* ThreadGuard() {
  thread_local int guard = 0;
  return &guard;
}

// Slabs of 4 MiB, a device arena of four of them.
class SwapFixture : public test::SimulatedDevice {
 protected:
  static constexpr uint64_t kSlab = 4 * kMiB;
  static constexpr uint64_t kFloats = kSlab / sizeof(float);

  SwapFixture() {
    EXPECT_EQ(cuModuleLoadData(&module_, "any image"), CUDA_SUCCESS);
    pool_ = std::make_unique<memory::PagePool>(driver_, 0, 0);
    ledger_ = std::make_unique<memory::StreamLedger>(driver_);
    auto range = memory::MappedRange::Reserve(*pool_, 4 * kSlab, kSlab).value();
    range_ = range.get();
    arena_ = std::make_unique<memory::Arena>(std::move(range), *ledger_);
    stream_ = NewStream();
  }
  ~SwapFixture() override {
    SetFaults("");
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    engine_.reset();
    arena_.reset();
  }

  void MakeEngine(std::vector<uint64_t> stays) {
    auto engine =
        SwapEngine::Create(driver_, *arena_, *range_, *ledger_, {kSlab, stays, &ThreadGuard});
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }

  CUfunction Function(const char* name) {
    CUfunction function = nullptr;
    EXPECT_EQ(cuModuleGetFunction(&function, module_, name), CUDA_SUCCESS);
    return function;
  }
  void Fill(CUdeviceptr p, float value, uint64_t n, CUstream stream) {
    void* arguments[] = {&p, &value, &n};
    EXPECT_EQ(cuLaunchKernel(Function("ebt_fill"), static_cast<unsigned>((n + 255) / 256), 1, 1,
                             256, 1, 1, 0, stream, arguments, nullptr),
              CUDA_SUCCESS);
  }
  // p[i] += a * p[i]
  void Scale(CUdeviceptr p, float a, uint64_t n, CUstream stream) {
    void* arguments[] = {&p, &p, &a, &n};
    EXPECT_EQ(cuLaunchKernel(Function("ebt_axpy"), static_cast<unsigned>((n + 255) / 256), 1, 1,
                             256, 1, 1, 0, stream, arguments, nullptr),
              CUDA_SUCCESS);
  }

  CUdeviceptr Address(size_t slab) const { return engine_->base() + slab * kSlab; }
  void FillSlab(size_t slab, float value, CUstream stream) {
    engine_->Touch(slab * kSlab, kSlab, stream, false);
    Fill(Address(slab), value, kFloats, stream);
    engine_->Touched(slab * kSlab, kSlab, stream, false);
  }
  void DoubleSlab(size_t slab, CUstream stream) {
    engine_->Touch(slab * kSlab, kSlab, stream, false);
    Scale(Address(slab), 1.0F, kFloats, stream);
    engine_->Touched(slab * kSlab, kSlab, stream, false);
  }
  // A block of the arena in between: filled, so that what lay there is gone.
  void UseWarm(uint64_t offset, CUstream stream) {
    auto outcome = arena_->TakeAt(offset, kSlab, stream);
    if (outcome == memory::Arena::Outcome::kOccupied && engine_->MakeRoom(offset, kSlab))
      outcome = arena_->TakeAt(offset, kSlab, stream);
    ASSERT_EQ(outcome, memory::Arena::Outcome::kServed);
    Fill(arena_->base() + offset, -1.0F, kFloats, stream);
    arena_->Give(offset, kSlab, stream);
  }
  // First, middle and last float of the slab as a copy of the application's sees them.
  std::vector<float> Read(size_t slab, CUstream stream) {
    std::vector<float> values(3);
    engine_->Touch(slab * kSlab, kSlab, stream, false);
    const uint64_t at[] = {0, kFloats / 2, kFloats - 1};
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(cuMemcpyDtoHAsync(&values[i], Address(slab) + at[i] * sizeof(float), sizeof(float),
                                  stream),
                CUDA_SUCCESS);
    engine_->Touched(slab * kSlab, kSlab, stream, false);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    return values;
  }
  static std::vector<float> All(float value) { return {value, value, value}; }

  static uint64_t MappingCalls() {
    return simcuda_call_count("cuMemMap") + simcuda_call_count("cuMemUnmap") +
           simcuda_call_count("cuMemSetAccess") + simcuda_call_count("cuMemCreate") +
           simcuda_call_count("cuMemRelease");
  }
  static uint64_t HostWaits() {
    return simcuda_call_count("cuEventSynchronize") + simcuda_call_count("cuStreamSynchronize*") +
           simcuda_call_count("cuCtxSynchronize");
  }

  const DriverApi& driver_ = test::SimulatedDriver();
  CUmodule module_ = nullptr;
  CUstream stream_ = nullptr;
  std::unique_ptr<memory::PagePool> pool_;
  std::unique_ptr<memory::StreamLedger> ledger_;
  memory::MappedRange* range_ = nullptr;
  std::unique_ptr<memory::Arena> arena_;
  std::unique_ptr<SwapEngine> engine_;
};

}  // namespace ebt::tier

#endif  // EBBTIDE_TESTS_UNIT_SWAP_FIXTURE_H_
