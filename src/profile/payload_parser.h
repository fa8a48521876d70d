// What the chunks of a profile file hold, one payload at a time (profiles/FORMAT.md). reader.cc
// finds and unpacks the chunks.
#ifndef EBBTIDE_SRC_PROFILE_PAYLOAD_PARSER_H_
#define EBBTIDE_SRC_PROFILE_PAYLOAD_PARSER_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "src/profile/encoding.h"
#include "src/profile/event_assembly.h"
#include "src/profile/types.h"

namespace ebt::profile {

class PayloadParser {
 public:
  // file_bytes: of the whole file, which bounds what is kept of it.
  PayloadParser(uint16_t version, uint64_t file_bytes);

  // Takes what the payload of `place` holds; what is wrong with it is `in`'s failure. most_items:
  // events or functions that the chunk may hold. False: chunks of this type are not known.
  bool Parse(ChunkType type, Cursor& in, const ChunkPlace& place, uint64_t most_items);

  bool ended() const { return ended_; }  // the end chunk has come
  // Metadata, sites and functions so far.
  Profile& profile() { return profile_; }
  FileEvents& events() { return events_; }

 private:
  void ParseMetadata(Cursor& in);
  void ParseSites(Cursor& in);
  void ParseFunctions(Cursor& in, uint64_t most_items);
  void ParseEvents(Cursor& in, const ChunkPlace& place, uint64_t most_items);
  void ParseEvent(Cursor& in, RecordKind kind, Event& event);
  void ParseAlloc(Cursor& in, Event& event);
  void ParseTouched(Cursor& in, std::vector<uint32_t>& touched);
  void ParseKept(Cursor& in);
  void ParseEnd(Cursor& in);
  uint32_t NamedBlock(Cursor& in);

  const bool block_codes_;  // blocks are named as since format 2
  const uint64_t most_frame_text_;
  bool ended_ = false;
  Profile profile_;
  FileEvents events_;
  uint64_t event_offset_ = 0;  // of the event at hand, in its chunk's content
  uint32_t last_block_ = 0;    // allocated last in this chunk, or before it
  absl::flat_hash_set<uint64_t> known_sites_;
  uint64_t frame_text_bytes_ = 0;
};

}  // namespace ebt::profile

#endif  // EBBTIDE_SRC_PROFILE_PAYLOAD_PARSER_H_
