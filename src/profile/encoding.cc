#include "src/profile/encoding.h"

#include <array>

namespace ebt::profile {
namespace {

// Eight tables let the loop take eight bytes a turn: table k is the effect of a byte that is
// followed by k zero bytes.
using CrcTables = std::array<std::array<uint32_t, 256>, 8>;

constexpr CrcTables MakeCrcTables() {
  CrcTables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82f63b78u : 0u);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < tables.size(); ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}

constexpr CrcTables kCrcTables = MakeCrcTables();

template <typename T>
void PutFixed(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

}  // namespace

uint32_t Crc32c(std::string_view bytes) {
  const auto* p = reinterpret_cast<const unsigned char*>(bytes.data());
  size_t left = bytes.size();
  uint32_t crc = 0xffffffffu;
  for (; left >= 8; left -= 8, p += 8) {
    crc ^= static_cast<uint32_t>(p[0]) | static_cast<uint32_t>(p[1]) << 8 |
           static_cast<uint32_t>(p[2]) << 16 | static_cast<uint32_t>(p[3]) << 24;
    crc = kCrcTables[7][crc & 0xff] ^ kCrcTables[6][(crc >> 8) & 0xff] ^
          kCrcTables[5][(crc >> 16) & 0xff] ^ kCrcTables[4][crc >> 24] ^ kCrcTables[3][p[4]] ^
          kCrcTables[2][p[5]] ^ kCrcTables[1][p[6]] ^ kCrcTables[0][p[7]];
  }
  for (; left > 0; --left, ++p) crc = (crc >> 8) ^ kCrcTables[0][(crc ^ *p) & 0xff];
  return ~crc;
}

void PutVarint(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

void PutSigned(std::string& out, int64_t value) {
  PutVarint(out, (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63));
}

void PutFixed16(std::string& out, uint16_t value) { PutFixed(out, value); }
void PutFixed32(std::string& out, uint32_t value) { PutFixed(out, value); }
void PutFixed64(std::string& out, uint64_t value) { PutFixed(out, value); }

void PutString(std::string& out, std::string_view value) {
  value = value.substr(0, kMaxStringBytes);
  PutVarint(out, value.size());
  out.append(value);
}

void PutBlockCode(std::string& out, uint32_t block, uint32_t last) {
  const bool recent = block <= last && last - block < block;
  PutVarint(out, recent ? uint64_t{last - block} << 1 : uint64_t{block} << 1 | 1);
}

void Cursor::Fail(const char* reason) {
  if (reason_ == nullptr) reason_ = reason;
}

uint8_t Cursor::Byte() { return Fixed<uint8_t>(); }

uint64_t Cursor::Varint() {
  if (!ok()) return 0;
  uint64_t value = 0;
  for (size_t i = 0;; ++i) {
    if (i == remaining()) {
      Fail("a number ends outside its chunk");
      return 0;
    }
    const auto byte = static_cast<uint8_t>(bytes_[at_ + i]);
    // The tenth byte holds bit 63 alone.
    if (i == 9 && byte > 1) {
      Fail("a number has more than 64 bits");
      return 0;
    }
    value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      at_ += i + 1;
      return value;
    }
  }
}

uint64_t Cursor::Varint(uint64_t limit, const char* what) {
  const uint64_t value = Varint();
  if (value <= limit) return value;
  Fail(what);
  return 0;
}

int64_t Cursor::Signed() {
  const uint64_t value = Varint();
  return static_cast<int64_t>((value >> 1) ^ (~(value & 1) + 1));
}

uint32_t Cursor::BlockCode(uint32_t last) {
  const uint64_t code = Varint();
  const uint64_t number = (code & 1) != 0 ? code >> 1 : last - (code >> 1);
  // Numbers below zero wrap around to such that are too big.
  if (number < kNoBlock) return static_cast<uint32_t>(number);
  Fail("no such block number");
  return 0;
}

std::string_view Cursor::Bytes(uint64_t count) {
  if (!ok()) return {};
  if (count > remaining()) {
    Fail("bytes end outside their chunk");
    return {};
  }
  const std::string_view bytes = bytes_.substr(at_, count);
  at_ += count;
  return bytes;
}

std::string_view Cursor::String() {
  const uint64_t size = Varint(kMaxStringBytes, "a text is longer than texts can be");
  return Bytes(size);
}

uint64_t Cursor::Count(size_t item_bytes, const char* what) {
  const uint64_t count = Varint();
  if (count <= remaining() / item_bytes) return count;
  Fail(what);
  return 0;
}

}  // namespace ebt::profile
