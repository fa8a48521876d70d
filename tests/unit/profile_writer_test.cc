#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

#include "src/profile/reader.h"
#include "src/profile/writer.h"
#include "tests/unit/profile_golden.h"

namespace ebt::profile {
namespace {

std::string TempPath(const char* name) {
  return testing::TempDir() + "ebt_" + std::to_string(getpid()) + "_" + name;
}

std::string Content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

callsite::Site GoldenSite() {
  callsite::Site site{.id = 0x11};
  site.frames.push_back({.kind = callsite::Frame::Kind::kPython,
                         .module = "train.py",
                         .offset = 12,
                         .function = "main"});
  return site;
}

TEST(ProfileWriter, WritesTheGoldenExampleByteForByte) {
  const std::string path = TempPath("golden");
  absl::StatusOr<ProfileWriter> writer = ProfileWriter::Open(path);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE(writer->AddMetadata({{"gpu", "H200"}}).ok());
  ASSERT_TRUE(writer->AddSites({GoldenSite()}).ok());
  ASSERT_TRUE(writer->AddFunctions({"axpy"}).ok());
  const uint32_t touched[] = {7};
  ASSERT_TRUE(
      writer
          ->AppendEvents({{.sequence = 40,
                           .kind = RecordKind::kAlloc,
                           .alloc = AllocKind::kAsync,
                           .stream = 1,
                           .block = 7,
                           .bytes = 1024,
                           .site = 0x11,
                           .fingerprint = 0x22,
                           .address = 0x1000},
                          {.sequence = 41,
                           .kind = RecordKind::kLaunch,
                           .stream = 1,
                           .shape = 0x33,
                           .touched = touched},
                          {.sequence = 43, .kind = RecordKind::kMark, .stream = 1, .gpu_ms = 2.5},
                          {.sequence = 44, .kind = RecordKind::kFree, .stream = 1, .block = 7}})
          .ok());
  ASSERT_TRUE(writer->Close().ok());
  EXPECT_EQ(Content(path), GoldenBytes());
  unlink(path.c_str());
}

TEST(ProfileWriter, LeavesAReadableFileAfterEachFlush) {
  const std::string path = TempPath("flush");
  absl::StatusOr<ProfileWriter> writer = ProfileWriter::Open(path);
  ASSERT_TRUE(writer.ok());
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(writer->AppendEvents({{.sequence = i, .kind = RecordKind::kStep}}).ok());
    ASSERT_TRUE(writer->Flush().ok());
    const absl::StatusOr<Profile> profile = ReadProfile(path);
    ASSERT_TRUE(profile.ok()) << profile.status();
    EXPECT_TRUE(profile->truncated);
    EXPECT_EQ(profile->events.size(), i + 1);
  }
  unlink(path.c_str());
}

TEST(ProfileWriter, SaysWhyAPathCannotBeWritten) {
  const absl::Status status = ProfileWriter::Open("/nonexistent/folder/p.ebt").status();
  EXPECT_EQ(status.message().find("/nonexistent/folder/p.ebt: "), 0u) << status;
}

TEST(ProfileWriter, LeavesAloneAFileThatIsBeingWritten) {
  const std::string path = TempPath("locked");
  absl::StatusOr<ProfileWriter> first = ProfileWriter::Open(path);
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(first->AddMetadata({{"a", "b"}}).ok());
  EXPECT_EQ(ProfileWriter::Open(path).status().code(), absl::StatusCode::kAlreadyExists);
  ASSERT_TRUE(first->Close().ok());
  EXPECT_EQ(ReadProfile(path)->metadata.at("a"), "b");
  EXPECT_TRUE(ProfileWriter::Open(path).ok());
  unlink(path.c_str());
}

TEST(ProfileWriter, GoesBesideWhatIsThereAndLeavesItAlone) {
  const std::string path = TempPath("beside") + ".ebp";
  const std::string stem = path.substr(0, path.size() - 4) + "." + std::to_string(getpid());
  for (const std::string& expected : {path, stem + ".ebp", stem + ".2.ebp"}) {
    absl::StatusOr<ProfileWriter> writer = ProfileWriter::OpenBeside(path);
    ASSERT_TRUE(writer.ok()) << writer.status();
    EXPECT_EQ(writer->path(), expected);
    ASSERT_TRUE(writer->AddMetadata({{"name", expected}}).ok());
    ASSERT_TRUE(writer->Close().ok());
  }
  for (const std::string& written : {path, stem + ".ebp", stem + ".2.ebp"}) {
    EXPECT_EQ(ReadProfile(written)->metadata.at("name"), written);
    unlink(written.c_str());
  }
}

TEST(ProfileWriter, NumberFollowsANameWithoutASuffix) {
  const std::string folder = TempPath("a.b");
  ASSERT_EQ(mkdir(folder.c_str(), 0755), 0);
  const std::string path = folder + "/job";
  ASSERT_TRUE(ProfileWriter::OpenBeside(path).ok());
  const absl::StatusOr<ProfileWriter> second = ProfileWriter::OpenBeside(path);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->path(), path + "." + std::to_string(getpid()));
  unlink(second->path().c_str());
  unlink(path.c_str());
  rmdir(folder.c_str());
}

