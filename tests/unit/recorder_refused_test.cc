// What a recorder leaves of refused allocations, while it records and behind a complete recording.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "src/base/units.h"
#include "src/profile/reader.h"
#include "src/profile/snapshot.h"
#include "src/record/recorder.h"
#include "tests/unit/recorder_fake_driver.h"

namespace ebt::record {
namespace {

using std::chrono::milliseconds;

constexpr uint64_t kBase = 0x700000000000;

class RecorderRefused : public testing::Test {
 protected:
  RecorderRefused() {
    std::string pattern = testing::TempDir() + "ebt_refused_XXXXXX";
    folder_ = mkdtemp(pattern.data());
    fake.capturing = true;  // no marks of the GPU's time
    fake.free_bytes = 900;
  }
  ~RecorderRefused() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<Recorder> Start(uint64_t steps = 0) {
    auto recorder =
        Recorder::Create(FakeDriver(), {.path = folder_ + "/job.ebp",
                                        .stop_after_steps = steps,
                                        .site = []() noexcept -> uint64_t { return 7; },
                                        .fingerprint = []() noexcept -> uint64_t { return 0; }});
    EXPECT_TRUE(recorder.ok()) << recorder.status();
    return *std::move(recorder);
  }
  static void Alloc(Recorder& recorder, uint64_t place, uint64_t bytes) {
    recorder.Allocated({.kind = EBT_ALLOC_LINEAR, .bytes = bytes}, kBase + place);
  }
  static void Free(Recorder& recorder, uint64_t place) {
    recorder.Freed(kBase + place, nullptr, false);
  }
  static void Refuse(Recorder& recorder, uint64_t bytes) {
    recorder.Refused({.kind = EBT_ALLOC_LINEAR, .bytes = bytes}, CUDA_ERROR_OUT_OF_MEMORY);
  }
  // Marks steps until the recording is complete.
  static void Complete(Recorder& recorder) {
    for (int i = 0; i < 1000 && recorder.recording(); ++i) {
      recorder.Marked(EBT_MARK_STEP, nullptr);
      Launch(recorder);
      std::this_thread::sleep_for(milliseconds(5));
    }
    EXPECT_FALSE(recorder.recording());
  }
  void AwaitClosedFile() const {
    for (int i = 0; i < 1000; ++i) {
      const auto profile = profile::ReadProfile(folder_ + "/job.ebp");
      if (profile.ok() && !profile->truncated) return;
      std::this_thread::sleep_for(milliseconds(5));
    }
    ADD_FAILURE() << "the writer does not close its file";
  }
  static void Launch(Recorder& recorder) {
    static FakeKernel kernel{.name = "k"};
    recorder.Launched({.function = &kernel, .grid = {1, 1, 1}, .block = {1, 1, 1}});
  }
  profile::Snapshot Read(int number) const {
    const std::string name = folder_ + "/job.oom-" + std::to_string(number) + ".json";
    std::ifstream file(name);
    const auto it =
        profile::ParseSnapshot(std::string(std::istreambuf_iterator<char>(file), {}), name);
    EXPECT_TRUE(it.ok()) << it.status();
    return it.ok() ? *it : profile::Snapshot{};
  }

