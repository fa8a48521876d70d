#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "src/profile/encoding.h"
#include "src/profile/reader.h"
#include "tests/unit/profile_golden.h"

namespace ebt::profile {
namespace {

std::string Chunk(uint8_t type, const std::string& payload, uint8_t codec = 0) {
  std::string chunk{static_cast<char>(type), static_cast<char>(codec)};
  PutFixed16(chunk, 0);
  PutFixed32(chunk, static_cast<uint32_t>(payload.size()));
  PutFixed32(chunk, Crc32c(chunk));
  PutFixed32(chunk, Crc32c(payload));
  return chunk + payload;
}

std::string Header(uint16_t format) {
  std::string header(kMagic);
  PutFixed16(header, format);
  PutFixed16(header, 0);
  return header;
}

// A file of one chunk of events, without an end, in format 1.
std::string FileOfEvents(const std::string& payload) { return Header(1) + Chunk(4, payload); }

std::string AllocBody(uint32_t block) {
  std::string body;
  PutVarint(body, block);
  PutVarint(body, 512);
  PutVarint(body, 4096 * (block + 1));
  body.append(3, '\0');  // linear, device 0, stream 0
  PutFixed64(body, 1);
  PutFixed64(body, 2);
  return body;
}

absl::StatusOr<Profile> Parse(const std::string& bytes) { return ParseProfile(bytes, "p.ebt"); }

void ExpectTheGoldenExample(const absl::StatusOr<Profile>& profile) {
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_FALSE(profile->truncated);
  EXPECT_EQ(profile->metadata.at("gpu"), "H200");
  ASSERT_EQ(profile->sites.size(), 1u);
  EXPECT_EQ(profile->sites[0].id, 0x11u);
  ASSERT_EQ(profile->sites[0].frames.size(), 1u);
  EXPECT_EQ(profile->sites[0].frames[0].kind, callsite::Frame::Kind::kPython);
  EXPECT_EQ(profile->sites[0].frames[0].module, "train.py");
  EXPECT_EQ(profile->sites[0].frames[0].offset, 12u);
  EXPECT_EQ(profile->sites[0].frames[0].function, "main");
  ASSERT_EQ(profile->functions.size(), 1u);
  EXPECT_EQ(profile->functions[0].name, "axpy");
  ASSERT_EQ(profile->blocks.size(), 1u);
  const Block& block = profile->blocks[0];
  EXPECT_EQ(block.id, 0u);
  EXPECT_EQ(block.bytes, 1024u);
  EXPECT_EQ(block.address, 0x1000u);
  EXPECT_EQ(block.kind, AllocKind::kAsync);
  EXPECT_EQ(block.stream, 1u);
  EXPECT_EQ(block.free_stream, 1u);
  EXPECT_EQ(block.site, 0x11u);
  EXPECT_EQ(block.fingerprint, 0x22u);
  EXPECT_EQ(block.alloc_at, 0u);
  EXPECT_EQ(block.free_at, 3u);
  ASSERT_EQ(profile->events.size(), 4u);
  EXPECT_EQ(profile->events[1].kind, EventKind::kLaunch);
  EXPECT_EQ(profile->events[1].shape, 0x33u);
  EXPECT_EQ(profile->events[1].touched, std::vector<uint32_t>{0});
  EXPECT_EQ(profile->events[2].kind, EventKind::kMark);
  EXPECT_EQ(profile->events[2].gpu_ms, 2.5);
  EXPECT_EQ(profile->events[3].block, 0u);
}

TEST(ProfileReader, ReadsTheGoldenExample) { ExpectTheGoldenExample(Parse(GoldenBytes())); }

TEST(ProfileReader, ReadsTheGoldenExampleOfFormat1) {
  ExpectTheGoldenExample(Parse(GoldenBytesOfFormat1()));
}

TEST(ProfileReader, ReadsAFileCutAtAnyByteUpToItsLastWholeChunk) {
  const std::string golden = GoldenBytes();
  for (size_t cut = 0; cut < golden.size(); ++cut) {
    const absl::StatusOr<Profile> profile = Parse(golden.substr(0, cut));
    if (cut < 12) {
      EXPECT_EQ(profile.status().code(), absl::StatusCode::kInvalidArgument) << cut;
      continue;
    }
    ASSERT_TRUE(profile.ok()) << cut << ": " << profile.status();
    EXPECT_TRUE(profile->truncated) << cut;
    EXPECT_EQ(profile->metadata.size(), cut >= kGoldenEnds[1] ? 1u : 0u) << cut;
    EXPECT_EQ(profile->sites.size(), cut >= kGoldenEnds[2] ? 1u : 0u) << cut;
    EXPECT_EQ(profile->functions.size(), cut >= kGoldenEnds[3] ? 1u : 0u) << cut;
    EXPECT_EQ(profile->events.size(), cut >= kGoldenEnds[4] ? 4u : 0u) << cut;
  }
}

TEST(ProfileReader, RefusesEverySingleFlippedBitWithFileAndByte) {
  const std::string golden = GoldenBytes();
  for (size_t bit = 0; bit < golden.size() * 8; ++bit) {
    std::string bytes = golden;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    const absl::StatusOr<Profile> profile = Parse(bytes);
    ASSERT_FALSE(profile.ok()) << "bit " << bit;
    EXPECT_EQ(profile.status().message().find("p.ebt: byte "), 0u) << profile.status();
  }
}

TEST(ProfileReader, RefusesANewerFormatAndNamesIt) {
  std::string bytes = GoldenBytes();
  bytes[8] = 9;
  const absl::Status status = Parse(bytes).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("format 9"), absl::string_view::npos) << status;
}

TEST(ProfileReader, RefusesWhatFollowsTheEnd) {
  EXPECT_EQ(Parse(GoldenBytes() + "x").status().code(), absl::StatusCode::kDataLoss);
}

TEST(ProfileReader, SkipsOptionalChunksAndRefusesUnknownRequiredOnes) {
  const std::string golden = GoldenBytesOfFormat1();
  const std::string head = golden.substr(0, 12), rest = golden.substr(12);
  EXPECT_TRUE(Parse(head + Chunk(200, "later", 7) + rest).ok());
  EXPECT_EQ(Parse(head + Chunk(60, "later") + rest).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Parse(head + Chunk(1, "packed", 1) + rest).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(ProfileReader, MergesChunksBySequenceNumber) {
  std::string late, early;
  PutVarint(late, 10);
  PutVarint(late, 1);
  late += std::string(1, 1) + '\0' + std::string{3, 0};  // free of block 3 at 10
  PutVarint(early, 4);
  PutVarint(early, 2);
  early += std::string(2, '\0') + AllocBody(3);
  early += static_cast<char>(0x85);  // step, at 5
  const std::string head = Header(1);
  const absl::StatusOr<Profile> profile = Parse(head + Chunk(4, late) + Chunk(4, early));
  ASSERT_TRUE(profile.ok()) << profile.status();
  ASSERT_EQ(profile->events.size(), 3u);
  EXPECT_EQ(profile->events[0].kind, EventKind::kAlloc);
  EXPECT_EQ(profile->events[1].kind, EventKind::kStep);
  EXPECT_EQ(profile->events[2].kind, EventKind::kFree);
  EXPECT_EQ(profile->blocks[0].free_at, 2u);
}

TEST(ProfileReader, DropsWhatNamesBlocksThatAreNotAlive) {
  std::string payload;
  PutVarint(payload, 0);
  PutVarint(payload, 5);
  payload += std::string{1, 0, 8, 0};  // free of an unknown block
  payload += static_cast<char>(0x80);  // alloc
  payload += AllocBody(5);
  payload += std::string{'\x83', 0, 1, 0, 2, 10, 2};  // copy that touches 5 and the unknown 6
  payload += std::string{'\x81', 5, 0};               // free of 5
  payload += std::string{'\x83', 0, 1, 0, 1, 10};     // copy that touches 5 too late
  const absl::StatusOr<Profile> profile = Parse(FileOfEvents(payload));
  ASSERT_TRUE(profile.ok()) << profile.status();
  ASSERT_EQ(profile->events.size(), 4u);
  EXPECT_EQ(profile->events[1].touched, std::vector<uint32_t>{0});
  EXPECT_EQ(profile->events[2].kind, EventKind::kFree);
  EXPECT_TRUE(profile->events[3].touched.empty());
}

TEST(ProfileReader, MarksAnExportedBlockWithoutAnEventOfItsOwn) {
  std::string payload;
  PutVarint(payload, 0);
  PutVarint(payload, 2);
  payload += std::string(2, '\0') + AllocBody(1) + std::string{'\x89', 1};
  const absl::StatusOr<Profile> profile = Parse(FileOfEvents(payload));
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_EQ(profile->events.size(), 1u);
  EXPECT_TRUE(profile->blocks[0].exported);
}

TEST(ProfileReader, RefusesABlockThatIsAllocatedTwice) {
  std::string payload;
  PutVarint(payload, 0);
  PutVarint(payload, 2);
  payload += std::string(2, '\0') + AllocBody(1) + '\x80' + AllocBody(1);
  const absl::Status status = Parse(FileOfEvents(payload)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  // 12 header + 16 chunk header + 2 counts + 2 tag and difference + 24 body.
  EXPECT_EQ(AllocBody(1).size(), 24u);
  EXPECT_NE(status.message().find("byte 56: block 1"), absl::string_view::npos) << status;
}

TEST(ProfileReader, RefusesCountsBeyondTheChunkWithoutReservingForThem) {
  std::string payload;
  PutVarint(payload, 0);
  PutVarint(payload, uint64_t{1} << 60);
  const absl::Status status = Parse(FileOfEvents(payload)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("more events than"), absl::string_view::npos) << status;
}

TEST(ProfileReader, RefusesALaunchOfAFunctionWithoutAName) {
  std::string payload;
  PutVarint(payload, 0);
  PutVarint(payload, 1);
  payload += std::string{2, 0, 0, 0} + std::string(8, '\0') + '\0';
  EXPECT_EQ(Parse(FileOfEvents(payload)).status().code(), absl::StatusCode::kDataLoss);
}

TEST(ProfileReader, SaysWhichFileCannotBeRead) {
  EXPECT_EQ(ReadProfile("/nonexistent/p.ebt").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReadProfile("/").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ProfileReader, KeptBlocksAreMarkedWhereverTheirChunkStands) {
  std::string events;
  PutVarint(events, 0);
  PutVarint(events, 2);
  for (uint32_t block : {7, 9}) {
    events.push_back(static_cast<char>(RecordKind::kAlloc));
    PutSigned(events, block == 7 ? 0 : 1);
    events += AllocBody(block);
  }
  std::string kept;
  PutVarint(kept, 3);
  for (uint32_t block : {9, 9, 4711}) PutVarint(kept, block);  // there is no block 4711
  for (const std::string& file :
       {FileOfEvents(events) + Chunk(128, kept), Header(1) + Chunk(128, kept) + Chunk(4, events)}) {
    const absl::StatusOr<Profile> profile = Parse(file);
    ASSERT_TRUE(profile.ok()) << profile.status();
    ASSERT_EQ(profile->blocks.size(), 2u);
    EXPECT_FALSE(profile->blocks[0].kept);
    EXPECT_TRUE(profile->blocks[1].kept);
  }
}

TEST(ProfileReader, ADamagedListOfKeptBlocksIsRefused) {
  std::string kept;
  PutVarint(kept, 3);
  PutVarint(kept, 1);
  EXPECT_FALSE(Parse(Header(1) + Chunk(128, kept)).ok());
  kept.append(3, '\1');
  EXPECT_FALSE(Parse(Header(1) + Chunk(128, kept)).ok());
}

}  // namespace
}  // namespace ebt::profile
