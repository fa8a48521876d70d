// A planned place goes from one stream to another: only behind an event, whatever the plan says.
#include <gtest/gtest.h>

#include "tests/unit/replayed_program.h"

namespace ebt::replay {
namespace {

TEST_F(ReplayerTest, APlannedPlaceOfAnotherStreamIsUsedBehindItsWorkAlone) {
  for (bool named : {true, false}) {
    Slot second = Warm(kMiB, 0);
    if (named) second.after = {1};
    Replay({}, {Warm(2 * kMiB, 0), second});
    const CUstream a = NewStream(), b = NewStream();
    void* host = nullptr;
    ASSERT_EQ(cuMemAllocHost(&host, 2 * kMiB), CUDA_SUCCESS);
    const Given first = AllocateAsync(2 * kMiB, a);
    for (int i = 0; i < 20; ++i) {
      ASSERT_EQ(cuMemsetD8Async(first.ptr, 0x11, 2 * kMiB, a), CUDA_SUCCESS);
    }
    ASSERT_EQ(cuMemcpyDtoHAsync(host, first.ptr, 2 * kMiB, a), CUDA_SUCCESS);
    ASSERT_EQ(FreeAsync(first.ptr, a), CUDA_SUCCESS);
    const Given given = AllocateAsync(kMiB, b);
    ASSERT_TRUE(given.served);
    ASSERT_EQ(given.ptr, first.ptr);
    EXPECT_EQ(cuStreamQuery(a), CUDA_ERROR_NOT_READY);  // the host did not wait
    ASSERT_EQ(cuMemsetD8Async(given.ptr, 0x22, kMiB, b), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamQuery(b), CUDA_ERROR_NOT_READY);
    ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(static_cast<unsigned char*>(host)[0], 0x11);  // the first block's, to its end
    EXPECT_EQ(static_cast<unsigned char*>(host)[kMiB], 0x11);
    unsigned char byte = 0;
    ASSERT_EQ(cuMemcpyDtoH(&byte, given.ptr, 1), CUDA_SUCCESS);
    EXPECT_EQ(byte, 0x22);
    cuMemFreeHost(host);
  }
}

}  // namespace
}  // namespace ebt::replay
