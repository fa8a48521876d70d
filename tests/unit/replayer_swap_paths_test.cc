// Every way to name a swapped block outside its stay finds its bytes, and is counted.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/swapped_program.h"

namespace ebt::replay {

class ReplayerSwapPathsTest;

// One way, asynchronous on the program's stream. It deals with the middle float of the first
// block, and of the second one too where two blocks are named: as floats of `host`.
struct Path {
  const char* name;
  bool writes;
  int blocks;
  int launches;  // of kernels
  void (ReplayerSwapPathsTest::*run)(float* host);
};

// What a failing test is called by.
void PrintTo(const Path& path, std::ostream* out) { *out << path.name; }

class ReplayerSwapPathsTest : public SwappedProgram {
 public:
  void KernelParameters(float* host) { Fill(Middle(), host[0], 1); }
  void KernelExtraBuffer(float* host) {
    struct {
      CUdeviceptr p;
      float value;
      uint64_t n;
    } packed = {Middle(), host[0], 1};
    size_t bytes = sizeof packed;
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    EXPECT_EQ(Launch("ebt_fill", 1, stream_, nullptr, extra), CUDA_SUCCESS);
  }
  void KernelReads(float* host) {
    Fill(scratch_, 0, 1);
    Add(scratch_, Middle(), 1);
    ASSERT_EQ(cuMemcpyDtoHAsync(host, scratch_, sizeof *host, stream_), CUDA_SUCCESS);
  }

  void HostToDevice(float* host) {
    Queue(Flat(EBT_COPY_HTOD, Middle(), Address(host)),
          [&] { return cuMemcpyHtoDAsync(Middle(), host, sizeof *host, stream_); });
  }
  void DeviceToHost(float* host) {
    Queue(Flat(EBT_COPY_DTOH, Address(host), Middle()),
          [&] { return cuMemcpyDtoHAsync(host, Middle(), sizeof *host, stream_); });
  }
  void ToDeviceFromDevice(float* host) {
    ASSERT_EQ(cuMemcpyHtoDAsync(scratch_, host, sizeof *host, stream_), CUDA_SUCCESS);
    Queue(Flat(EBT_COPY_DTOD, Middle(), scratch_),
          [&] { return cuMemcpyDtoDAsync(Middle(), scratch_, sizeof *host, stream_); });
  }
  void FromDeviceToDevice(float* host) {
    Queue(Flat(EBT_COPY_DTOD, scratch_, Middle()),
          [&] { return cuMemcpyDtoDAsync(scratch_, Middle(), sizeof *host, stream_); });
    ASSERT_EQ(cuMemcpyDtoHAsync(host, scratch_, sizeof *host, stream_), CUDA_SUCCESS);
  }
  void BlockToBlock(float* host) {
    const CUdeviceptr from = second_ + kSlab / 2;
    Fill(from, host[0], 1);  // names the second block
    Queue(Flat(EBT_COPY_DTOD, Middle(), from),
          [&] { return cuMemcpyDtoDAsync(Middle(), from, sizeof *host, stream_); });
  }
  void UnifiedTo(float* host) {
    Queue(Flat(EBT_COPY_UNIFIED, Middle(), Address(host)),
          [&] { return cuMemcpyAsync(Middle(), Address(host), sizeof *host, stream_); });
  }
  void UnifiedFrom(float* host) {
    Queue(Flat(EBT_COPY_UNIFIED, Address(host), Middle()),
          [&] { return cuMemcpyAsync(Address(host), Middle(), sizeof *host, stream_); });
  }
  void PeerTo(float* host) {
    ASSERT_EQ(cuMemcpyHtoDAsync(scratch_, host, sizeof *host, stream_), CUDA_SUCCESS);
    Queue(Flat(EBT_COPY_PEER, Middle(), scratch_), [&] {
      return cuMemcpyPeerAsync(Middle(), context_, scratch_, context_, sizeof *host, stream_);
    });
  }

