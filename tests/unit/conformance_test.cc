// Everything that claims to hold blocks holds their bytes: random programs on several streams and
// in several threads, with every byte compared, whatever the driver refuses.
//
//   EBT_CONFORMANCE_OPERATIONS=N   in all, of all subjects together
//   EBT_CONFORMANCE_SEED=N         the one sequence with this seed, of every test that has it
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/log.h"
#include "tests/unit/conformance_application.h"
#include "tests/unit/conformance_faults.h"
#include "tests/unit/conformance_subjects.h"
#include "tests/unit/simulated_device.h"

namespace ebt::test {
namespace {

// What the sanitizers are there for shows in a part of what every byte is compared for.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
constexpr uint64_t kOperations = kSanitized ? 60'000 : 1'050'000;
constexpr size_t kThreads = 3;
constexpr uint64_t kInRound = 3000, kInThreadsRound = 1500;  // of each thread

std::optional<uint64_t> NumberFrom(const char* variable) {
  const char* text = getenv(variable);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return strtoull(text, nullptr, 10);
}

// Of one subject.
uint64_t OperationsOfSubject() {
  const uint64_t all = NumberFrom("EBT_CONFORMANCE_OPERATIONS").value_or(kOperations);
  return all / 3;
}

struct Round {
  uint64_t seed = 0;
  size_t threads = 1;
  uint64_t operations = kInRound;  // of each thread
  Faults::Schedule faults = {};
};

template <typename T>
class ConformanceTest : public SimulatedDevice {
 protected:
  ConformanceTest() {
    SetLogLevel(LogLevel::kError);  // refusals are the point
    Faults::Clear();
    CUmodule module = nullptr;
    EXPECT_EQ(cuModuleLoadData(&module, "any image"), CUDA_SUCCESS);
    for (auto [function, name] : {std::pair{&kernels_.fill, "ebt_fill"},
                                  {&kernels_.axpy, "ebt_axpy"},
                                  {&kernels_.mix, "ebt_mix"}})
      EXPECT_EQ(cuModuleGetFunction(function, module, name), CUDA_SUCCESS);
  }
  ~ConformanceTest() override {
    Faults::Clear();
    SetLogLevel(LogLevel::kWarning);
  }
  static void SetUpTestSuite() {
    operations_ = 0;
    began_ = std::chrono::steady_clock::now();
  }
  static void TearDownTestSuite() {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began_;
    printf("%s: %llu operations in %.1f s\n", T::kName,
           static_cast<unsigned long long>(operations_.load()), took.count());
  }

