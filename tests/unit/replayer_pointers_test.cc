// What a program is told of addresses in planned memory, one attribute at a time and several at
// once, as the front hands it on. The right answers are those that the documentation gives for
// cudaMalloc and cudaMallocAsync memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/replayed_devices.h"

namespace ebt::replay {
namespace {

constexpr CUpointer_attribute kAll[] = {
    CU_POINTER_ATTRIBUTE_CONTEXT,
    CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
    CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
    CU_POINTER_ATTRIBUTE_HOST_POINTER,
    CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
    CU_POINTER_ATTRIBUTE_BUFFER_ID,
    CU_POINTER_ATTRIBUTE_IS_MANAGED,
    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
    CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
    CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
    CU_POINTER_ATTRIBUTE_RANGE_SIZE,
    CU_POINTER_ATTRIBUTE_MAPPED,
    CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES,
    CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE,
    CU_POINTER_ATTRIBUTE_ACCESS_FLAGS,
    CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
    CU_POINTER_ATTRIBUTE_MAPPING_SIZE,
    CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR,
    CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID,
};
constexpr size_t kCount = std::size(kAll);
constexpr uint64_t kUnwritten = 0x7777'7777'7777'7777;

// An answer as its bytes lie in a word that held kUnwritten before.
uint64_t Word32(uint32_t value) { return kUnwritten >> 32 << 32 | value; }

struct Answer {
  CUresult result = CUDA_SUCCESS;
  uint64_t word = kUnwritten;
  bool operator==(const Answer&) const = default;
  friend void PrintTo(const Answer& answer, std::ostream* stream) {
    *stream << answer.result << ": " << std::hex << answer.word;
  }
};

class ReplayerPointersTest : public ReplayerDevicesTest {
 protected:
  // As PointerGetAttribute of hooks/query.h.
  Answer One(CUpointer_attribute attribute, CUdeviceptr ptr) {
    Answer answer;
    answer.result = cuPointerGetAttribute(&answer.word, attribute, ptr);
    replayer_->PointerAttribute(attribute, &answer.word, ptr, &answer.result);
    return answer;
  }
  // As PointerGetAttributes of hooks/query.h.
  std::vector<uint64_t> Several(CUdeviceptr ptr) {
    std::vector<uint64_t> words(kCount, kUnwritten);
    std::vector<CUpointer_attribute> attributes(kAll, kAll + kCount);
    std::vector<void*> values;
    for (uint64_t& word : words) values.push_back(&word);
    EXPECT_EQ(cuPointerGetAttributes(kCount, attributes.data(), values.data(), ptr), CUDA_SUCCESS);
    for (size_t i = 0; i < kCount; ++i) {
      CUresult of_one = CUDA_SUCCESS;
      replayer_->PointerAttribute(attributes[i], values[i], ptr, &of_one);
    }
    return words;
  }
  uint64_t IdOf(CUdeviceptr ptr) { return One(CU_POINTER_ATTRIBUTE_BUFFER_ID, ptr).word; }

