#include "src/profile/payload_parser.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

namespace ebt::profile {
namespace {

constexpr uint64_t kMaxU16 = 0xffff, kMaxU32 = 0xffffffff;

uint32_t BlockNumber(Cursor& in) {
  return static_cast<uint32_t>(in.Varint(kNoBlock - 1, "no such block number"));
}

uint16_t Stream(Cursor& in) {
  return static_cast<uint16_t>(in.Varint(kMaxU16, "a stream number is too big"));
}

}  // namespace

PayloadParser::PayloadParser(uint16_t version, uint64_t file_bytes)
    : block_codes_(version >= kFirstPackedVersion),
      most_frame_text_(std::min(kMostFrameText, file_bytes * kMostFrameTextAByte)) {}

bool PayloadParser::Parse(ChunkType type, Cursor& in, const ChunkPlace& place,
                          uint64_t most_items) {
  switch (type) {
    case ChunkType::kMetadata:
      ParseMetadata(in);
      break;
    case ChunkType::kSites:
      ParseSites(in);
      break;
    case ChunkType::kFunctions:
      ParseFunctions(in, most_items);
      break;
    case ChunkType::kEvents:
      ParseEvents(in, place, most_items);
      break;
    case ChunkType::kEnd:
      ParseEnd(in);
      break;
    case ChunkType::kKept:
      ParseKept(in);
      break;
    default:
      return false;
  }
  if (in.ok() && in.remaining() != 0) in.Fail("a chunk is longer than what it holds");
  return true;
}

void PayloadParser::ParseMetadata(Cursor& in) {
  const uint64_t count = in.Count(2, "more metadata than the chunk can hold");
  for (uint64_t i = 0; i < count && in.ok(); ++i) {
    const std::string_view key = in.String();
    const std::string_view value = in.String();
    if (in.ok()) profile_.metadata.insert_or_assign(std::string(key), std::string(value));
  }
}

void PayloadParser::ParseSites(Cursor& in) {
  std::vector<std::string_view> strings(in.Count(1, "more texts than the chunk can hold"));
  for (std::string_view& text : strings) text = in.String();
  const auto text = [&]() -> std::string {
    const uint64_t index = in.Varint();
    if (index >= strings.size()) {
      in.Fail("a frame names a text that the chunk does not have");
      return {};
    }
    frame_text_bytes_ += strings[index].size();
    if (frame_text_bytes_ > most_frame_text_) in.Fail("the sites hold too much text");
    return std::string(in.ok() ? strings[index] : std::string_view());
  };
  const uint64_t count = in.Count(9, "more sites than the chunk can hold");
  for (uint64_t i = 0; i < count && in.ok(); ++i) {
    callsite::Site site{.id = in.Fixed64()};
    const uint64_t frames = in.Count(5, "more frames than the chunk can hold");
    site.frames.reserve(frames);
    for (uint64_t f = 0; f < frames && in.ok(); ++f) {
      callsite::Frame& frame = site.frames.emplace_back();
      const uint8_t kind = in.Byte();
      if (kind > static_cast<uint8_t>(callsite::Frame::Kind::kPython)) {
        in.Fail("a frame is of an unknown kind");
      }
      frame.kind = static_cast<callsite::Frame::Kind>(kind);
      frame.module = text();
      frame.offset = in.Varint();
      frame.function = text();
      frame.file = text();
    }
    if (in.ok() && known_sites_.insert(site.id).second) {
      profile_.sites.push_back(std::move(site));
    }
  }
}

void PayloadParser::ParseFunctions(Cursor& in, uint64_t most_items) {
  if (in.Varint() != profile_.functions.size()) in.Fail("functions are not numbered in order");
  const uint64_t count = in.Count(1, "more functions than the chunk can hold");
  if (count > most_items) in.Fail("more functions than the chunk's size allows");
  for (uint64_t i = 0; i < count && in.ok(); ++i) {
    profile_.functions.push_back(
        {.id = static_cast<uint32_t>(profile_.functions.size()), .name = std::string(in.String())});
  }
}

void PayloadParser::ParseEvents(Cursor& in, const ChunkPlace& place, uint64_t most_items) {
  events_.chunks.push_back({place, events_.allocs.size()});
  uint64_t sequence = in.Varint();
  last_block_ = block_codes_ ? BlockNumber(in) : 0;
  const uint64_t count = in.Count(1, "more events than the chunk can hold");
  if (count > most_items) in.Fail("more events than the chunk's size allows");
  if (count >= kMaxU32 - events_.events.size()) in.Fail("more events than can be read");
  for (uint64_t i = 0; i < count && in.ok(); ++i) {
    event_offset_ = in.offset();
    const uint8_t tag = in.Byte();
    sequence += (tag & kNextInSequence) ? 1 : static_cast<uint64_t>(in.Signed());
    const auto kind = static_cast<RecordKind>(tag & ~kNextInSequence);
    events_.keys.push_back({sequence, static_cast<uint32_t>(events_.events.size()), kind});
    ParseEvent(in, kind, events_.events.emplace_back());
  }
}

void PayloadParser::ParseEvent(Cursor& in, RecordKind kind, Event& event) {
  if (kind <= RecordKind::kFailed) event.kind = static_cast<EventKind>(kind);
  switch (kind) {
    case RecordKind::kAlloc:
      ParseAlloc(in, event);
      return;
    case RecordKind::kFree:
      event.block = NamedBlock(in);
      event.stream = Stream(in);
      return;
    case RecordKind::kLaunch:
      event.function = static_cast<uint32_t>(in.Varint(kMaxU32, "a function number is too big"));
      if (event.function >= profile_.functions.size()) in.Fail("a launch of an unnamed function");
      event.stream = Stream(in);
      event.shape = in.Fixed64();
      ParseTouched(in, event.touched);
      return;
    case RecordKind::kCopy:
      event.copy = static_cast<CopyKind>(in.Byte());
      if (event.copy > CopyKind::kMemset) in.Fail("a copy is of an unknown kind");
      event.bytes = in.Varint();
      event.stream = Stream(in);
      ParseTouched(in, event.touched);
      return;
    case RecordKind::kMark:
      event.stream = Stream(in);
      event.gpu_ms = std::bit_cast<double>(in.Fixed64());
      if (!std::isfinite(event.gpu_ms)) in.Fail("a time is not a number");
      return;
    case RecordKind::kStep:
      return;
    case RecordKind::kPhase:
      event.phase = in.String();
      return;
    case RecordKind::kGraph:
      event.function = static_cast<uint32_t>(in.Varint(kMaxU32, "a graph number is too big"));
      event.stream = Stream(in);
      return;
    case RecordKind::kFailed:
      event.bytes = in.Varint();
      event.stream = Stream(in);
      return;
    case RecordKind::kExported:
      event.block = NamedBlock(in);
      return;
    case RecordKind::kKept:
      break;
  }
  in.Fail("an event is of an unknown kind");
}

void PayloadParser::ParseKept(Cursor& in) {
  for (uint64_t left = in.Count(1, "more blocks than the chunk can hold"); left > 0 && in.ok();
       --left) {
    const uint32_t block = BlockNumber(in);
    if (in.ok()) events_.kept.push_back(block);
  }
}

void PayloadParser::ParseAlloc(Cursor& in, Event& event) {
  Block block;
  if (block_codes_) {
    const uint64_t number = last_block_ + static_cast<uint64_t>(in.Signed());
    if (number >= kNoBlock) in.Fail("no such block number");
    block.id = last_block_ = static_cast<uint32_t>(number);
  } else {
    block.id = BlockNumber(in);
  }
  block.bytes = in.Varint();
  block.address = in.Varint();
  block.kind = static_cast<AllocKind>(in.Byte());
  if (block.kind > AllocKind::kVmm) in.Fail("an allocation is of an unknown kind");
  block.device = static_cast<uint16_t>(in.Varint(kMaxU16, "a device number is too big"));
  block.stream = Stream(in);
  block.site = in.Fixed64();
  block.fingerprint = in.Fixed64();
  event.stream = block.stream;
  event.bytes = block.bytes;
  event.block = static_cast<uint32_t>(events_.allocs.size());
  if (!in.ok()) return;
  events_.allocs.push_back(block);
  events_.alloc_offsets.push_back(static_cast<uint32_t>(event_offset_));
}

void PayloadParser::ParseTouched(Cursor& in, std::vector<uint32_t>& touched) {
  const uint64_t count = in.Count(1, "more blocks than the chunk can hold");
  touched.reserve(count);
  uint64_t block = 0;
  for (uint64_t i = 0; i < count && in.ok(); ++i) {
    // Numbers below zero wrap around to such that are too big.
    block = block_codes_ ? in.BlockCode(last_block_) : block + static_cast<uint64_t>(in.Signed());
    if (block >= kNoBlock) in.Fail("no such block number");
    touched.push_back(static_cast<uint32_t>(block));
  }
}

void PayloadParser::ParseEnd(Cursor& in) {
  if (in.Varint() != events_.events.size()) in.Fail("events are missing");
  ended_ = in.ok();
}

uint32_t PayloadParser::NamedBlock(Cursor& in) {
  return block_codes_ ? in.BlockCode(last_block_) : BlockNumber(in);
}

}  // namespace ebt::profile
