#include "src/profile/snapshot_files.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace ebt::profile {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class SnapshotFilesTest : public testing::Test {
 protected:
  SnapshotFilesTest() {
    std::string pattern = testing::TempDir() + "ebt_snapshots_XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~SnapshotFilesTest() override { std::filesystem::remove_all(folder_); }

  void Refuse(SnapshotFiles& files, uint64_t bytes, milliseconds at, uint64_t total = 0) {
    const SnapshotFiles::Time now = start_ + at;
    if (!files.Note(bytes, now)) return;
    Snapshot snapshot;
    snapshot.refusal = {.bytes = bytes};
    snapshot.total_bytes = total;
    files.Refused(std::move(snapshot), now);
  }
  size_t Count() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }
  Snapshot Read(const std::string& name) const {
    std::ifstream file(folder_ + "/" + name);
    const auto it = ParseSnapshot(std::string(std::istreambuf_iterator<char>(file), {}), name);
    EXPECT_TRUE(it.ok()) << it.status();
    return it.ok() ? *it : Snapshot{};
  }

  std::string folder_;
  const SnapshotFiles::Time start_ = SnapshotFiles::Time(std::chrono::hours(1));
};

// The first at once; the 900 of the same second are one more, when the second is over.
TEST_F(SnapshotFilesTest, FirstHasItsFileAtOnceAndTheNextASecondLater) {
  SnapshotFiles files(folder_ + "/job", "train");
  Refuse(files, 100, milliseconds(0));
  EXPECT_EQ(Count(), 1u);
  for (int i = 1; i <= 900; ++i) Refuse(files, 200 + i % 7, milliseconds(i));
  EXPECT_EQ(Count(), 1u);
  files.Tick(start_ + milliseconds(999));
  EXPECT_EQ(Count(), 1u);
  files.Tick(start_ + seconds(1));
  EXPECT_EQ(Count(), 2u);
  EXPECT_EQ(Read("job.oom-1.json").refusal->count, 1u);
  EXPECT_EQ(Read("job.oom-2.json").refusal->count, 901u);
  EXPECT_EQ(Read("job.oom-2.json").refusal->largest_bytes, 206u);
  files.Tick(start_ + seconds(100));
  EXPECT_EQ(Count(), 2u) << "nothing was refused since";
}

TEST_F(SnapshotFilesTest, StormOfADayLeavesEightAndTheLastOfThemIsTheEnds) {
  SnapshotFiles files(folder_ + "/job", "train");
  for (int i = 0; i < 86400; ++i) Refuse(files, 1 + i, seconds(i));
  EXPECT_EQ(Count(), 7u);
  files.Finish();
  EXPECT_EQ(Count(), 8u);
  EXPECT_EQ(Read("job.oom-8.json").refusal->bytes, 86400u);
  files.Finish();
  EXPECT_EQ(Count(), 8u);
}

TEST_F(SnapshotFilesTest, TimeBetweenFilesDoubles) {
  SnapshotFiles files(folder_ + "/job", "train");
  Refuse(files, 1, seconds(0));
  Refuse(files, 1, seconds(1));
  EXPECT_EQ(Count(), 2u);
  Refuse(files, 1, milliseconds(2999));
  EXPECT_EQ(Count(), 2u);
  files.Tick(start_ + seconds(3));
  EXPECT_EQ(Count(), 3u);
}

// A library asks for most of the device now and then; what is refused otherwise has its file as if
// that had not been.
TEST_F(SnapshotFilesTest, ProbesHaveOneFileAndTheEnds) {
  SnapshotFiles files(folder_ + "/job", "train");
  testing::internal::CaptureStderr();
  for (int i = 0; i < 100; ++i) Refuse(files, 51, seconds(i), 100);
  EXPECT_EQ(Count(), 1u);
  Refuse(files, 50, seconds(200), 100);
  EXPECT_EQ(Count(), 2u);
  EXPECT_EQ(Read("job.oom-2.json").refusal->bytes, 50u);
  Refuse(files, 52, seconds(300), 100);
  EXPECT_EQ(Count(), 2u);
  files.Finish();
  EXPECT_EQ(Count(), 3u);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "ebbtide: train asked for 51 B of the device's 100 B at once, perhaps to see how much "
            "there is, and the driver had less: " +
                folder_ +
                "/job.oom-1.json says what filled the memory\n"
                "ebbtide: train asked for 50 B and the driver had no more (101 refusals so far): " +
                folder_ +
                "/job.oom-2.json says what filled the memory\n"
                "ebbtide: train asked for 52 B of the device's 100 B at once, perhaps to see how "
                "much there is, and the driver had less (102 refusals so far): " +
                folder_ + "/job.oom-3.json says what filled the memory\n");
}

TEST_F(SnapshotFilesTest, FilesThatAreThereStay) {
  std::ofstream(folder_ + "/job.oom-1.json") << "mine";
  SnapshotFiles files(folder_ + "/job", "train");
  Refuse(files, 5, seconds(0));
  EXPECT_EQ(Read("job.oom-2.json").refusal->bytes, 5u);
  EXPECT_EQ(std::filesystem::file_size(folder_ + "/job.oom-1.json"), 4u);
}

TEST_F(SnapshotFilesTest, UnwritableFolderIsOneLineInAll) {
  SnapshotFiles files(folder_ + "/absent/job", "train");
  testing::internal::CaptureStderr();
  for (int i = 0; i < 1000; ++i) Refuse(files, 5, seconds(i));
  files.Finish();
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "ebbtide: train asked for 5 B and the driver had no more; " + folder_ +
                "/absent/job.oom-1.json cannot be written (No such file or directory): "
                "EBBTIDE_DUMP chooses where it goes\n");
}

TEST_F(SnapshotFilesTest, WhatIsAskedForHasNumbersOfItsOwn) {
  SnapshotFiles files(folder_ + "/job", "train");
  testing::internal::CaptureStderr();
  files.Asked({});
  files.Asked({});
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "ebbtide: train was asked what fills its memory: " + folder_ +
                "/job.live-1.json says it\nebbtide: train was asked what fills its memory: " +
                folder_ + "/job.live-2.json says it\n");
}

TEST_F(SnapshotFilesTest, StemIsTheFilesOwnOrWhatTheUserNames) {
  EXPECT_EQ(SnapshotStem("/a/job.ebp", ""), "/a/job");
  EXPECT_EQ(SnapshotStem("/a/job", ""), "/a/job");
  EXPECT_EQ(SnapshotStem("/a/job.plan.json", ""), "/a/job.plan");
  EXPECT_EQ(SnapshotStem("/a/job.ebp", folder_), folder_ + "/job");
  EXPECT_EQ(SnapshotStem("/a/job.ebp", "/absent/"), "/absent/job");
  EXPECT_EQ(SnapshotStem("/a/job.ebp", "/absent/rank0"), "/absent/rank0");
  EXPECT_EQ(SnapshotStem("/dev/null", ""),
            (std::filesystem::current_path() / "ebbtide-snapshot_files_test-").string() +
                std::to_string(getpid()));
  EXPECT_EQ(SnapshotStem("job.ebp", ""), std::filesystem::current_path() / "job");
}

}  // namespace
}  // namespace ebt::profile