  struct Expected {
    const Given& block;
    uint64_t bytes;
    CUcontext context;
    CUmemoryPool pool;
    uint32_t rdma;
  };
  void ExpectAnswers(const Expected& expected, CUdeviceptr ptr) {
    const uint64_t base = expected.block.ptr;
    const auto address = [](const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); };
    const Answer right[kCount] = {
        {CUDA_SUCCESS, address(expected.context)},
        {CUDA_SUCCESS, Word32(CU_MEMORYTYPE_DEVICE)},
        {CUDA_SUCCESS, ptr},
        {CUDA_ERROR_INVALID_VALUE, 0},
        {CUDA_SUCCESS, Word32(0)},
        {CUDA_SUCCESS, IdOf(base)},
        {CUDA_SUCCESS, Word32(0)},
        {CUDA_SUCCESS, Word32(0)},
        {CUDA_SUCCESS, Word32(0)},
        {CUDA_SUCCESS, base},
        {CUDA_SUCCESS, expected.bytes},
        {CUDA_SUCCESS, Word32(1)},
        {CUDA_SUCCESS, Word32(CU_MEM_HANDLE_TYPE_NONE)},
        {CUDA_SUCCESS, Word32(expected.rdma)},
        {CUDA_SUCCESS, Word32(CU_MEM_ACCESS_FLAGS_PROT_READWRITE)},
        {CUDA_SUCCESS, address(expected.pool)},
        {CUDA_SUCCESS, expected.bytes},
        {CUDA_SUCCESS, base},
        {CUDA_SUCCESS, IdOf(base)},
    };
    const std::vector<uint64_t> several = Several(ptr);
    for (size_t i = 0; i < kCount; ++i) {
      EXPECT_EQ(One(kAll[i], ptr), right[i]) << "attribute " << kAll[i];
      EXPECT_EQ(several[i], right[i].word) << "attribute " << kAll[i] << " of several";
    }
  }
  // As of an address that no allocation has, or ever had.
  void ExpectNothingAt(CUdeviceptr ptr) {
    const std::vector<uint64_t> several = Several(ptr);
    for (size_t i = 0; i < kCount; ++i) {
      EXPECT_EQ(One(kAll[i], ptr).result, CUDA_ERROR_INVALID_VALUE) << "attribute " << kAll[i];
      const bool half = several[i] != 0;
      EXPECT_EQ(several[i], !half ? 0
                            : kAll[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
                                ? Word32(static_cast<uint32_t>(-2))
                                : Word32(0))
          << "attribute " << kAll[i] << " of several";
    }
    CUdeviceptr base = 0;
    size_t bytes = 0;
    CUresult result = CUDA_SUCCESS;
    EXPECT_TRUE(replayer_->AddressRange(&base, &bytes, ptr, &result));
    EXPECT_EQ(result, CUDA_ERROR_NOT_FOUND);
  }
};

TEST_F(ReplayerPointersTest, BlocksAnswerAsTheirNativeAllocationsWhereverTheyLie) {
  ReplayLarge({Cold(1000, kPlannedWarm), Cold(1000, kPlannedWarm + 1024), Warm(1000, 1024)});
  const CUmemoryPool standard = DefaultPool(0);
  const Given cold = AllocateAsync(1000, nullptr), cold_linear = AllocateLinear(1000),
              warm = AllocateLinear(1000), dynamic = AllocateAsync(3000, nullptr);
  ASSERT_EQ(replayer_->Statistics().cold_bytes, 2048u);
  int rdma = 0;
  ASSERT_EQ(
      cuDeviceGetAttribute(&rdma, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 0),
      CUDA_SUCCESS);
  const auto capable = static_cast<uint32_t>(rdma);
  for (uint64_t inside : {0, 1, 999}) {
    SCOPED_TRACE(inside);
    ExpectAnswers({cold, 1000, nullptr, standard, 0}, cold.ptr + inside);
    ExpectAnswers({cold_linear, 1000, context_, nullptr, 0}, cold_linear.ptr + inside);
    ExpectAnswers({warm, 1000, context_, nullptr, capable}, warm.ptr + inside);
    ExpectAnswers({dynamic, 3000, nullptr, standard, capable}, dynamic.ptr + inside);
  }
}

TEST_F(ReplayerPointersTest, ManagedMemoryOfTheProgramSaysThatItIsManaged) {
  ReplayLarge({Cold(1000, kPlannedWarm)});
  ASSERT_TRUE(AllocateAsync(1000, nullptr).served);
  CUdeviceptr managed = 0;
  ASSERT_EQ(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(One(CU_POINTER_ATTRIBUTE_IS_MANAGED, managed), (Answer{CUDA_SUCCESS, Word32(1)}));
  EXPECT_EQ(One(CU_POINTER_ATTRIBUTE_HOST_POINTER, managed), (Answer{CUDA_SUCCESS, managed}));
}

TEST_F(ReplayerPointersTest, OneBehindTheEndAndAFreedBlockAreNothing) {
  ReplayLarge({Cold(1000, kPlannedWarm), Warm(1000, 0)});
  const Given cold = AllocateAsync(1000, nullptr), warm = AllocateLinear(1000);
  ASSERT_TRUE(cold.served && warm.served);
  for (const Given& block : {cold, warm}) ExpectNothingAt(block.ptr + 1000);
  ASSERT_EQ(FreeAsync(cold.ptr, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(Free(warm.ptr), CUDA_SUCCESS);
  for (const Given& block : {cold, warm}) ExpectNothingAt(block.ptr);
}

TEST_F(ReplayerPointersTest, HostMemoryAndForeignAddressesAreAnsweredByTheDriver) {
  ReplayLarge({Warm(1000, 0)});
  ASSERT_TRUE(AllocateAsync(1000, nullptr).served);
  void* pinned = nullptr;
  ASSERT_EQ(cuMemAllocHost(&pinned, 4096), CUDA_SUCCESS);
  int on_stack = 0;
  for (void* host : {pinned, static_cast<void*>(&on_stack), static_cast<void*>(nullptr)}) {
    const auto ptr = reinterpret_cast<CUdeviceptr>(host);
    for (const CUpointer_attribute attribute : kAll) {
      Answer native;
      native.result = cuPointerGetAttribute(&native.word, attribute, ptr);
      EXPECT_EQ(One(attribute, ptr), native) << "attribute " << attribute;
    }
    CUresult result = CUDA_SUCCESS;
    EXPECT_FALSE(replayer_->AddressRange(nullptr, nullptr, ptr, &result));
  }
  EXPECT_EQ(cuMemFreeHost(pinned), CUDA_SUCCESS);
}

TEST_F(ReplayerPointersTest, BeforeAnythingIsServedNothingIsOurs) {
  ReplayLarge({Warm(1000, 0)});
  uint64_t word = kUnwritten;
  CUresult result = CUDA_SUCCESS;
  const CUdeviceptr ptr = 0x5e5e'0000'0000;
  EXPECT_FALSE(replayer_->PointerAttribute(CU_POINTER_ATTRIBUTE_RANGE_SIZE, &word, ptr, &result));
  EXPECT_FALSE(replayer_->AddressRange(nullptr, nullptr, ptr, &result));
  EXPECT_FALSE(replayer_->Export(EBT_EXPORT_IPC, ptr, &result));
  EXPECT_FALSE(
      replayer_->SetPointerAttribute(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, &word, ptr, &result));
  EXPECT_EQ(word, kUnwritten);
}

TEST_F(ReplayerPointersTest, TheDriversOwnRefusalsThatAreNotAboutTheAddressStand) {
  ReplayLarge({Warm(1000, 0)});
  const Given block = AllocateAsync(1000, nullptr);
  ASSERT_TRUE(block.served);
  uint64_t word = kUnwritten;
  CUresult result = CUDA_ERROR_DEINITIALIZED;
  EXPECT_FALSE(
      replayer_->PointerAttribute(CU_POINTER_ATTRIBUTE_RANGE_SIZE, &word, block.ptr, &result));
  EXPECT_EQ(result, CUDA_ERROR_DEINITIALIZED);
  EXPECT_EQ(word, kUnwritten);
}

TEST_F(ReplayerPointersTest, NoTwoBlocksEverHaveTheSameBufferId) {
  ReplayLarge({Warm(1000, 0), Warm(1000, 1024)});
  std::set<uint64_t> ids;
  CUdeviceptr native = 0;
  ASSERT_EQ(cuMemAlloc(&native, 1000), CUDA_SUCCESS);
  ids.insert(IdOf(native));
  const Given kept = AllocateLinear(1000);
  ASSERT_TRUE(kept.served);
  ids.insert(IdOf(kept.ptr));
  EXPECT_EQ(IdOf(kept.ptr + 500), IdOf(kept.ptr));
  std::set<CUdeviceptr> places;
  for (int turn = 0; turn < 5; ++turn) {
    const Given block = AllocateAsync(2000, nullptr);
    ASSERT_TRUE(block.served);
    places.insert(block.ptr);
    ids.insert(IdOf(block.ptr));
    ASSERT_EQ(FreeAsync(block.ptr, nullptr), CUDA_SUCCESS);
  }
  EXPECT_EQ(places.size(), 1u);  // the place is used again, its number is not
  EXPECT_EQ(ids.size(), 7u);
}

TEST_F(ReplayerPointersTest, AddressRangeWantsNoOutput) {
  ReplayLarge({Warm(1000, 0)});
  const Given block = AllocateLinear(1000);
  CUdeviceptr base = 0;
  size_t bytes = 0;
  CUresult result = CUDA_ERROR_UNKNOWN;
  EXPECT_TRUE(replayer_->AddressRange(nullptr, nullptr, block.ptr, &result));
  EXPECT_EQ(result, CUDA_SUCCESS);
  EXPECT_TRUE(replayer_->AddressRange(&base, nullptr, block.ptr + 9, &result));
  EXPECT_TRUE(replayer_->AddressRange(nullptr, &bytes, block.ptr + 9, &result));
  EXPECT_EQ(base, block.ptr);
  EXPECT_EQ(bytes, 1000u);
}

TEST_F(ReplayerPointersTest, MemInfoWantsNoOutput) {
  ReplayLarge({Warm(1000, 0)});
  size_t free = 0, total = 0;
  CUresult result = CUDA_ERROR_UNKNOWN;
  EXPECT_TRUE(replayer_->MemInfo(nullptr, &total, &result));
  EXPECT_EQ(result, CUDA_SUCCESS);
  EXPECT_TRUE(replayer_->MemInfo(&free, nullptr, &result));
  EXPECT_TRUE(replayer_->MemInfo(nullptr, nullptr, &result));
  EXPECT_EQ(result, CUDA_SUCCESS);
  EXPECT_EQ(total, 100 * kMiB);
  EXPECT_GT(free, 0u);
}

// The argument: whether memory is freed in a stream's order.
class ReplayerBadFreeTest : public ReplayerPointersTest,
                            public ::testing::WithParamInterface<bool> {
 protected:
  CUresult Free(CUdeviceptr ptr) {
    return GetParam() ? FreeAsync(ptr, nullptr) : ReplayerPointersTest::Free(ptr);
  }
};

// The first cold block begins where all of our managed memory begins: the driver would free that.
TEST_P(ReplayerBadFreeTest, ASecondFreeIsRefusedAndTakesNothingFromTheOthers) {
  ReplayLarge({Cold(4096, kPlannedWarm), Cold(4096, kPlannedWarm + 4096), Warm(4096, 0)});
  const Given first = AllocateAsync(4096, nullptr), second = AllocateAsync(4096, nullptr),
              warm = AllocateAsync(4096, nullptr);
  ASSERT_TRUE(first.served && second.served && warm.served);
  ASSERT_EQ(cuMemsetD8(second.ptr, 5, 4096), CUDA_SUCCESS);
  EXPECT_EQ(Free(first.ptr), CUDA_SUCCESS);
  EXPECT_EQ(Free(first.ptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Free(warm.ptr), CUDA_SUCCESS);
  EXPECT_EQ(Free(warm.ptr), CUDA_ERROR_INVALID_VALUE);
  unsigned char read = 0;
  ASSERT_EQ(cuMemcpyDtoH(&read, second.ptr + 4095, 1), CUDA_SUCCESS);
  EXPECT_EQ(read, 5);
}

TEST_P(ReplayerBadFreeTest, TheMiddleOfABlockCannotBeFreed) {
  ReplayLarge({Warm(4096, 0)});
  const Given block = AllocateLinear(4096);
  ASSERT_TRUE(block.served);
  EXPECT_EQ(Free(block.ptr + 512), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD8(block.ptr, 5, 4096), CUDA_SUCCESS);
  EXPECT_EQ(Free(block.ptr), CUDA_SUCCESS);
}

TEST_P(ReplayerBadFreeTest, WhatIsNotOursIsFreedByTheDriver) {
  ReplayLarge({Warm(4096, 0)});
  ASSERT_TRUE(AllocateLinear(4096).served);
  CUdeviceptr foreign = 0;
  ASSERT_EQ(GetParam() ? cuMemAllocAsync(&foreign, 4096, nullptr) : cuMemAlloc(&foreign, 4096),
            CUDA_SUCCESS);
  EXPECT_EQ(Free(foreign), CUDA_SUCCESS);
  EXPECT_EQ(Free(foreign), CUDA_ERROR_INVALID_VALUE);
}

INSTANTIATE_TEST_SUITE_P(BothOrders, ReplayerBadFreeTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Ordered" : "Linear"; });

class ReplayerSyncMemopsTest : public ReplayerPointersTest {
 protected:
  CUresult Set(CUdeviceptr ptr, unsigned value) {
    CUresult result = CUDA_ERROR_UNKNOWN;
    EXPECT_TRUE(
        replayer_->SetPointerAttribute(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, &value, ptr, &result));
    return result;
  }
  // A memset of 16 MiB as the front reports it; true: it was done when it returned.
  bool DoneAtOnce(CUdeviceptr ptr, bool synchronous = true) {
    const bool touches = replayer_->Copy({.kind = EBT_COPY_MEMSET,
                                          .dst = ptr,
                                          .bytes = kBytes,
                                          .synchronous = synchronous,
                                          .dst_span = kBytes});
    EXPECT_EQ(cuMemsetD8Async(ptr, 1, kBytes, nullptr), CUDA_SUCCESS);
    if (touches) replayer_->Touched();
    const bool done = cuStreamQuery(nullptr) == CUDA_SUCCESS;
    EXPECT_EQ(cuStreamSynchronize(nullptr), CUDA_SUCCESS);
    return done;
  }
  static constexpr uint64_t kBytes = 16 * kMiB;
};

TEST_F(ReplayerSyncMemopsTest, ASynchronousMemsetOfSuchABlockIsDoneWhenItReturns) {
  ReplayLarge({Warm(kBytes, 0), Warm(kBytes, kBytes)});
  const Given block = AllocateLinear(kBytes), neighbour = AllocateLinear(kBytes);
  ASSERT_TRUE(block.served && neighbour.served);
  EXPECT_FALSE(DoneAtOnce(block.ptr));  // the GPU's business, natively
  EXPECT_EQ(Set(block.ptr + 100, 1), CUDA_SUCCESS);
  EXPECT_EQ(One(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, block.ptr), (Answer{CUDA_SUCCESS, Word32(1)}));
  EXPECT_EQ(One(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, neighbour.ptr),
            (Answer{CUDA_SUCCESS, Word32(0)}));
  EXPECT_TRUE(DoneAtOnce(block.ptr));
  EXPECT_FALSE(DoneAtOnce(neighbour.ptr));
  EXPECT_EQ(Set(block.ptr, 0), CUDA_SUCCESS);
  EXPECT_FALSE(DoneAtOnce(block.ptr));
}

TEST_F(ReplayerSyncMemopsTest, AnAsynchronousMemsetOfSuchABlockStaysOne) {
  ReplayLarge({Warm(kBytes, 0)});
  const Given block = AllocateLinear(kBytes);
  ASSERT_EQ(Set(block.ptr, 1), CUDA_SUCCESS);
  EXPECT_FALSE(DoneAtOnce(block.ptr, /*synchronous=*/false));
}

TEST_F(ReplayerSyncMemopsTest, TheNextBlockAtThePlaceBeginsWithoutIt) {
  ReplayLarge({Warm(kBytes, 0), Warm(kBytes, 0)});
  const Given block = AllocateLinear(kBytes);
  EXPECT_EQ(Set(block.ptr, 1), CUDA_SUCCESS);
  ASSERT_EQ(Free(block.ptr), CUDA_SUCCESS);
  const Given next = AllocateLinear(kBytes);
  ASSERT_EQ(next.ptr, block.ptr);
  EXPECT_EQ(One(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, next.ptr), (Answer{CUDA_SUCCESS, Word32(0)}));
  EXPECT_FALSE(DoneAtOnce(next.ptr));
}

TEST_F(ReplayerSyncMemopsTest, SettingItWaitsForWhatWasBegunBefore) {
  ReplayLarge({Warm(kBytes, 0)});
  const Given block = AllocateLinear(kBytes);
  ASSERT_EQ(cuMemsetD8(block.ptr, 1, kBytes), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(Set(block.ptr, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(nullptr), CUDA_SUCCESS);
}

TEST_F(ReplayerSyncMemopsTest, WhatTheDriverWouldRefuseIsRefused) {
  ReplayLarge({Warm(1000, 0)});
  const Given block = AllocateLinear(1000);
  const unsigned one = 1;
  CUresult result = CUDA_SUCCESS;
  EXPECT_TRUE(
      replayer_->SetPointerAttribute(CU_POINTER_ATTRIBUTE_IS_MANAGED, &one, block.ptr, &result));
  EXPECT_EQ(result, CUDA_ERROR_INVALID_VALUE);
  result = CUDA_SUCCESS;
  EXPECT_TRUE(replayer_->SetPointerAttribute(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, nullptr, block.ptr,
                                             &result));
  EXPECT_EQ(result, CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Set(block.ptr + 1000, 1), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ReplayerPointersTest, NothingOfOursIsExportedAndThatIsSaidOnce) {
  ReplayLarge({Warm(4096, 0), Cold(4096, kPlannedWarm)});
  const Given warm = AllocateLinear(4096), cold = AllocateLinear(4096);
  ASSERT_TRUE(warm.served && cold.served);
  CUdeviceptr foreign = 0;
  ASSERT_EQ(cuMemAlloc(&foreign, 4096), CUDA_SUCCESS);
  CUresult result = CUDA_SUCCESS;
  ::testing::internal::CaptureStderr();
  for (int way : {EBT_EXPORT_IPC, EBT_EXPORT_RANGE, EBT_EXPORT_HANDLE, EBT_EXPORT_POOL_POINTER})
    EXPECT_FALSE(replayer_->Export(way, foreign, &result));
  // What cudaMalloc memory is refused natively too is not worth a line.
  for (int way : {EBT_EXPORT_HANDLE, EBT_EXPORT_POOL_POINTER}) {
    EXPECT_TRUE(replayer_->Export(way, warm.ptr, &result));
    EXPECT_EQ(result, CUDA_ERROR_INVALID_VALUE);
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  ::testing::internal::CaptureStderr();
  for (const Given& block : {warm, cold}) {
    EXPECT_TRUE(replayer_->Export(EBT_EXPORT_IPC, block.ptr, &result));
    EXPECT_EQ(result, CUDA_ERROR_INVALID_VALUE);
    EXPECT_TRUE(replayer_->Export(EBT_EXPORT_RANGE, block.ptr + 100, &result));
    EXPECT_EQ(result, CUDA_ERROR_NOT_SUPPORTED);
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_THAT(said, ::testing::HasSubstr("record the job again"));
}

}  // namespace
}  // namespace ebt::replay
