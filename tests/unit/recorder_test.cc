#include "src/record/recorder.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/log.h"
#include "src/profile/reader.h"
#include "tests/unit/recorder_fake_driver.h"

namespace ebt::record {
namespace {

using profile::Event;
using profile::EventKind;
using profile::Profile;

constexpr uint64_t kBase = 0x7f0000000000;

std::string TempPath(const char* name) {
  return testing::TempDir() + "ebt_" + std::to_string(getpid()) + "_" + name;
}

template <typename Condition>
bool Eventually(Condition condition) {
  for (int i = 0; i < 1000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

class RecorderTest : public testing::Test {
 protected:
  RecorderTest() : path_(TempPath(testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fake.ready = true;
    fake.capturing = false;
    fake.now_ms = 0;
    fake.context = 1;
    fake.device = 0;
    fake.free_bytes = 900;
    fake.total_bytes = 1000;
    fake.record_result = CUDA_SUCCESS;
    fake.events_recorded = 0;
    fake.events_created = 0;
  }
  ~RecorderTest() override {
    unlink(path_.c_str());
    unlink((path_ + ".oom-1.json").c_str());  // of the test that is refused memory
  }

  std::unique_ptr<Recorder> Start(RecorderOptions options = {}) {
    options.path = path_;
    auto recorder = Recorder::Create(FakeDriver(), std::move(options));
    EXPECT_TRUE(recorder.ok()) << recorder.status();
    return recorder.ok() ? *std::move(recorder) : nullptr;
  }

  Profile Finish(Recorder& recorder) {
    recorder.Close();
    absl::StatusOr<Profile> profile = profile::ReadProfile(path_);
    EXPECT_TRUE(profile.ok()) << profile.status();
    return profile.ok() ? *std::move(profile) : Profile{};
  }

  static void Launch(Recorder& recorder, FakeKernel& kernel, std::vector<uint64_t> pointers,
                     CUstream stream = nullptr) {
    std::vector<void*> params;
    for (uint64_t& pointer : pointers) params.push_back(&pointer);
    recorder.Launched({.function = &kernel,
                       .stream = stream,
                       .grid = {1, 1, 1},
                       .block = {32, 1, 1},
                       .params = params.data()});
  }

  const std::string path_;
  FakeKernel one_pointer_{.name = "axpy", .sizes = {8}};
  FakeKernel two_pointers_{.name = "add", .sizes = {8, 8}};
  const CUstream stream_ = reinterpret_cast<CUstream>(0x1000);
  const CUstream other_stream_ = reinterpret_cast<CUstream>(0x2000);
};

const ebt_alloc kLinear{.kind = EBT_ALLOC_LINEAR, .bytes = 512};

std::vector<EventKind> Kinds(const Profile& profile) {
  std::vector<EventKind> kinds;
  for (const Event& event : profile.events) kinds.push_back(event.kind);
  return kinds;
}

TEST_F(RecorderTest, WritesWhatHappenedInOrder) {
  const auto recorder = Start({.metadata = {{"program", "given"}}});
  fake.capturing = true;  // no marks in between
  fake.device = 3;
  recorder->Allocated({.kind = EBT_ALLOC_ASYNC, .bytes = 512, .stream = stream_}, kBase);
  recorder->Allocated(kLinear, kBase + 512);
  Launch(*recorder, two_pointers_, {kBase + 600, kBase + 4}, other_stream_);
  recorder->Copied({.kind = EBT_COPY_DTOD,
                    .dst = kBase + 512,
                    .src = kBase,
                    .bytes = 8,
                    .dst_span = 8,
                    .src_span = 8});
  recorder->Marked(EBT_MARK_PHASE, "backward");
  recorder->Marked(EBT_MARK_STEP, nullptr);
  recorder->Exported(kBase + 513);
  recorder->Refused(kLinear, CUDA_ERROR_OUT_OF_MEMORY);
  recorder->GraphLaunched(&one_pointer_);
  recorder->Freed(kBase, other_stream_, true);
  recorder->Freed(kBase + 1, nullptr, false);  // no block begins there
  const Profile profile = Finish(*recorder);
  EXPECT_FALSE(profile.truncated);
  EXPECT_FALSE(recorder->recording());
  EXPECT_EQ(Kinds(profile),
            (std::vector<EventKind>{EventKind::kAlloc, EventKind::kAlloc, EventKind::kLaunch,
                                    EventKind::kCopy, EventKind::kPhase, EventKind::kStep,
                                    EventKind::kFailed, EventKind::kGraph, EventKind::kFree}));
  ASSERT_EQ(profile.blocks.size(), 2u);
  EXPECT_EQ(profile.blocks[0].kind, profile::AllocKind::kAsync);
  EXPECT_EQ(profile.blocks[0].device, 3);
  EXPECT_EQ(profile.blocks[0].stream, 1);
  EXPECT_EQ(profile.blocks[0].free_stream, 2);
  EXPECT_EQ(profile.blocks[0].free_at, 8u);
  EXPECT_FALSE(profile.blocks[0].exported);
  EXPECT_TRUE(profile.blocks[1].exported);
  EXPECT_EQ(profile.blocks[1].stream, 0);
  EXPECT_NE(profile.blocks[0].site, 0u);
  EXPECT_EQ(profile.events[2].stream, 2);
  EXPECT_EQ(profile.events[2].touched, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(profile.events[3].touched, (std::vector<uint32_t>{1, 0}));
  EXPECT_EQ(profile.events[4].phase, "backward");
  ASSERT_EQ(profile.functions.size(), 1u);
  EXPECT_EQ(profile.functions[0].name, "add");
}

TEST_F(RecorderTest, DescribesTheProcessAndTheDevice) {
  const auto recorder = Start({.metadata = {{"program", "given"}}});
  fake.free_bytes = 3000000;
  fake.total_bytes = 10000000;
  recorder->Allocated(kLinear, kBase);
  fake.free_bytes = 1000000;
  // The second answer is of a question that came behind the change.
  const int asked = fake.memory_asked;
  ASSERT_TRUE(Eventually([&] { return fake.memory_asked >= asked + 2; }));
  fake.free_bytes = 2000000;
  const Profile profile = Finish(*recorder);
  EXPECT_EQ(profile.metadata.at("program"), "given");
  EXPECT_EQ(profile.metadata.at("pid"), std::to_string(getpid()));
  EXPECT_EQ(profile.metadata.at("driver_version"), "13000");
  EXPECT_EQ(profile.metadata.at("gpu"), "F");
  EXPECT_EQ(profile.metadata.at("total_bytes"), "10000000");
  EXPECT_EQ(profile.metadata.at("ebbtide"), EBBTIDE_VERSION);
  // 7 000 000 in use, of which the first allocation took a 2 MiB piece.
  EXPECT_EQ(profile.metadata.at("device_used_base_bytes"), "4902848");
  EXPECT_EQ(profile.metadata.at("device_used_peak_bytes"), "9000000");
  EXPECT_EQ(profile.metadata.count("stopped"), 0u);
}

TEST_F(RecorderTest, RecordsTheGpusTimeWhereItWasMarked) {
  const auto recorder = Start();
  recorder->Allocated(kLinear, kBase);
  fake.ready = false;
  for (int i = 0; i < 130; ++i) {
    fake.now_ms = static_cast<float>(i);
    Launch(*recorder, one_pointer_, {kBase}, stream_);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(120));  // the launches are in the file
  fake.ready = true;
  const Profile profile = Finish(*recorder);
  std::vector<std::pair<uint64_t, double>> marks;
  uint64_t launches = 0;
  for (const Event& event : profile.events) {
    if (event.kind == EventKind::kLaunch) ++launches;
    if (event.kind == EventKind::kMark) marks.emplace_back(launches, event.gpu_ms);
  }
  EXPECT_EQ(marks, (std::vector<std::pair<uint64_t, double>>{{0, 0.0}, {64, 64.0}, {128, 128.0}}));
}

TEST_F(RecorderTest, MarksLongTimesExactlyAndUsesEventsAgain) {
  const auto recorder = Start();
  for (int i = 0; i < 20; ++i) {
    const int asked = fake.times_asked;
    fake.now_ms = static_cast<float>(i * 5000);
    for (int launch = 0; launch < 64; ++launch) Launch(*recorder, one_pointer_, {kBase});
    const int recorded = fake.events_recorded;
    ASSERT_EQ(recorded, i + 1);
    // The first one is what the others are held against.
    ASSERT_TRUE(Eventually([&] { return i == 0 || fake.times_asked > asked; }));
  }
  const Profile profile = Finish(*recorder);
  double last = -1;
  for (const Event& event : profile.events) {
    if (event.kind == EventKind::kMark) last = event.gpu_ms;
  }
  EXPECT_EQ(last, 95000.0);
  EXPECT_LE(fake.events_created, 5);
}

TEST_F(RecorderTest, RecordsNoMarkOnACapturingStream) {
  const auto recorder = Start();
  fake.capturing = true;
  Launch(*recorder, one_pointer_, {kBase});
  EXPECT_EQ(fake.events_recorded, 0);
  EXPECT_EQ(Kinds(Finish(*recorder)), std::vector<EventKind>{EventKind::kLaunch});
}

TEST_F(RecorderTest, MarksNoStepOnAStreamThatIsGone) {
  const auto recorder = Start();
  Launch(*recorder, one_pointer_, {kBase}, stream_);
  recorder->Marked(EBT_MARK_STEP, nullptr);
  EXPECT_EQ(fake.events_recorded, 2);
  recorder->StreamDestroyed(stream_);
  recorder->Marked(EBT_MARK_STEP, nullptr);
  EXPECT_EQ(fake.events_recorded, 2);
}

TEST_F(RecorderTest, KeepsMarkingAfterAStreamOfAnotherContext) {
  const auto recorder = Start();
  fake.record_result = CUDA_ERROR_INVALID_HANDLE;
  Launch(*recorder, one_pointer_, {kBase}, stream_);
  fake.record_result = CUDA_SUCCESS;
  recorder->Marked(EBT_MARK_STEP, nullptr);
  EXPECT_EQ(Kinds(Finish(*recorder)),
            (std::vector<EventKind>{EventKind::kLaunch, EventKind::kMark, EventKind::kStep}));
}

TEST_F(RecorderTest, StopsMarkingButNotRecordingWhenTheDriverFails) {
  const auto recorder = Start();
  fake.record_result = CUDA_ERROR_DEINITIALIZED;
  Launch(*recorder, one_pointer_, {kBase}, stream_);
  fake.record_result = CUDA_SUCCESS;
  recorder->Marked(EBT_MARK_STEP, nullptr);
  EXPECT_EQ(Kinds(Finish(*recorder)),
            (std::vector<EventKind>{EventKind::kLaunch, EventKind::kStep}));
}

TEST_F(RecorderTest, KeepsTheOrderOfEachThreadInAStorm) {
  constexpr uint32_t kThreads = 4, kRounds = 500;
  const auto recorder = Start();
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const uint64_t address = kBase + t * 0x10000;
      for (uint32_t i = 0; i < kRounds; ++i) {
        recorder->Allocated({.kind = EBT_ALLOC_LINEAR, .bytes = 1 + i}, address);
        Launch(*recorder, one_pointer_, {address});
        recorder->Freed(address, nullptr, false);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Profile profile = Finish(*recorder);
  ASSERT_EQ(profile.blocks.size(), kThreads * kRounds);
  std::map<uint64_t, uint64_t> next_size;
  for (const profile::Block& block : profile.blocks) {
    EXPECT_EQ(block.bytes, ++next_size[block.address]);
    EXPECT_NE(block.free_at, profile::kNever);
  }
  uint64_t touches = 0;
  for (const Event& event : profile.events) touches += event.touched.size();
  EXPECT_EQ(touches, kThreads * kRounds);
}

TEST_F(RecorderTest, NumbersStreamsByFirstUseAndDestroyedOnesAnew) {
  const auto recorder = Start();
  fake.capturing = true;
  Launch(*recorder, one_pointer_, {kBase}, other_stream_);
  Launch(*recorder, one_pointer_, {kBase}, stream_);
  Launch(*recorder, one_pointer_, {kBase}, CU_STREAM_LEGACY);
  recorder->StreamDestroyed(other_stream_);
  Launch(*recorder, one_pointer_, {kBase}, other_stream_);
  Launch(*recorder, one_pointer_, {kBase}, CU_STREAM_PER_THREAD);
  std::thread([&] { Launch(*recorder, one_pointer_, {kBase}, CU_STREAM_PER_THREAD); }).join();
  std::vector<int> streams;
  for (const Event& event : Finish(*recorder).events) streams.push_back(event.stream);
  EXPECT_EQ(streams, (std::vector<int>{1, 2, 0, 3, 4, 5}));
}

TEST_F(RecorderTest, EndsTheBlocksOfAContextThatGoes) {
  const auto recorder = Start();
  recorder->Allocated(kLinear, kBase);
  fake.context = 2;
  recorder->Allocated(kLinear, kBase + 512);
  recorder->ContextGone(reinterpret_cast<CUcontext>(1));
  const Profile profile = Finish(*recorder);
  EXPECT_EQ(profile.blocks.at(0).free_at, 2u);
  EXPECT_EQ(profile.blocks.at(1).free_at, profile::kNever);
}

// The writer is kept out of the driver while a context ends, and events may have to wait for it.
TEST_F(RecorderTest, EndsMoreBlocksOfAContextThanThereIsRoomFor) {
  constexpr uint64_t kBlocks = 2000;
  const auto context = reinterpret_cast<CUcontext>(1);
  const std::function<void(Recorder&)> ends[] = {
      [&](Recorder& recorder) { recorder.ContextGone(context); },
      [&](Recorder& recorder) {
        recorder.ContextMayEnd();
        recorder.ContextMayHaveEnded(context);
      },
  };
  for (const auto& end : ends) {
    const auto recorder = Start({.max_bytes_in_flight = 4096});
    for (uint64_t i = 0; i < kBlocks; ++i) recorder->Allocated(kLinear, kBase + 512 * i);
    end(*recorder);
    EXPECT_TRUE(recorder->recording());
    EXPECT_EQ(Finish(*recorder).events.size(), 2 * kBlocks);
    unlink(path_.c_str());
  }
}

TEST_F(RecorderTest, StopsByItselfAfterTheWantedSteps) {
  const auto recorder = Start({.stop_after_steps = 2});
  fake.capturing = true;
  for (int step = 0; step < 2; ++step) recorder->Marked(EBT_MARK_STEP, nullptr);
  std::this_thread::sleep_for(std::chrono::milliseconds(120));
  EXPECT_TRUE(recorder->recording());  // two marks enclose one step
  recorder->Marked(EBT_MARK_STEP, nullptr);
  EXPECT_TRUE(Eventually([&] { return !recorder->recording(); }));
  recorder->Marked(EBT_MARK_STEP, nullptr);
  const Profile profile = Finish(*recorder);
  EXPECT_FALSE(profile.truncated);
  EXPECT_EQ(profile.events.size(), 3u);
}

TEST_F(RecorderTest, StopsByItselfWhenTheLaunchesRepeat) {
  const auto recorder = Start({.stop_after_steps = 3});
  std::vector<FakeKernel> kernels(8, one_pointer_);
  for (int step = 0; step < 2000 && recorder->recording(); ++step) {
    recorder->Allocated({.kind = EBT_ALLOC_LINEAR, .bytes = 1 << 20}, kBase);
    for (FakeKernel& kernel : kernels) Launch(*recorder, kernel, {kBase});
    recorder->Freed(kBase, nullptr, false);
    Launch(*recorder, two_pointers_, {kBase, kBase});
    Launch(*recorder, two_pointers_, {kBase, kBase});
  }
  EXPECT_TRUE(Eventually([&] { return !recorder->recording(); }));
  EXPECT_FALSE(Finish(*recorder).truncated);
}

TEST_F(RecorderTest, TurnsItselfOffWithOneLineWhenTheDiskIsFull) {
  // A limit on the size of files stands in for the full disk: write fails with EFBIG behind it.
  signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const auto recorder = Start();
  const rlimit limit{.rlim_cur = 20000, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &limit);
  testing::internal::CaptureStderr();
  for (int i = 0; i < 100000 && recorder->recording(); ++i) {
    Launch(*recorder, one_pointer_, {kBase});
  }
  EXPECT_TRUE(Eventually([&] { return !recorder->recording(); }));
  recorder->Close();
  const std::string said = testing::internal::GetCapturedStderr();
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_NE(said.find(path_), std::string::npos) << said;
  const auto profile = profile::ReadProfile(path_);
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_TRUE(profile->truncated);
}

TEST_F(RecorderTest, RefusesAPathOnAFullDiskWithOneStatus) {
  const auto recorder = Recorder::Create(FakeDriver(), {.path = "/dev/full"});
  EXPECT_EQ(recorder.status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(RecorderTest, WaitsWhenTooMuchIsInFlightAndLosesNothing) {
  const auto recorder = Start({.max_bytes_in_flight = 4096});
  fake.capturing = true;
  for (int i = 0; i < 2000; ++i) Launch(*recorder, one_pointer_, {kBase});
  EXPECT_TRUE(recorder->recording());
  EXPECT_EQ(Finish(*recorder).events.size(), 2000u);
}

TEST_F(RecorderTest, SetsTheGuardOfItsOwnThreadForGood) {
  static thread_local int guard = 0;
  static std::atomic<int*> asked{nullptr};
  const auto recorder = Start({.guard = [] {
    asked = &guard;
    return &guard;
  }});
  EXPECT_TRUE(Eventually([] { return asked != nullptr; }));
  EXPECT_NE(asked, &guard);
  EXPECT_EQ(guard, 0);
}

TEST_F(RecorderTest, LeavesTheParentsFileAloneInAForkedChild) {
  const auto recorder = Start();
  fake.capturing = true;
  Launch(*recorder, one_pointer_, {kBase});
  const pid_t child = fork();
  if (child == 0) {
    recorder->AfterFork();
    const bool off = !recorder->recording();
    recorder->Marked(EBT_MARK_STEP, nullptr);
    recorder->Close();
    _exit(off ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  Launch(*recorder, one_pointer_, {kBase});
  EXPECT_EQ(Finish(*recorder).events.size(), 2u);
}

// Not run by itself: the process that the next test kills.
TEST_F(RecorderTest, DISABLED_ChildThatRecordsForEver) {
  const char* path = getenv("EBT_TEST_CHILD_PROFILE");
  if (path == nullptr) return;
  auto recorder = Recorder::Create(FakeDriver(), {.path = path});
  fake.capturing = true;
  for (uint64_t i = 0;; ++i) {
    (*recorder)->Allocated({.kind = EBT_ALLOC_LINEAR, .bytes = 1 + i}, kBase);
    Launch(**recorder, one_pointer_, {kBase});
    (*recorder)->Freed(kBase, nullptr, false);
  }
}

TEST_F(RecorderTest, LeavesAReadableProfileWhenTheProcessIsKilled) {
  const std::string environment = "EBT_TEST_CHILD_PROFILE=" + path_;
  const pid_t child = fork();
  if (child == 0) {
    char filter[] = "--gtest_filter=*ChildThatRecordsForEver";
    char disabled[] = "--gtest_also_run_disabled_tests", program[] = "recorder_test";
    char* arguments[] = {program, filter, disabled, nullptr};
    char* variables[] = {const_cast<char*>(environment.c_str()), nullptr};
    execve("/proc/self/exe", arguments, variables);
    _exit(127);
  }
  const bool grew = Eventually([&] {
    const auto so_far = profile::ReadProfile(path_);
    return so_far.ok() && so_far->events.size() > 100;
  });
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  ASSERT_TRUE(grew);
  const auto profile = profile::ReadProfile(path_);
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_TRUE(profile->truncated);
  // A prefix of alloc, launch, free, alloc …
  for (size_t at = 0; at < profile->events.size(); ++at) {
    const EventKind expected[] = {EventKind::kAlloc, EventKind::kLaunch, EventKind::kFree};
    ASSERT_EQ(profile->events[at].kind, expected[at % 3]) << at;
  }
}

}  // namespace
}  // namespace ebt::record