  // After a fault, which no context survives.
  void RenewDevice() {
    if (cuCtxSynchronize() == CUDA_SUCCESS) return;
    EXPECT_EQ(cuDevicePrimaryCtxReset(0), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  }

  // A refusal of the start leaves a program without Ebbtide; the next start has to do.
  std::unique_ptr<Subject> Start(const DriverApi& driver) {
    for (int i = 0; i < 3; ++i)
      if (auto subject = T::Create(driver, context_)) return subject;
    Faults::Clear();
    return T::Create(driver, context_);
  }

  // What was wrong; empty: nothing.
  std::string Play(const Round& round, const DriverApi& driver = Faults::Driver()) {
    Faults::Set(round.faults);
    std::unique_ptr<Subject> subject = Start(driver);
    if (!subject) return "the subject cannot be made";
    std::vector<std::string> failures(round.threads);
    const auto run = [&](size_t part) {
      Application application(*subject, kernels_,
                              {round.seed, part, round.threads, round.faults.any()});
      application.Run(round.operations);
      application.Finish();
      failures[part] = application.failure();
      operations_ += application.operations();
    };
    if (round.threads == 1) {
      run(0);
    } else {
      std::vector<std::thread> threads;
      for (size_t part = 0; part < round.threads; ++part)
        threads.emplace_back([&, part] {
          EXPECT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
          run(part);
        });
      for (std::thread& thread : threads) thread.join();
    }
    std::string all;
    for (const std::string& failure : failures) absl::StrAppend(&all, failure);
    if (!round.faults.any() && all.empty() && subject->blocks().live_bytes() != 0)
      all = absl::StrCat("blocks are left, EBT_CONFORMANCE_SEED=", round.seed);
    const CUresult result = cuCtxSynchronize();
    if (result != CUDA_SUCCESS && all.empty())
      all = absl::StrCat("the device has faulted: ", result, ", EBT_CONFORMANCE_SEED=", round.seed);
    subject.reset();
    Faults::Clear();
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    cuThreadExchangeStreamCaptureMode(&mode);
    if (mode != CU_STREAM_CAPTURE_MODE_GLOBAL && all.empty())
      all =
          absl::StrCat("the program's capture mode was changed, EBT_CONFORMANCE_SEED=", round.seed);
    return all;
  }

  // Of the calls to the subject that the program of one thread makes.
  uint64_t DigestOf(uint64_t seed) {
    const std::unique_ptr<Subject> subject = T::Create(SimulatedDriver(), context_);
    Application application(*subject, kernels_, {.seed = seed});
    application.Run(kInRound);
    application.Finish();
    EXPECT_EQ(application.failure(), "");
    return application.digest();
  }

  // Rounds of consecutive seeds until `operations` have been done, or the one seed asked for.
  template <typename Schedule>
  void PlayAll(Round round, uint64_t operations, Schedule schedule) {
    const std::optional<uint64_t> wanted = NumberFrom("EBT_CONFORMANCE_SEED");
    const uint64_t in_round = round.operations * round.threads;
    const uint64_t rounds = (operations + in_round - 1) / in_round;
    const uint64_t first = round.seed;
    for (uint64_t i = 0; i < rounds || (wanted && *wanted - first < 1'000'000); ++i) {
      round.seed = wanted ? *wanted : first + i;
      if (round.seed - first >= 1'000'000) return;  // another test's
      round.faults = schedule(round.seed);
      ASSERT_EQ(Play(round), "") << T::kName;
      if (wanted) return;
    }
  }

  static Faults::Schedule NoFaults(uint64_t) { return {}; }
  static Faults::Schedule RandomFaults(uint64_t seed) {
    constexpr uint64_t kOneIn[] = {20, 50, 200};
    return {.seed = seed, .one_in = kOneIn[seed % 3]};
  }

  ConformanceKernels kernels_;
  static inline std::atomic<uint64_t> operations_{0};
  static inline std::chrono::steady_clock::time_point began_;
};

struct SubjectNames {
  template <typename T>
  static std::string GetName(int) {
    return T::kName;
  }
};
using Subjects = ::testing::Types<ReferenceSubject, ManagedSubject, SwapSubject>;
TYPED_TEST_SUITE(ConformanceTest, Subjects, SubjectNames);

TYPED_TEST(ConformanceTest, StreamsOfOneThreadFindEveryByte) {
  this->PlayAll({.seed = 1'000'000}, OperationsOfSubject() * 70 / 100, this->NoFaults);
}

TYPED_TEST(ConformanceTest, ThreadsFindEveryByteWhileTheyMoveEachOthersSlabs) {
  this->PlayAll({.seed = 2'000'000, .threads = kThreads, .operations = kInThreadsRound},
                OperationsOfSubject() * 10 / 100, this->NoFaults);
}

TYPED_TEST(ConformanceTest, RandomRefusalsCostNoByteAndNoError) {
  this->PlayAll({.seed = 3'000'000}, OperationsOfSubject() * 17 / 100, this->RandomFaults);
}

TYPED_TEST(ConformanceTest, RandomRefusalsCostThreadsNoByteAndNoError) {
  this->PlayAll({.seed = 4'000'000, .threads = kThreads, .operations = kInThreadsRound},
                OperationsOfSubject() * 3 / 100, this->RandomFaults);
}

// Where a mapping can be neither made nor ended at any try, bytes are out of reach; and a mode that
// cannot be given back is not.
bool MayBeRefusedForGood(size_t function) {
  return function != kIndex_cuMemMap && function != kIndex_cuMemUnmap &&
         function != kIndex_cuMemSetAccess && function != kIndex_cuThreadExchangeStreamCaptureMode;
}

// Each function that the subject calls at all is refused: one of its first calls alone, then every
// third, then all from some call on, then every other one while others are refused too, which is
// when some are called at all.
TYPED_TEST(ConformanceTest, EachFunctionsRefusalsCostNoByteAndNoError) {
  uint64_t calls[kDriverFunctions], refused[kDriverFunctions];
  for (size_t f = 0; f < kDriverFunctions; ++f) {
    calls[f] = Faults::calls(f);
    refused[f] = Faults::refused(f);
  }
  uint64_t seed = 5'000'000;
  const auto play = [&](uint64_t operations, Faults::Schedule faults) {
    faults.seed = ++seed;
    return this->Play({.seed = seed, .operations = operations, .faults = faults});
  };
  constexpr int kCalls = kSanitized ? 2 : 6, kRounds = kSanitized ? 1 : 3;
  for (int i = 0; i < 4; ++i) ASSERT_EQ(play(500, {}), "");
  std::vector<bool> tried(kDriverFunctions);
  for (bool more = true; more;) {
    more = false;
    for (size_t f = 0; f < kDriverFunctions; ++f) {
      if (tried[f] || Faults::calls(f) == calls[f]) continue;
      tried[f] = more = true;
      SCOPED_TRACE(Faults::NameOf(f));
      for (uint64_t nth = 1; nth <= kCalls; ++nth)
        ASSERT_EQ(play(200, {.function = f, .nth = nth}), "") << "call " << nth;
      for (int i = 0; i < kRounds; ++i) ASSERT_EQ(play(500, {.function = f, .one_in = 3}), "");
      for (int i = 0; i < kRounds && MayBeRefusedForGood(f); ++i)
        ASSERT_EQ(play(1000, {.function = f, .nth = uint64_t{3} << (2 * i), .lasting = true}), "");
      for (int i = 0; i < 200 && (i < kRounds || Faults::refused(f) == refused[f]); ++i)
        ASSERT_EQ(play(200, {.function = f, .one_in = 2, .others_one_in = 8}), "");
    }
  }
  int functions = 0;
  for (size_t f = 0; f < kDriverFunctions; ++f) {
    if (Faults::calls(f) == calls[f]) continue;
    ++functions;
    EXPECT_GT(Faults::refused(f), refused[f]) << Faults::NameOf(f) << " was never refused";
  }
  printf("%s: %d driver functions, each refused\n", TypeParam::kName, functions);
}

TYPED_TEST(ConformanceTest, ASeedMeansTheSameSequence) {
  for (uint64_t seed = 7'000'000; seed < 7'000'003; ++seed) {
    const uint64_t digest = this->DigestOf(seed);
    EXPECT_EQ(this->DigestOf(seed), digest);
    EXPECT_NE(this->DigestOf(seed + 10), digest);
  }
}

// The suite must be able to tell: the same where no stream waits for another.
TYPED_TEST(ConformanceTest, WithoutOrderBytesWouldBeWrong) {
  DriverApi careless = SimulatedDriver();
  careless.fn_cuStreamWaitEvent = [](CUstream, CUevent, unsigned) { return CUDA_SUCCESS; };
  std::string found;
  for (uint64_t seed = 6'000'000; found.empty() && seed < 6'000'100; ++seed)
    found = this->Play({.seed = seed}, careless);
  // Wrong bytes, or an address that was mapped anew while work still used it.
  const bool seen = found.find("should be") != std::string::npos ||
                    found.find("call failed: 700") != std::string::npos;
  EXPECT_TRUE(seen) << found;
  EXPECT_NE(found.find("EBT_CONFORMANCE_SEED="), std::string::npos) << found;
  this->RenewDevice();
}

}  // namespace
}  // namespace ebt::test
