// The recorder where its disk stands still: a pipe that nobody reads. Its own operator new counts.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "src/profile/packed_stream.h"
#include "src/record/recorder.h"
#include "tests/unit/recorder_fake_driver.h"

namespace {

std::atomic<size_t> bytes_held{0};
std::atomic<size_t> most_held{0};

void Count(size_t bytes) {
  const size_t now = bytes_held.fetch_add(bytes) + bytes;
  size_t most = most_held.load();
  while (now > most && !most_held.compare_exchange_weak(most, now)) {
  }
}

}  // namespace

void* operator new(size_t bytes) {
  void* memory = malloc(bytes == 0 ? 1 : bytes);
  if (!memory) throw std::bad_alloc();
  Count(malloc_usable_size(memory));
  return memory;
}
void operator delete(void* memory) noexcept {
  bytes_held -= memory == nullptr ? 0 : malloc_usable_size(memory);
  free(memory);
}
void operator delete(void* memory, size_t) noexcept { operator delete(memory); }

namespace ebt::record {
namespace {

using std::chrono::duration;
using std::chrono::steady_clock;

constexpr uint64_t kBase = 0x7f0000000000;
constexpr size_t kInFlight = 16 << 20;
// What recorder.h says comes on top. The compressor's part of it takes no operator new.
constexpr size_t kWriter = 13 << 20;

class RecorderStall : public testing::Test {
 protected:
  RecorderStall()
      : path_(testing::TempDir() + "ebt_" + std::to_string(getpid()) + "_stalled_" +
              testing::UnitTest::GetInstance()->current_test_info()->name()) {
    EXPECT_EQ(mkfifo(path_.c_str(), 0600), 0);
    reader_ = open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    EXPECT_GE(fcntl(reader_, F_SETPIPE_SZ, 4096), 4096);
    fake.capturing = true;  // no marks
    auto recorder =
        Recorder::Create(FakeDriver(), {.path = path_, .max_bytes_in_flight = kInFlight});
    EXPECT_TRUE(recorder.ok()) << recorder.status();
    recorder_ = *std::move(recorder);
    recorder_->Allocated({.kind = EBT_ALLOC_LINEAR, .bytes = 4096}, kBase);
  }
  ~RecorderStall() override {
    if (reader_ >= 0) close(reader_);  // what the writer waits for fails now
    recorder_->Close();
    unlink(path_.c_str());
  }

  void Launch() {
    uint64_t pointer = kBase;
    void* params[] = {&pointer};
    recorder_->Launched({.function = &kernel_, .params = params});
  }

  FakeKernel kernel_{"kernel", {8}};
  std::string path_;
  int reader_ = -1;
  std::unique_ptr<Recorder> recorder_;
};

TEST_F(RecorderStall, CostsASecondOfWaitingAndTheStatedMemory) {
  const size_t before = bytes_held;
  most_held = before;
  testing::internal::CaptureStderr();
  const auto start = steady_clock::now();
  duration<double> longest{0};
  uint64_t launches = 0;
  for (; recorder_->recording() && launches < 10'000'000; ++launches) {
    const auto call = steady_clock::now();
    Launch();
    longest = std::max<duration<double>>(longest, steady_clock::now() - call);
  }
  const duration<double> took = steady_clock::now() - start;
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_FALSE(recorder_->recording());
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_NE(said.find("cannot keep up"), std::string::npos) << said;
  // All of it was used: 72 bytes an event, and the segments' ends.
  EXPECT_GT(launches * 72, kInFlight * 9 / 10);
  printf("%zu KiB held at most, %lu launches\n", (most_held - before) >> 10, launches);
  EXPECT_LT(most_held - before, kInFlight + kWriter);
  EXPECT_GT(took.count(), 0.9);
  EXPECT_LT(longest.count(), 5);  // a second of sleeps, on a busy machine
}

TEST_F(RecorderStall, OverInTimeLosesNothing) {
  std::atomic<bool> done{false};
  std::thread disk([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    std::vector<char> bytes(65536);
    while (!done) {
      if (read(reader_, bytes.data(), bytes.size()) <= 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
  });
  // Half as much again as there is room for.
  constexpr uint64_t kLaunches = kInFlight / 72 * 3 / 2;
  for (uint64_t i = 0; i < kLaunches; ++i) Launch();
  EXPECT_TRUE(recorder_->recording());
  EXPECT_EQ(recorder_->events(), kLaunches + 1);
  recorder_->Close();
  done = true;
  disk.join();
}

}  // namespace
}  // namespace ebt::record