  void Rows2DTo(float* host) {
    CUDA_MEMCPY2D rows = RowsOnDevice2D(host);
    std::swap(rows.srcMemoryType, rows.dstMemoryType);
    std::swap(rows.srcDevice, rows.dstDevice);
    std::swap(rows.srcPitch, rows.dstPitch);
    rows.srcHost = host;
    Queue(Region(EBT_COPY_HTOD, Middle(), kRowsSpan, Address(host), 2 * sizeof *host),
          [&] { return cuMemcpy2DAsync(&rows, stream_); });
  }
  void Rows2DFrom(float* host) {
    const CUDA_MEMCPY2D rows = RowsOnDevice2D(host);
    Queue(Region(EBT_COPY_DTOH, Address(host), 2 * sizeof *host, Middle(), kRowsSpan),
          [&] { return cuMemcpy2DAsync(&rows, stream_); });
  }
  void Slices3DTo(float* host) {
    CUDA_MEMCPY3D slices = {};
    slices.srcMemoryType = CU_MEMORYTYPE_HOST;
    slices.srcHost = host;
    slices.srcPitch = sizeof *host;
    slices.srcHeight = 1;
    slices.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    slices.dstDevice = Middle();
    slices.dstPitch = kSlab / 2;
    slices.dstHeight = 2;
    slices.WidthInBytes = sizeof *host;
    slices.Height = 1;
    slices.Depth = 2;
    Queue(Region(EBT_COPY_HTOD, Middle(), kRowsSpan, Address(host), 2 * sizeof *host),
          [&] { return cuMemcpy3DAsync(&slices, stream_); });
  }
  void Memset(float* host) {
    Queue({EBT_COPY_MEMSET, Middle(), 0, sizeof *host, stream_, 0, sizeof *host, 0},
          [&] { return cuMemsetD32Async(Middle(), Bits(host[0]), 1, stream_); });
  }
  void MemsetRows(float* host) {
    Queue({EBT_COPY_MEMSET, Middle(), 0, 2 * sizeof *host, stream_, 0, kRowsSpan, 0},
          [&] { return cuMemsetD2D32Async(Middle(), kSlab, Bits(host[0]), 1, 2, stream_); });
  }

 protected:
  // A row in the middle of each block.
  static constexpr uint64_t kRowsSpan = kSlab + sizeof(float);

  // Two devices, for peers; read at the driver's first call.
  static void SetUpTestSuite() {
    setenv("SIMCUDA_DEVICES", "2", 1);
    SwappedProgram::SetUpTestSuite();
  }
  ReplayerSwapPathsTest() {
    EXPECT_EQ(cuMemAlloc(&scratch_, 512), CUDA_SUCCESS);
    void* host = nullptr;
    EXPECT_EQ(cuMemAllocHost(&host, 2 * sizeof(float)), CUDA_SUCCESS);
    host_ = static_cast<float*>(host);
  }

  static uint64_t Address(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }
  static unsigned Bits(float value) {
    unsigned bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
  }
  CUdeviceptr Middle() const { return first_ + kSlab / 2; }
  ebt_copy Flat(int kind, uint64_t dst, uint64_t src) const {
    return {kind, dst, src, sizeof(float), stream_, 0, sizeof(float), sizeof(float)};
  }
  ebt_copy Region(int kind, uint64_t dst, uint64_t dst_span, uint64_t src,
                  uint64_t src_span) const {
    return {kind, dst, src, 2 * sizeof(float), stream_, 0, dst_span, src_span};
  }
  CUDA_MEMCPY2D RowsOnDevice2D(float* host) const {
    CUDA_MEMCPY2D rows = {};
    rows.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    rows.srcDevice = Middle();
    rows.srcPitch = kSlab;
    rows.dstMemoryType = CU_MEMORYTYPE_HOST;
    rows.dstHost = host;
    rows.dstPitch = sizeof *host;
    rows.WidthInBytes = sizeof *host;
    rows.Height = 2;
    return rows;
  }

