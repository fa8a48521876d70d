// Packed chunks: what is refused, and what a byte of a file may ask for.
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <string>
#include <vector>

#include "src/profile/packed_stream.h"
#include "src/profile/reader.h"
#include "src/profile/writer.h"

namespace {

std::atomic<size_t> bytes_held{0};
std::atomic<size_t> most_held{0};

}  // namespace

void* operator new(size_t bytes) {
  void* memory = malloc(bytes == 0 ? 1 : bytes);
  if (!memory) throw std::bad_alloc();
  const size_t now = bytes_held += malloc_usable_size(memory);
  if (now > most_held) most_held = now;
  return memory;
}
void operator delete(void* memory) noexcept {
  bytes_held -= memory == nullptr ? 0 : malloc_usable_size(memory);
  free(memory);
}
void operator delete(void* memory, size_t) noexcept { operator delete(memory); }

namespace ebt::profile {
namespace {

std::string Header() {
  std::string header(kMagic);
  PutFixed16(header, kFormatVersion);
  PutFixed16(header, 0);
  return header;
}

std::string Chunk(ChunkType type, const std::string& payload, Codec codec = Codec::kZstd) {
  std::string chunk{static_cast<char>(type), static_cast<char>(codec)};
  PutFixed16(chunk, 0);
  PutFixed32(chunk, static_cast<uint32_t>(payload.size()));
  PutFixed32(chunk, Crc32c(chunk));
  PutFixed32(chunk, Crc32c(payload));
  return chunk + payload;
}

std::string Packed(StreamPacker& packer, const std::string& content, uint64_t events = 0) {
  std::string payload;
  EXPECT_TRUE(packer.Pack(content, events, payload));
  return payload;
}

// `count` steps, a byte each but for the first.
std::string Steps(uint64_t first_sequence, uint64_t count) {
  std::string content;
  PutVarint(content, first_sequence);
  PutVarint(content, 0);
  PutVarint(content, count);
  content += '\x05';
  content += '\0';
  return content.append(count - 1, '\x85');
}

std::string Metadata(const std::string& value) {
  std::string content;
  PutVarint(content, 1);
  PutString(content, "key");
  PutString(content, value);
  return content;
}

// A frame of zstd's without its end, as one piece.
std::string Compressed(const std::string& content, int window_log) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log);
  std::string piece(ZSTD_compressBound(content.size()), '\0');
  ZSTD_inBuffer in{content.data(), content.size(), 0};
  ZSTD_outBuffer out{piece.data(), piece.size(), 0};
  EXPECT_EQ(ZSTD_compressStream2(context, &out, &in, ZSTD_e_flush), 0u);
  ZSTD_freeCCtx(context);
  return piece.substr(0, out.pos);
}

std::string Payload(uint64_t length, const std::string& piece, const std::string& padding = "") {
  std::string payload;
  PutVarint(payload, length);
  PutVarint(payload, piece.size());
  return payload + piece + padding;
}

std::string ErrorOf(const std::string& bytes) {
  const absl::StatusOr<Profile> profile = ParseProfile(bytes, "p.ebp");
  return profile.ok() ? "" : std::string(profile.status().message());
}

testing::AssertionResult Says(const std::string& bytes, const std::string& expected) {
  const std::string error = ErrorOf(bytes);
  if (error.find(expected) == 0) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "\"" << error << "\", not \"" << expected << "...\"";
}

TEST(PackedChunks, AreOneStreamAndReadUpToTheLastWholeOne) {
  StreamPacker packer;
  const std::string first =
      Header() + Chunk(ChunkType::kEvents, Packed(packer, Steps(0, 400), 400));
  const std::string second = Chunk(ChunkType::kEvents, Packed(packer, Steps(400, 400), 400));
  // What repeats the first takes no more than the 100 bytes that 400 events have to.
  EXPECT_LE(second.size(), kChunkHeaderBytes + 100);
  for (size_t cut = first.size(); cut < first.size() + second.size(); ++cut) {
    const absl::StatusOr<Profile> profile = ParseProfile((first + second).substr(0, cut), "p.ebp");
    ASSERT_TRUE(profile.ok()) << cut << ": " << profile.status();
    EXPECT_TRUE(profile->truncated);
    EXPECT_EQ(profile->events.size(), 400u);
  }
  EXPECT_EQ(ParseProfile(first + second, "p.ebp")->events.size(), 800u);
}