TEST(ProfileWriter, DeviceIsWrittenToAsItIs) {
  const absl::StatusOr<ProfileWriter> writer = ProfileWriter::OpenBeside("/dev/null");
  ASSERT_TRUE(writer.ok()) << writer.status();
  EXPECT_EQ(writer->path(), "/dev/null");
}

TEST(ProfileWriter, ReportsAFullDiskAndWritesNothingMore) {
  // The header already finds no room.
  const absl::Status status = ProfileWriter::Open("/dev/full").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message().find("/dev/full: "), 0u) << status;
}

TEST(WriteProfile, ReadsBackAsItWas) {
  Profile profile;
  profile.metadata = {{"program", "t"}, {"unknown key", "kept"}};
  profile.sites.push_back(GoldenSite());
  profile.functions = {{0, "first"}, {1, "second"}};
  profile.blocks = {{.id = 0, .site = 0x11, .bytes = 512, .alloc_at = 0, .free_at = 5},
                    {.id = 1,
                     .bytes = 1 << 20,
                     .address = 1 << 21,
                     .kind = AllocKind::kManaged,
                     .device = 3,
                     .stream = 2,
                     .alloc_at = 1,
                     .exported = true,
                     .kept = true}};
  profile.events = {
      {.kind = EventKind::kAlloc, .block = 0, .bytes = 512},
      {.kind = EventKind::kAlloc, .stream = 2, .block = 1, .bytes = 1 << 20},
      {.kind = EventKind::kPhase, .phase = "backward"},
      {.kind = EventKind::kLaunch, .function = 1, .shape = 9, .touched = {0, 1}},
      {.kind = EventKind::kCopy, .copy = CopyKind::kDtoD, .bytes = 7, .touched = {1, 0}},
      {.kind = EventKind::kFree, .block = 0},
      {.kind = EventKind::kGraph, .function = 77},
      {.kind = EventKind::kFailed, .bytes = 1ull << 40},
      {.kind = EventKind::kStep}};
  const std::string path = TempPath("whole");
  ASSERT_TRUE(WriteProfile(profile, path).ok());
  const absl::StatusOr<Profile> read = ReadProfile(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_FALSE(read->truncated);
  EXPECT_EQ(read->metadata, profile.metadata);
  ASSERT_EQ(read->functions.size(), 2u);
  EXPECT_EQ(read->functions[1].name, "second");
  ASSERT_EQ(read->blocks.size(), 2u);
  EXPECT_EQ(read->blocks[0].free_at, 5u);
  EXPECT_EQ(read->blocks[1].free_at, kNever);
  EXPECT_EQ(read->blocks[1].device, 3);
  EXPECT_EQ(read->blocks[1].kind, AllocKind::kManaged);
  EXPECT_TRUE(read->blocks[1].exported);
  EXPECT_FALSE(read->blocks[0].exported);
  EXPECT_TRUE(read->blocks[1].kept);
  EXPECT_FALSE(read->blocks[0].kept);
  ASSERT_EQ(read->events.size(), profile.events.size());
  for (size_t at = 0; at < read->events.size(); ++at) {
    EXPECT_EQ(read->events[at].kind, profile.events[at].kind) << at;
    EXPECT_EQ(read->events[at].touched, profile.events[at].touched) << at;
    EXPECT_EQ(read->events[at].bytes, profile.events[at].bytes) << at;
    EXPECT_EQ(read->events[at].function, profile.events[at].function) << at;
  }
  EXPECT_EQ(read->events[2].phase, "backward");
  unlink(path.c_str());
}

TEST(WriteProfile, NamesFunctionsThatTheProfileDoesNot) {
  Profile profile;
  profile.events = {{.kind = EventKind::kLaunch, .function = 2}};
  const std::string path = TempPath("unnamed");
  ASSERT_TRUE(WriteProfile(profile, path).ok());
  EXPECT_EQ(ReadProfile(path)->functions.at(2).name, "kernel#2");
  unlink(path.c_str());
}

TEST(WriteProfile, RefusesAnEventOfABlockThatIsNotThere) {
  Profile profile;
  profile.events = {{.kind = EventKind::kFree, .block = 4}};
  const std::string path = TempPath("missing");
  EXPECT_EQ(WriteProfile(profile, path).code(), absl::StatusCode::kInvalidArgument);
  unlink(path.c_str());
}

}  // namespace
}  // namespace ebt::profile
