// Two 64-bit hashes. StableHash names things in files: its value is part of the profile format
// and must never change. MixWord and MixPair key caches inside one process and may.
#ifndef EBBTIDE_SRC_CALLSITE_STABLE_HASH_H_
#define EBBTIDE_SRC_CALLSITE_STABLE_HASH_H_

#include <cstdint>
#include <string_view>

namespace ebt::callsite {

// FNV-1a (64 bits) over everything added, then an avalanche step, because FNV leaves the high
// bits of short inputs poorly mixed. Words are added in little-endian byte order and strings
// with their length, so that two neighbours cannot trade a character.
class StableHash {
 public:
  StableHash& Add(uint64_t word) noexcept {
    for (int i = 0; i < 8; ++i) AddByte(static_cast<uint8_t>(word >> (8 * i)));
    return *this;
  }
  StableHash& Add(std::string_view text) noexcept {
    Add(static_cast<uint64_t>(text.size()));
    for (char c : text) AddByte(static_cast<uint8_t>(c));
    return *this;
  }
  // Never 0: 0 stands for "unknown" wherever these values are kept.
  uint64_t Value() const noexcept {
    uint64_t x = state_;
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
    x ^= x >> 32;
    return x == 0 ? 1 : x;
  }

 private:
  void AddByte(uint8_t byte) noexcept { state_ = (state_ ^ byte) * 0x00000100000001b3ull; }
  uint64_t state_ = 0xcbf29ce484222325ull;
};

// Folds one word into a running hash: a 64x64 to 128 bit product whose halves are xored, the
// cheapest step on x86-64 in which every input bit reaches every output bit.
inline uint64_t MixWord(uint64_t hash, uint64_t word) noexcept {
  // The odd constants keep a zero word or a zero hash from erasing the other.
  const auto product =
      static_cast<unsigned __int128>(hash ^ 0x9e3779b97f4a7c15ull) * (word ^ 0xe7037ed1a0b428dbull);
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64) ^ hash;
}

// The same for two words at once. A chain of these waits for one product a step, so long inputs
// take half the time.
inline uint64_t MixPair(uint64_t hash, uint64_t a, uint64_t b) noexcept {
  const auto product = static_cast<unsigned __int128>(hash ^ a ^ 0x9e3779b97f4a7c15ull) *
                       (b ^ 0xe7037ed1a0b428dbull);
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64) ^ hash;
}

}  // namespace ebt::callsite

#endif  // EBBTIDE_SRC_CALLSITE_STABLE_HASH_H_