TEST(PackedChunks, EveryFlippedBitIsRefusedWithFileAndByte) {
  StreamPacker packer;
  std::string good = Header() + Chunk(ChunkType::kEvents, Packed(packer, Steps(0, 400), 400));
  good += Chunk(ChunkType::kMetadata, Packed(packer, Metadata("value")));
  for (size_t bit = 12 * 8; bit < good.size() * 8; ++bit) {
    std::string bytes = good;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_TRUE(Says(bytes, "p.ebp: byte ")) << bit;
  }
}

TEST(PackedChunks, WhatIsWrongInsideIsNamedByTheChunkAndTheByteInIt) {
  StreamPacker packer;
  std::string content = Steps(0, 300);
  content[103] =
      '\x8f';  // 4 bytes of numbers, two of the first step, 97 steps; there is no kind 15
  EXPECT_TRUE(Says(Header() + Chunk(ChunkType::kEvents, Packed(packer, content, 300)),
                   "p.ebp: byte 12, byte 104 of what is packed there: an event is of an unknown"));
}

TEST(PackedChunks, BlockAllocatedTwiceIsNamedInTheChunkThatDoes) {
  StreamPacker packer;
  // Difference, block +1, then nothing but zeros.
  const std::string body =
      std::string{'\0', '\0', '\2'} + std::string(5, '\0') + std::string(16, '\0');
  const std::string one = std::string{0, 0, 1} + body, two = std::string{1, 0, 1} + body;
  const std::string begin = Header() + Chunk(ChunkType::kEvents, Packed(packer, one, 1));
  EXPECT_TRUE(Says(begin + Chunk(ChunkType::kEvents, Packed(packer, two, 1)),
                   "p.ebp: byte " + std::to_string(begin.size()) +
                       ", byte 3 of what is packed there: block 1 is allocated twice"));
}

TEST(PackedChunks, ContentBeyondWhatTheSizeAllowsIsRefusedBeforeItIsUnpacked) {
  const std::string piece = Compressed(std::string(1 << 20, 'x'), 20);
  ASSERT_LT(piece.size(), 200u);
  EXPECT_TRUE(Says(Header() + Chunk(ChunkType::kMetadata, Payload(1 << 20, piece)),
                   "p.ebp: byte 31: a packed chunk claims more content than its size allows"));
}

TEST(PackedChunks, FrameThatExpandsWithoutEndIsRefusedAtWhatItClaims) {
  const std::string piece = Compressed(std::string(16 << 20, 'x'), 20);
  for (const uint64_t claimed : {uint64_t{0}, uint64_t{1}, piece.size() * 64}) {
    most_held = bytes_held.load();
    const size_t before = bytes_held;
    EXPECT_TRUE(
        Says(Header() + Chunk(ChunkType::kMetadata, Payload(claimed, piece)), "p.ebp: byte "));
    EXPECT_LT(most_held - before, claimed + (64 << 10));
  }
}

TEST(PackedChunks, FrameThatStopsShortOrNeedsAnotherWindowIsRefused) {
  const std::string content = Metadata(std::string(300, 'v'));
  const std::string piece = Compressed(content, 20);
  ASSERT_EQ(ErrorOf(Header() + Chunk(ChunkType::kMetadata, Payload(content.size(), piece))), "");
  EXPECT_NE(ErrorOf(Header() + Chunk(ChunkType::kMetadata, Payload(content.size() + 1, piece))),
            "");
  EXPECT_NE(ErrorOf(Header() + Chunk(ChunkType::kMetadata,
                                     Payload(content.size(), piece.substr(0, piece.size() - 1)))),
            "");
  EXPECT_NE(ErrorOf(Header() +
                    Chunk(ChunkType::kMetadata, Payload(content.size(), Compressed(content, 25)))),
            "");
}

TEST(PackedChunks, PaddingIsZeros) {
  const std::string content = Metadata(std::string(300, 'v'));
  const std::string piece = Compressed(content, 20);
  EXPECT_EQ(ErrorOf(Header() + Chunk(ChunkType::kMetadata,
                                     Payload(content.size(), piece, std::string(9, '\0')))),
            "");
  EXPECT_NE(ErrorOf(Header() + Chunk(ChunkType::kMetadata, Payload(content.size(), piece, "x"))),
            "");
}

TEST(PackedChunks, MoreThanFourEventsAByteAreRefusedAndWrittenPadded) {
  const std::string content = Steps(0, 4000);
  StreamPacker honest, greedy;
  const std::string padded = Packed(honest, content, 4000), tight = Packed(greedy, content, 0);
  EXPECT_EQ(padded.size(), 1000u);
  EXPECT_LT(tight.size(), 1000u);
  EXPECT_EQ(ErrorOf(Header() + Chunk(ChunkType::kEvents, padded)), "");
  EXPECT_TRUE(Says(Header() + Chunk(ChunkType::kEvents, tight),
                   "p.ebp: byte 12, byte 4 of what is packed there: more events than the chunk's"));
}