  std::string folder_;
};

TEST_F(RecorderRefused, FileIsThereWhenTheHookReturnsAndHoldsTheDriversFigures) {
  const auto recorder = Start();
  Alloc(*recorder, 0, 1024);
  fake.free_bytes = 300;
  Refuse(*recorder, 5000);
  const profile::Snapshot it = Read(1);
  EXPECT_EQ(it.refusal->bytes, 5000u);
  EXPECT_EQ(it.refusal->site, 7u);
  EXPECT_EQ(it.free_bytes, 300u);
  EXPECT_EQ(it.total_bytes, 1000u);
  EXPECT_EQ(it.live_bytes, 1024u);
  EXPECT_EQ(it.metadata.at("gpu"), "F");
  recorder->Close();
  const auto profile = profile::ReadProfile(folder_ + "/job.ebp");
  ASSERT_TRUE(profile.ok()) << profile.status();
  ASSERT_EQ(profile->events.size(), 2u);
  EXPECT_EQ(profile->events[1].kind, profile::EventKind::kFailed);
  EXPECT_EQ(profile->events[1].bytes, 5000u);
}

TEST_F(RecorderRefused, OtherErrorsLeaveNothing) {
  const auto recorder = Start();
  Alloc(*recorder, 0, 1024);
  recorder->Refused({.kind = EBT_ALLOC_LINEAR, .bytes = 1}, CUDA_ERROR_INVALID_VALUE);
  recorder->Close();
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/job.oom-1.json"));
}

// Threads allocate and free all the while that the recording becomes complete. In the end three
// blocks are left, and neither a block nor a free has been lost on the way.
TEST_F(RecorderRefused, NothingIsLostWhereTheRecordingEnds) {
  const auto recorder = Start(2);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&, thread] {
      const uint64_t place = thread * kGiB;
      while (!stop) {
        for (uint64_t i = 0; i < 16; ++i) Alloc(*recorder, place + i * kMiB, 4096);
        for (uint64_t i = 0; i < 16; ++i) Free(*recorder, place + i * kMiB);
        Launch(*recorder);
        std::this_thread::yield();
      }
      Alloc(*recorder, place, 512 << thread);
    });
  }
  Complete(*recorder);
  std::this_thread::sleep_for(milliseconds(100));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  Refuse(*recorder, 1 << 20);
  const profile::Snapshot it = Read(1);
  EXPECT_EQ(it.live_blocks, 3u);
  EXPECT_EQ(it.live_bytes, 512u + 1024 + 2048);
  recorder->Close();
  const auto profile = profile::ReadProfile(folder_ + "/job.ebp");
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_FALSE(profile->truncated);
}

std::atomic<int> unwinds{0};

// An unwind costs more than the rest: behind the recording a fingerprint that has stood for one
// site stands for it, with the same size. One that stood for two (of 2048 bytes here), or none,
// does not.
TEST_F(RecorderRefused, KnownStacksAreNotUnwoundBehindTheRecording) {
  static std::atomic<uint64_t> site{7}, fingerprint{70};
  auto made = Recorder::Create(FakeDriver(),
                               {.path = folder_ + "/job.ebp",
                                .stop_after_steps = 2,
                                .site = []() noexcept -> uint64_t {
                                  ++unwinds;
                                  return site;
                                },
                                .fingerprint = []() noexcept -> uint64_t { return fingerprint; }});
  ASSERT_TRUE(made.ok()) << made.status();
  Recorder& recorder = **made;
  Alloc(recorder, 0, 1024);
  Alloc(recorder, kMiB, 2048);
  site = 8;
  Alloc(recorder, 2 * kMiB, 2048);
  Complete(recorder);
  site = 9;
  EXPECT_EQ(unwinds, 3);
  Alloc(recorder, 3 * kMiB, 1024);
  EXPECT_EQ(unwinds, 3);
  Alloc(recorder, 4 * kMiB, 2048);
  EXPECT_EQ(unwinds, 4);
  Alloc(recorder, 5 * kMiB, 4096);
  EXPECT_EQ(unwinds, 5);
  fingerprint = 0;
  Alloc(recorder, 6 * kMiB, 1024);
  EXPECT_EQ(unwinds, 6);
  Refuse(recorder, 5000);
  const profile::Snapshot it = Read(1);
  // Site 7: 1024 twice and 2048. Site 8: 2048. Site 9: 2048, 4096 and 1024.
  ASSERT_EQ(it.sites.largest.size(), 3u);
  EXPECT_EQ(it.sites.largest[0].site, 9u);
  EXPECT_EQ(it.sites.largest[0].bytes, 7168u);
  EXPECT_EQ(it.sites.largest[1].site, 7u);
  EXPECT_EQ(it.sites.largest[1].bytes, 4096u);
  EXPECT_EQ(it.sites.largest[2].bytes, 2048u);
}

TEST_F(RecorderRefused, ProfileDoesNotGrowBehindItsEndAndLaunchesAreCounted) {
  const auto recorder = Start(2);
  Alloc(*recorder, 0, 1024);
  Complete(*recorder);
  AwaitClosedFile();
  const auto size = std::filesystem::file_size(folder_ + "/job.ebp");
  recorder->Marked(EBT_MARK_STEP, nullptr);
  for (int i = 0; i < 10000; ++i) Launch(*recorder);
  recorder->Marked(EBT_MARK_STEP, nullptr);
  Refuse(*recorder, 5000);
  const profile::Snapshot it = Read(1);
  ASSERT_GE(it.steps.size(), 2u);
  EXPECT_EQ(it.steps[it.steps.size() - 2].launches, 10000u);
  recorder->Close();
  EXPECT_EQ(std::filesystem::file_size(folder_ + "/job.ebp"), size);
}

}  // namespace
}  // namespace ebt::record