  CUdeviceptr scratch_ = 0;  // the driver's
  float* host_ = nullptr;
};

class ReplayerSwapEveryPathTest : public ReplayerSwapPathsTest,
                                  public ::testing::WithParamInterface<Path> {};

TEST_P(ReplayerSwapEveryPathTest, OutsideTheStayTheBytesAreFoundAndTheTouchIsCounted) {
  const Path& path = GetParam();
  StartSwapped();
  Steps(3);
  host_[0] = host_[1] = path.writes ? 100 : 0;
  (this->*path.run)(host_);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  const float first = path.writes ? 100 : kFirst + 3;
  const float second = path.writes ? 100 : kSecond + 3;
  EXPECT_EQ(host_[0], first);
  if (path.blocks == 2) {
    EXPECT_EQ(host_[1], second);
  }
  Steps(2);
  const report::RunLog log = End();
  EXPECT_EQ(log.Number("off_plan"), path.blocks);
  EXPECT_EQ(log.Number("hits"), 10);
  EXPECT_EQ(log.Number("in_place_slabs"), 0);
  const float middle = (path.writes ? 100 : kFirst + 3) + 2;
  EXPECT_EQ(Read(first_), (std::vector<float>{kFirst + 5, middle, kFirst + 5}));
  const float other = (path.writes && path.blocks == 2 ? 100 : kSecond + 3) + 2;
  EXPECT_EQ(Read(second_), (std::vector<float>{kSecond + 5, other, kSecond + 5}));
}

TEST_P(ReplayerSwapEveryPathTest, DuringTheStayTheBytesAreFoundOnTheDevice) {
  const Path& path = GetParam();
  StartSwapped();
  Steps(3);
  Forward();
  UpdateFirst();
  UpdateSecond();
  host_[0] = host_[1] = path.writes ? 100 : 0;
  (this->*path.run)(host_);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(host_[0], path.writes ? 100 : kFirst + 4);
  Close();
  Step();
  const report::RunLog log = End();
  // A kernel is a launch more than the plan knows: at it the slabs leave.
  EXPECT_EQ(log.Number("off_plan"), path.launches > 0 ? path.blocks : 0);
  EXPECT_EQ(Read(first_),
            (std::vector<float>{kFirst + 5, path.writes ? 101 : kFirst + 5, kFirst + 5}));
  const float other = path.writes && path.blocks == 2 ? 101 : kSecond + 5;
  EXPECT_EQ(Read(second_), (std::vector<float>{kSecond + 5, other, kSecond + 5}));
}

INSTANTIATE_TEST_SUITE_P(
    All, ReplayerSwapEveryPathTest,
    ::testing::Values(
        Path{"KernelParameters", true, 1, 1, &ReplayerSwapPathsTest::KernelParameters},
        Path{"KernelExtraBuffer", true, 1, 1, &ReplayerSwapPathsTest::KernelExtraBuffer},
        Path{"KernelReads", false, 1, 2, &ReplayerSwapPathsTest::KernelReads},
        Path{"HostToDevice", true, 1, 0, &ReplayerSwapPathsTest::HostToDevice},
        Path{"DeviceToHost", false, 1, 0, &ReplayerSwapPathsTest::DeviceToHost},
        Path{"ToDeviceFromDevice", true, 1, 0, &ReplayerSwapPathsTest::ToDeviceFromDevice},
        Path{"FromDeviceToDevice", false, 1, 0, &ReplayerSwapPathsTest::FromDeviceToDevice},
        Path{"BlockToBlock", true, 2, 1, &ReplayerSwapPathsTest::BlockToBlock},
        Path{"UnifiedTo", true, 1, 0, &ReplayerSwapPathsTest::UnifiedTo},
        Path{"UnifiedFrom", false, 1, 0, &ReplayerSwapPathsTest::UnifiedFrom},
        Path{"PeerTo", true, 1, 0, &ReplayerSwapPathsTest::PeerTo},
        Path{"Rows2DTo", true, 2, 0, &ReplayerSwapPathsTest::Rows2DTo},
        Path{"Rows2DFrom", false, 2, 0, &ReplayerSwapPathsTest::Rows2DFrom},
        Path{"Slices3DTo", true, 2, 0, &ReplayerSwapPathsTest::Slices3DTo},
        Path{"Memset", true, 1, 0, &ReplayerSwapPathsTest::Memset},
        Path{"MemsetRows", true, 2, 0, &ReplayerSwapPathsTest::MemsetRows}),
    [](const auto& info) { return std::string(info.param.name); });

// From device 1, whose context is let into the memory of device 0.
TEST_F(ReplayerSwapPathsTest, APeersCopyFindsTheBytesOutsideTheStayAndDuringIt) {
  CUcontext other = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&other, 1), CUDA_SUCCESS);
  StartSwapped();
  ASSERT_EQ(cuCtxSetCurrent(other), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxEnablePeerAccess(context_, 0), CUDA_SUCCESS);
  replayer_->PeerEnabled(context_);
  CUdeviceptr buffer = 0;
  ASSERT_EQ(cuMemAlloc(&buffer, kSlab), CUDA_SUCCESS);
  const CUstream stream = NewStream();
  ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  // The peer's copy of the block's middle float.
  const auto peer_reads = [&] {
    EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSetCurrent(other), CUDA_SUCCESS);
    Queue({EBT_COPY_PEER, buffer, Middle(), sizeof(float), stream, 0, sizeof(float), sizeof(float)},
          [&] {
            return cuMemcpyPeerAsync(buffer, other, Middle(), context_, sizeof(float), stream);
          });
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    float value = 0;
    EXPECT_EQ(cuMemcpyDtoH(&value, buffer, sizeof value), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
    return value;
  };
  Steps(3);
  EXPECT_EQ(peer_reads(), kFirst + 3);
  Forward();
  UpdateFirst();
  EXPECT_EQ(peer_reads(), kFirst + 4);
  UpdateSecond();
  Close();
  Step();
  // Another context's work is ordered with nothing here: what it names stays in place for good.
  const report::RunLog log = End();
  EXPECT_EQ(log.Number("off_plan"), 0);
  EXPECT_EQ(log.Number("in_place_slabs"), 1);
  ExpectState(5);
  replayer_.reset();
  cuDevicePrimaryCtxReset(1);
}