TEST(PackedChunks, TextsOfFramesBeyondAThousandTimesTheFileAreRefused) {
  std::string sites;
  PutVarint(sites, 1);
  PutString(sites, std::string(5000, 's'));
  PutVarint(sites, 1);
  PutFixed64(sites, 7);
  PutVarint(sites, 10000);
  sites.append(50000, '\0');
  StreamPacker packer;
  const std::string file = Header() + Chunk(ChunkType::kSites, Packed(packer, sites));
  EXPECT_LT(file.size(), 1000u);
  EXPECT_NE(ErrorOf(file).find("the sites hold too much text"), std::string::npos);
}

TEST(PackedChunks, UnknownOptionalOneIsAPartOfTheStreamAllTheSame) {
  StreamPacker packer;
  const std::string later(300, 'z'), known = Metadata(later);
  std::string file = Header() + Chunk(static_cast<ChunkType>(200), Packed(packer, later));
  file += Chunk(ChunkType::kMetadata, Packed(packer, known));
  const absl::StatusOr<Profile> profile = ParseProfile(file, "p.ebp");
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_EQ(profile->metadata.at("key"), later);
}

TEST(PackedChunks, OfFormat1AreOfNoKnownCodec) {
  std::string bytes = Header() + Chunk(ChunkType::kMetadata, Payload(0, ""));
  bytes[8] = 1;
  EXPECT_TRUE(Says(bytes, "p.ebp: byte 13: a chunk is packed with codec 1, this Ebbtide"));
}

// Few bytes that become as much as they can.
std::vector<std::pair<const char*, std::string>> HostileFiles() {
  const auto file = [](ChunkType type, const std::string& content, uint64_t events) {
    StreamPacker packer;
    return Header() + Chunk(type, Packed(packer, content, events));
  };
  // One more than fills what a growing array has doubled to.
  constexpr uint64_t kMany = (1 << 20) + 8;
  std::string functions{'\0'}, sites, touches, kept, many_touches, metadata;
  PutVarint(functions, kMany);
  functions.append(kMany, '\0');
  PutVarint(sites, 1);
  PutString(sites, "");
  PutVarint(sites, 1);
  PutFixed64(sites, 7);
  PutVarint(sites, kMany / 8);
  for (uint64_t i = 0; i < kMany / 8; ++i) sites.append(std::string(5, '\0'));
  PutVarint(kept, kMany);
  kept.append(kMany, '\1');
  touches = std::string{0, 0};
  PutVarint(touches, kMany / 8);
  for (uint64_t i = 0; i < kMany / 8; ++i) {
    // A copy that names one block.
    touches += i == 0 ? std::string{3, 0, 0, 0, 0, 1, 1} : std::string{'\x83', 0, 0, 0, 1, 1};
  }
  many_touches = std::string{0, 0, 1, 3, 0, 0, 0, 0};
  PutVarint(many_touches, kMany);
  many_touches.append(kMany, '\1');
  PutVarint(metadata, kMany / 5);
  for (uint32_t i = 0; i < kMany / 5; ++i) {
    PutVarint(metadata, 3);
    metadata += std::string{char(i), char(i >> 8), char(i >> 16), 0};
  }
  return {{"functions", file(ChunkType::kFunctions, functions, kMany)},
          {"sites", file(ChunkType::kSites, sites, 0)},
          {"kept", file(ChunkType::kKept, kept, 0)},
          {"steps", file(ChunkType::kEvents, Steps(0, kMany), kMany)},
          {"touches", file(ChunkType::kEvents, touches, kMany / 8)},
          {"many touches", file(ChunkType::kEvents, many_touches, 1)},
          {"metadata", file(ChunkType::kMetadata, metadata, 0)}};
}

TEST(PackedChunks, AByteOfAFileBecomesAtMostTwoKibibytesOfMemory) {
  for (const auto& [name, bytes] : HostileFiles()) {
    const size_t before = bytes_held;
    most_held = before;
    const absl::StatusOr<Profile> profile = ParseProfile(bytes, "p.ebp");
    const size_t took = most_held - before;
    printf("%-14s %7zu bytes, %5.0f bytes of memory a byte\n", name, bytes.size(),
           static_cast<double>(took) / static_cast<double>(bytes.size()));
    EXPECT_TRUE(profile.ok()) << name << ": " << profile.status();
    EXPECT_LT(took, bytes.size() * 2048) << name;
  }
}

}  // namespace
}  // namespace ebt::profile
