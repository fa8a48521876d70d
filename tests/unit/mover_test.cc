#include "src/tier/mover.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "src/base/units.h"
#include "tests/unit/simulated_device.h"

namespace ebt::tier {
namespace {

using Direction = Mover::Direction;

int* Guard() {
  thread_local int guard = 0;
  return &guard;
}

constexpr uint64_t kBytes = 40 * kMiB;  // ten pieces

class MoverTest : public test::SimulatedDevice {
 protected:
  MoverTest() {
    mover_ = Mover::Create(driver_, &Guard).value();
    EXPECT_EQ(cuMemAlloc(&device_, kBytes), CUDA_SUCCESS);
    void* host = nullptr;
    EXPECT_EQ(cuMemHostAlloc(&host, kBytes, 0), CUDA_SUCCESS);
    host_ = reinterpret_cast<CUdeviceptr>(host);
    for (CUevent* event : {&gate_, &done_})
      EXPECT_EQ(cuEventCreate(event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    EXPECT_EQ(cuMemAlloc(&word_, 512), CUDA_SUCCESS);
    EXPECT_EQ(cuMemsetD32(word_, 0, 1), CUDA_SUCCESS);
  }
  ~MoverTest() override {
    SetFaults("");
    Open();
    mover_.reset();
  }

  // The gate stays shut until Open.
  void Shut() {
    const CUstream stream = NewStream();
    ASSERT_EQ(cuStreamWaitValue32(stream, word_, 1, CU_STREAM_WAIT_VALUE_EQ), CUDA_SUCCESS);
    ASSERT_EQ(cuEventRecord(gate_, stream), CUDA_SUCCESS);
  }
  void Open() { ASSERT_EQ(cuStreamWriteValue32(NewStream(), word_, 1, 0), CUDA_SUCCESS); }

  static CUevent NewEvent() {
    CUevent event = nullptr;
    EXPECT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    return event;
  }
  uint64_t QueueIn(uint64_t bytes) {
    return mover_->Queue(Direction::kIn, {device_, host_, bytes, gate_, done_,
                                          [this](CUresult r) { results_.push_back(r); }});
  }
  // Until the mover has issued so many bytes, and for a while longer, in which it must not go on.
  void AwaitIssued(uint64_t bytes) {
    for (int i = 0; i < 2000 && mover_->bytes(Direction::kIn) < bytes; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(mover_->bytes(Direction::kIn), bytes);
  }

  const DriverApi& driver_ = test::SimulatedDriver();
  std::unique_ptr<Mover> mover_;
  CUdeviceptr device_ = 0, host_ = 0, word_ = 0;
  CUevent gate_ = nullptr, done_ = nullptr;
  std::vector<CUresult> results_;  // read after a Flush, which orders it
};

TEST_F(MoverTest, KeepsFourPiecesInFlightUntilItIsFlushed) {
  Shut();
  const uint64_t ticket = QueueIn(kBytes);
  AwaitIssued(16 * kMiB);
  EXPECT_FALSE(mover_->Issued(Direction::kIn, ticket));
  mover_->Flush(Direction::kIn, ticket);  // returns though nothing has moved
  EXPECT_EQ(mover_->bytes(Direction::kIn), kBytes);
  EXPECT_EQ(results_, std::vector<CUresult>{CUDA_SUCCESS});
  EXPECT_EQ(cuEventQuery(done_), CUDA_ERROR_NOT_READY);
}

TEST_F(MoverTest, IssuesNothingWhileACopyOfTheApplicationsIsDue) {
  ASSERT_EQ(cuEventRecord(gate_, nullptr), CUDA_SUCCESS);
  const CUstream stream = NewStream();
  RightOfWay& application = mover_->application(Direction::kIn);
  const size_t copy = application.Begin(stream);
  ASSERT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  const uint64_t ticket = QueueIn(kBytes);
  AwaitIssued(0);
  mover_->Flush(Direction::kIn, ticket);  // whoever waits for it comes first all the same
  EXPECT_EQ(mover_->bytes(Direction::kIn), kBytes);
  QueueIn(kBytes);
  AwaitIssued(kBytes);
  application.End(copy, stream, false);
  AwaitIssued(2 * kBytes);
}

TEST_F(MoverTest, GoesOnWhileACopyOfTheApplicationsCannotRunYet) {
  Shut();
  const CUstream stream = NewStream();
  ASSERT_EQ(cuStreamWaitEvent(stream, gate_, 0), CUDA_SUCCESS);
  RightOfWay& application = mover_->application(Direction::kIn);
  application.End(application.Begin(stream), stream, false);
  ASSERT_EQ(cuEventRecord(done_, nullptr), CUDA_SUCCESS);
  mover_->Queue(Direction::kIn, {device_, host_, kBytes, done_, NewEvent(), nullptr});
  AwaitIssued(kBytes);
}

TEST_F(MoverTest, LeavesTheOtherDirectionAlone) {
  ASSERT_EQ(cuEventRecord(gate_, nullptr), CUDA_SUCCESS);
  const CUstream stream = NewStream();
  const size_t copy = mover_->application(Direction::kOut).Begin(stream);
  QueueIn(kBytes);
  AwaitIssued(kBytes);
  mover_->application(Direction::kOut).End(copy, stream, false);
}

TEST_F(MoverTest, BringsTheBytesBehindTheGate) {
  auto* bytes = reinterpret_cast<unsigned char*>(host_);
  for (uint64_t i = 0; i < kBytes; i += kMiB) bytes[i] = static_cast<unsigned char>(i / kMiB + 1);
  Shut();
  mover_->Flush(Direction::kIn, QueueIn(kBytes));
  bytes[0] = 99;  // still before the copy
  Open();
  ASSERT_EQ(cuEventSynchronize(done_), CUDA_SUCCESS);
  for (uint64_t i = 0; i < kBytes; i += kMiB) {
    unsigned char byte = 0;
    ASSERT_EQ(cuMemcpyDtoH(&byte, device_ + i, 1), CUDA_SUCCESS);
    EXPECT_EQ(byte, i == 0 ? 99 : i / kMiB + 1);
  }
}

TEST_F(MoverTest, GoesOnByItselfAsPiecesAreDone) {
  ASSERT_EQ(cuEventRecord(gate_, nullptr), CUDA_SUCCESS);
  QueueIn(kBytes);
  AwaitIssued(kBytes);
}

TEST_F(MoverTest, IssuesInTheOrderOfTheTicketsOfADirection) {
  ASSERT_EQ(cuEventRecord(gate_, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(QueueIn(4 * kMiB), 1u);
  EXPECT_EQ(QueueIn(8 * kMiB), 2u);
  EXPECT_EQ(mover_->Queue(Direction::kOut, {host_, device_, kMiB, gate_, done_, nullptr}), 1u);
  mover_->Flush(Direction::kIn, 2);
  EXPECT_TRUE(mover_->Issued(Direction::kIn, 1));
  EXPECT_EQ(results_.size(), 2u);
  mover_->Flush(Direction::kOut, 1);
  EXPECT_EQ(mover_->bytes(Direction::kOut), kMiB);
}

TEST_F(MoverTest, ARefusedPieceEndsItsCopyAndTheNextOneHappens) {
  ASSERT_EQ(cuEventRecord(gate_, nullptr), CUDA_SUCCESS);
  for (const char* fault : {"cuStreamWaitEvent:1=400", "cuMemcpyAsync:1=999", "cuMemcpyAsync:2=999",
                            "cuEventRecord:3=400"}) {
    SetFaults(fault);
    results_.clear();
    mover_->Flush(Direction::kIn, QueueIn(8 * kMiB));
    SetFaults("");
    ASSERT_EQ(results_.size(), 1u) << fault;
    EXPECT_NE(results_[0], CUDA_SUCCESS) << fault;
    mover_->Flush(Direction::kIn, QueueIn(8 * kMiB));
    EXPECT_EQ(results_[1], CUDA_SUCCESS) << fault;
  }
}

TEST_F(MoverTest, APieceThatCannotBeCountedIsCopiedAllTheSame) {
  ASSERT_EQ(cuEventRecord(gate_, nullptr), CUDA_SUCCESS);
  SetFaults("cuEventCreate:1+=2");
  mover_->Flush(Direction::kIn, QueueIn(kBytes));
  EXPECT_EQ(results_, std::vector<CUresult>{CUDA_SUCCESS});
}

TEST_F(MoverTest, EndsWithCopiesPending) {
  ASSERT_EQ(cuEventRecord(gate_, nullptr), CUDA_SUCCESS);
  for (int i = 0; i < 20; ++i) QueueIn(kBytes);
  mover_.reset();
}

TEST_F(MoverTest, StoppingIssuesWhatIsQueuedAndRefusesWhatComesLater) {
  Shut();
  const uint64_t ticket = QueueIn(kBytes);
  mover_->Stop();
  EXPECT_TRUE(mover_->Issued(Direction::kIn, ticket));
  EXPECT_EQ(mover_->bytes(Direction::kIn), kBytes);
  mover_->Flush(Direction::kIn, QueueIn(kBytes));
  EXPECT_EQ(results_, (std::vector<CUresult>{CUDA_SUCCESS, CUDA_ERROR_DEINITIALIZED}));
  EXPECT_EQ(mover_->bytes(Direction::kIn), kBytes);
  mover_->Stop();
}

TEST_F(MoverTest, AThreadWithoutAContextIsAnError) {
  SetFaults("cuCtxSetCurrent:1=201");
  EXPECT_FALSE(Mover::Create(driver_, &Guard).ok());
  SetFaults("cuStreamCreateWithPriority:2=2");
  EXPECT_FALSE(Mover::Create(driver_, &Guard).ok());
}

}  // namespace
}  // namespace ebt::tier