TEST_F(ReplayerSwapPathsTest, AWordAtABlocksEndNamesIt) {
  StartSwapped();
  Steps(3);
  Fill(second_ + kSlab, 7, 0);  // writes nothing
  Steps(2);
  EXPECT_EQ(End().Number("off_plan"), 1);
  ExpectState(5);
}

TEST_F(ReplayerSwapPathsTest, ANumberThatLooksLikeAnAddressCostsTimeAlone) {
  StartSwapped();
  Steps(3);
  CUdeviceptr p = scratch_;
  float value = 5;
  uint64_t n = first_;  // elements; the grid allows for 256 of them, a granted 512 bytes hold 128
  void* params[] = {&p, &value, &n};
  ebt_launch launch{};
  launch.function = Function("ebt_fill");
  launch.stream = stream_;
  launch.grid[0] = 1;
  launch.block[0] = 64;
  launch.params = params;
  ASSERT_TRUE(replayer_->Launch(launch));
  ASSERT_EQ(cuLaunchKernel(Function("ebt_fill"), 1, 1, 1, 64, 1, 1, 0, stream_, params, nullptr),
            CUDA_SUCCESS);
  replayer_->Touched();
  Steps(2);
  EXPECT_EQ(End().Number("off_plan"), 1);
  ExpectState(5);
}

}  // namespace ebt::replay
