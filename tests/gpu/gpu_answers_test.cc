// What a real driver tells of its own allocations against what a program is told of planned ones
// of the same kind: the table in src/replay/pointers.cc is written from documentation.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "src/base/units.h"
#include "src/callsite/callsite.h"
#include "src/replay/replayer.h"
#include "tests/gpu/gpu_device.h"
#include "tests/preload/pointer_attributes.h"

namespace ebt::replay {
namespace {

constexpr uint64_t kBytes = 3 * kMiB, kUnwritten = 0x7777'7777'7777'7777;

// Where planned memory may differ: of what IPC and RDMA can do with it the truth is told, and a
// mapping is the block's own.
constexpr CUpointer_attribute kTold[] = {
    CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
    CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE,
    CU_POINTER_ATTRIBUTE_MAPPING_SIZE,
    CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR,
};

class GpuAnswersTest : public test::GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    get_ = reinterpret_cast<decltype(get_)>(gpu_.Symbol("cuPointerGetAttribute"));
    get_several_ = reinterpret_cast<decltype(get_several_)>(gpu_.Symbol("cuPointerGetAttributes"));
    allocate_async_ = reinterpret_cast<decltype(allocate_async_)>(gpu_.Symbol("cuMemAllocAsync"));
    ASSERT_TRUE(get_ && get_several_ && allocate_async_);
    callsite::Initialize(&dlsym);
    plan::Plan plan;
    plan.warm_bytes = 4 * kMiB;
    plan.cold_bytes = 4 * kMiB;
    plan::Slot warm, cold;
    warm.site = cold.site = 1;
    warm.bytes = cold.bytes = kBytes;
    cold.tier = plan::Tier::kCold;
    cold.persistent = true;
    cold.offset = plan.warm_bytes;
    plan.prologue = {warm, cold};
    ReplayOptions options;
    options.cold = Cold::kManaged;
    options.host_budget = kGiB;
    options.guard = [] {
      thread_local int guard = 0;
      return &guard;
    };
    replayer_ = std::make_unique<Replayer>(gpu_.driver, plan, std::move(options));
  }
  void TearDown() override {
    replayer_.reset();
    GpuTest::TearDown();
  }

  // "result: word", the word relative to the block where it is an address in it.
  static std::string Text(CUresult result, uint64_t word, CUdeviceptr block) {
    if (result != CUDA_SUCCESS) return absl::StrCat("error ", static_cast<int>(result));
    if (word >= block && word < block + kBytes) return absl::StrCat("block + ", word - block);
    return absl::StrCat(absl::Hex(word));
  }
  std::string One(CUpointer_attribute attribute, CUdeviceptr block, uint64_t inside) {
    uint64_t word = kUnwritten;
    CUresult result = get_(&word, attribute, block + inside);
    replayer_->PointerAttribute(attribute, &word, block + inside, &result);
    return Text(result, word, block);
  }
  std::string OneOfSeveral(CUpointer_attribute attribute, CUdeviceptr block, uint64_t inside) {
    uint64_t word = kUnwritten;
    void* value = &word;
    const CUresult result = get_several_(1, &attribute, &value, block + inside);
    CUresult of_one = CUDA_SUCCESS;
    if (result == CUDA_SUCCESS)
      replayer_->PointerAttribute(attribute, value, block + inside, &of_one);
    return Text(result, word, block);
  }
  void Compare(const char* what, CUdeviceptr native, CUdeviceptr planned) {
    for (uint64_t inside : {uint64_t{0}, kBytes / 2 + 1}) {
      for (CUpointer_attribute attribute : test::kSameAnswers) {
        EXPECT_EQ(One(attribute, planned, inside), One(attribute, native, inside))
            << what << ", attribute " << attribute;
        EXPECT_EQ(OneOfSeveral(attribute, planned, inside), OneOfSeveral(attribute, native, inside))
            << what << ", attribute " << attribute << " of several";
      }
    }
    for (CUpointer_attribute attribute : kTold)
      Say(absl::StrCat(what, ", attribute ", static_cast<int>(attribute), ": native ",
                       One(attribute, native, 0), ", planned ", One(attribute, planned, 0)));
  }
  CUdeviceptr Planned(int kind) {
    CUdeviceptr block = 0;
    CUresult result = CUDA_SUCCESS;
    EXPECT_TRUE(replayer_->Alloc({kind, kBytes, nullptr, nullptr}, &block, &result));
    return block;
  }

  CUresult (*get_)(void*, CUpointer_attribute, CUdeviceptr) = nullptr;
  CUresult (*get_several_)(unsigned, CUpointer_attribute*, void**, CUdeviceptr) = nullptr;
  CUresult (*allocate_async_)(CUdeviceptr*, size_t, CUstream) = nullptr;
  std::unique_ptr<Replayer> replayer_;
};

TEST_F(GpuAnswersTest, PlannedLinearMemoryAnswersAsTheDriversDoes) {
  CUdeviceptr native = 0;
  ASSERT_EQ(gpu_.driver.fn_cuMemAlloc_v2(&native, kBytes), CUDA_SUCCESS);
  Compare("linear, on the device", native, Planned(EBT_ALLOC_LINEAR));
  Compare("linear, cold", native, Planned(EBT_ALLOC_LINEAR));
  EXPECT_EQ(gpu_.driver.fn_cuMemFree_v2(native), CUDA_SUCCESS);
}

TEST_F(GpuAnswersTest, PlannedStreamOrderedMemoryAnswersAsTheDriversDoes) {
  CUdeviceptr native = 0;
  ASSERT_EQ(allocate_async_(&native, kBytes, nullptr), CUDA_SUCCESS);
  Compare("ordered, on the device", native, Planned(EBT_ALLOC_ASYNC));
  Compare("ordered, cold", native, Planned(EBT_ALLOC_ASYNC));
  EXPECT_EQ(gpu_.driver.fn_cuMemFree_v2(native), CUDA_SUCCESS);
}

}  // namespace
}  // namespace ebt::replay
