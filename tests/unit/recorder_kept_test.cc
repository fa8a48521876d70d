// Blocks that something keeps the address of: a graph, a tensor map, a stream's memory operation.
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "src/profile/reader.h"
#include "src/record/recorder.h"
#include "tests/unit/recorder_fake_driver.h"

namespace ebt::record {
namespace {

constexpr uint64_t kBase = 0x7f0000000000;
constexpr size_t kBytes = 512;

class RecorderKeptTest : public testing::Test {
 protected:
  RecorderKeptTest() : path_(testing::TempDir() + "kept-" + std::to_string(getpid()) + ".ebp") {
    unlink(path_.c_str());
    fake.capturing = false;
    recorder_ = *Recorder::Create(FakeDriver(), {.path = path_});
    for (uint64_t block = 0; block < 4; ++block)
      recorder_->Allocated({.kind = EBT_ALLOC_LINEAR, .bytes = kBytes}, kBase + block * kBytes);
  }
  ~RecorderKeptTest() override {
    fake.capturing = false;
    unlink(path_.c_str());
  }

  static uint64_t In(uint64_t block) { return kBase + block * kBytes + 8; }
  ebt_launch Launch() {
    return {.function = &kernel_,
            .stream = nullptr,
            .grid = {1, 1, 1},
            .block = {32, 1, 1},
            .shared_bytes = 0,
            .params = params_,
            .extra = nullptr};
  }
  static ebt_copy Copy(uint64_t dst, uint64_t src) {
    return {EBT_COPY_DTOD, dst, src, 8, nullptr, 0, 8, 8};
  }
  // Ends the recording: the blocks that are kept.
  std::vector<uint32_t> Kept() {
    recorder_->Close();
    const auto profile = profile::ReadProfile(path_);
    EXPECT_TRUE(profile.ok()) << profile.status();
    std::vector<uint32_t> kept;
    if (!profile.ok()) return kept;
    for (const profile::Block& block : profile->blocks)
      if (block.kept) kept.push_back(block.id);
    return kept;
  }

  const std::string path_;
  FakeKernel kernel_{.name = "add", .sizes = {8, 8}};
  uint64_t words_[2] = {In(1), In(3)};
  void* params_[2] = {&words_[0], &words_[1]};
  std::unique_ptr<Recorder> recorder_;
};

using Blocks = std::vector<uint32_t>;

TEST_F(RecorderKeptTest, ABlockWhoseAddressIsTakenIsKept) {
  recorder_->Kept(In(2));
  recorder_->Kept(In(2));
  recorder_->Kept(kBase - 1);
  recorder_->Kept(CUdeviceptr{0});
  EXPECT_EQ(Kept(), (Blocks{2}));
}

TEST_F(RecorderKeptTest, WhatANodeNamesIsKept) {
  recorder_->Kept(Launch());
  recorder_->Kept(Copy(In(0), 0));
  EXPECT_EQ(Kept(), (Blocks{0, 1, 3}));
}

TEST_F(RecorderKeptTest, WhatIsCapturedIsKept) {
  recorder_->CaptureBegun();
  fake.capturing = true;
  recorder_->Launched(Launch());
  recorder_->Copied(Copy(In(0), In(1)));
  recorder_->CaptureEnded();
  EXPECT_EQ(Kept(), (Blocks{0, 1, 3}));
}

TEST_F(RecorderKeptTest, WorkOnAStreamThatDoesNotCaptureKeepsNothing) {
  recorder_->CaptureBegun();
  recorder_->Launched(Launch());
  recorder_->CaptureEnded();
  recorder_->CaptureEnded();
  fake.capturing = true;  // nobody said so: the driver is not asked
  recorder_->Copied(Copy(In(0), In(1)));
  EXPECT_EQ(Kept(), Blocks{});
}

TEST_F(RecorderKeptTest, ABlockAtTheSameAddressIsAnother) {
  recorder_->Kept(In(1));
  recorder_->Freed(kBase + kBytes, nullptr, false);
  recorder_->Allocated({.kind = EBT_ALLOC_LINEAR, .bytes = kBytes}, kBase + kBytes);
  EXPECT_EQ(Kept(), (Blocks{1}));
}

}  // namespace
}  // namespace ebt::record
