// A program that does not keep to the plan of its swapped blocks computes the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include "tests/unit/swapped_program.h"

namespace ebt::replay {
namespace {

class ReplayerSwapDiffersTest : public SwappedProgram {
 protected:
  // Reads the state into an allocation that no plan knows, with launches that none knows either.
  void Evaluate() {
    const CUdeviceptr result = Allocated(kActivation + 512);
    Fill(result, 0, kFloats);
    Add(result, first_, kFloats);
    Add(result, second_, kFloats);
    results_.push_back(FloatAt(result, kFloats - 1));
    EXPECT_EQ(FreeAsync(result, stream_), CUDA_SUCCESS);
  }
  static float Sum(int steps) { return kFirst + kSecond + 2 * static_cast<float>(steps); }

  std::vector<float> results_;
};

TEST_F(ReplayerSwapDiffersTest, EvaluationBetweenStepsReadsTheState) {
  StartSwapped();
  for (int round = 1; round <= 3; ++round) {
    Steps(2);
    Evaluate();
  }
  const report::RunLog log = End();
  EXPECT_EQ(results_, (std::vector<float>{Sum(2), Sum(4), Sum(6)}));
  EXPECT_EQ(log.Number("off_plan"), 6);
  EXPECT_EQ(log.Number("dynamic"), 3);
  EXPECT_EQ(log.Number("hits"), 12);
  ExpectState(6);
}

TEST_F(ReplayerSwapDiffersTest, EvaluationWithinAStepReadsTheState) {
  StartSwapped();
  for (int step = 1; step <= 4; ++step) {
    const CUdeviceptr activation = Allocated(kActivation);
    Fill(activation, 2, 2 * kFloats);
    Evaluate();  // its launches are taken for those of the step
    Fill(activation, 3, 2 * kFloats);
    EXPECT_EQ(FreeAsync(activation, stream_), CUDA_SUCCESS);
    UpdateFirst();
    UpdateSecond();
    Close();
  }
  EXPECT_EQ(results_, (std::vector<float>{Sum(0), Sum(1), Sum(2), Sum(3)}));
  ExpectState(4);
}

TEST_F(ReplayerSwapDiffersTest, ExtraLaunchesMoveThePointsAndNotTheBytes) {
  StartSwapped();
  Steps(2);
  for (int extra = 1; extra <= kLaunches + 1; ++extra) {
    const CUdeviceptr activation = Allocated(kActivation);
    for (int i = 0; i < extra; ++i) Fill(ones_, 1, kFloats);
    Fill(activation, 2, 2 * kFloats);
    Fill(activation, 3, 2 * kFloats);
    // What a slab has come over already would be lost.
    EXPECT_EQ(FloatAt(activation, 2 * kFloats - 1), 3);
    EXPECT_EQ(FreeAsync(activation, stream_), CUDA_SUCCESS);
    UpdateFirst();
    UpdateSecond();
    Close();
  }
  ExpectState(2 + kLaunches + 1);
}

TEST_F(ReplayerSwapDiffersTest, AStepCutShortAnywhereLosesNothing) {
  StartSwapped();
  Steps(2);
  for (int launches = 0; launches < kLaunches; ++launches) {
    const CUdeviceptr activation = Allocated(kActivation);
    for (int i = 0; i < std::min(launches, 2); ++i) Fill(activation, 2, 2 * kFloats);
    EXPECT_EQ(FreeAsync(activation, stream_), CUDA_SUCCESS);
    if (launches > 2) UpdateFirst();
    if (launches > 3) UpdateSecond();
    Step();
  }
  EXPECT_EQ(End().Number("dynamic"), 0);
  // Five whole steps more, the first block's update twice more, the second one's once.
  EXPECT_EQ(Read(first_), All(kFirst + 2 + 5 + 2));
  EXPECT_EQ(Read(second_), All(kSecond + 2 + 5 + 1));
}

TEST_F(ReplayerSwapDiffersTest, AnActivationThatOutlivesTheFetchKeepsTheStateOnTheHost) {
  StartSwapped();
  Steps(2);
  const CUdeviceptr activation = Allocated(kActivation);
  Fill(activation, 2, 2 * kFloats);
  Fill(activation, 3, 2 * kFloats);
  UpdateFirst();
  UpdateSecond();
  Close();
  EXPECT_EQ(FloatAt(activation, 0), 3);
  EXPECT_EQ(FloatAt(activation, 2 * kFloats - 1), 3);
  EXPECT_EQ(FreeAsync(activation, stream_), CUDA_SUCCESS);
  Step();
  const report::RunLog log = End();
  EXPECT_EQ(log.Number("missed_room"), 2);
  EXPECT_EQ(log.Number("hits"), 6);
  ExpectState(4);
}

TEST_F(ReplayerSwapDiffersTest, ExtraAllocationsLieElsewhere) {
  StartSwapped();
  for (int step = 0; step < 4; ++step) {
    const CUdeviceptr extra = Allocated(kActivation + 512);
    Fill(extra, 9, 2 * kFloats);
    Step();
    EXPECT_EQ(FloatAt(extra, 2 * kFloats - 1), 9);
    EXPECT_EQ(FreeAsync(extra, stream_), CUDA_SUCCESS);
  }
  EXPECT_EQ(End().Number("dynamic"), 4);
  ExpectState(4);
}

TEST_F(ReplayerSwapDiffersTest, StateThatIsFreedInTheMiddleOfAStepIsGoneAndNothingElse) {
  StartSwapped();
  Steps(2);
  Forward();
  UpdateFirst();
  UpdateSecond();
  EXPECT_EQ(FreeAsync(first_, stream_), CUDA_SUCCESS);
  Close();
  for (int step = 0; step < 3; ++step) {
    Forward();
    UpdateSecond();
    Fill(ones_, 1, kFloats);
    Close();
  }
  EXPECT_EQ(Read(second_), All(kSecond + 6));
  EXPECT_EQ(replayer_->Statistics().cold_bytes, kSlab);
}

// Against a model of two numbers.
TEST_F(ReplayerSwapDiffersTest, AThousandRandomDeparturesChangeNoByte) {
  StartSwapped();
  std::mt19937 random(20);
  float first = kFirst, second = kSecond;
  CUdeviceptr activation = 0;
  const auto end_forward = [&] {
    if (activation == 0) return;
    EXPECT_EQ(FreeAsync(activation, stream_), CUDA_SUCCESS);
    activation = 0;
  };
  constexpr int kTurns = test::StormOf(1000);
  for (int turn = 0; turn < kTurns && !HasFailure(); ++turn) {
    switch (random() % 9) {
      case 0:
        end_forward();
        Step();
        ++first, ++second;
        break;
      case 1:
        end_forward();
        activation = Allocated(kActivation);
        break;
      case 2:
        if (activation != 0) Fill(activation, 2, 2 * kFloats);
        break;
      case 3:
        end_forward();
        break;
      case 4:
        UpdateFirst();
        ++first;
        break;
      case 5:
        UpdateSecond();
        ++second;
        break;
      case 6:
        Close();
        break;
      case 7:
        EXPECT_EQ(FloatAt(first_, random() % kFloats), first) << turn;
        break;
      default:
        EXPECT_EQ(FloatAt(second_, random() % kFloats), second) << turn;
        break;
    }
  }
  end_forward();
  EXPECT_GT(End().Number("hits"), kTurns / 20);
  EXPECT_EQ(Read(first_), All(first));
  EXPECT_EQ(Read(second_), All(second));
}

// One trains, the others look at the state every fifth step: all the time, and it would stay in
// place.
TEST_F(ReplayerSwapDiffersTest, OtherThreadsReadTheStateWhileStepsRun) {
  StartSwapped();
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  constexpr int kSteps = 60;
  std::atomic<bool> done{false};
  std::atomic<int> step{0};
  std::vector<std::thread> readers;
  for (const CUdeviceptr block : {first_, second_})
    readers.emplace_back([&, block] {
      ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
      const CUstream stream = NewStream();
      const float begin = block == first_ ? kFirst : kSecond;
      float last = begin;
      // Pinned: a copy to other memory is waited for within the call, and so is all that it holds.
      void* host = nullptr;
      ASSERT_EQ(cuMemAllocHost(&host, sizeof last), CUDA_SUCCESS);
      while (!done) {
        Queue({EBT_COPY_DTOH, reinterpret_cast<uintptr_t>(host), block, sizeof last, stream, 0,
               sizeof last, sizeof last},
              [&] { return cuMemcpyDtoHAsync(host, block, sizeof last, stream); });
        ASSERT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
        const float value = *static_cast<float*>(host);
        // It only grows, by one a step.
        EXPECT_GE(value, last);
        EXPECT_LE(value, begin + kSteps);
        last = value;
        for (const int next = step + 5; !done && step < next;)
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  for (; step < kSteps; ++step) Step();
  done = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_GT(End().Number("hits"), 0);
  ExpectState(kSteps);
}

}  // namespace
}  // namespace ebt::replay
