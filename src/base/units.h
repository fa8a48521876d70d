// Sizes as people write them: "24GiB", "500MB", "1048576".
#ifndef EBBTIDE_SRC_BASE_UNITS_H_
#define EBBTIDE_SRC_BASE_UNITS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace ebt {

inline constexpr uint64_t kKiB = 1024, kMiB = 1024 * kKiB, kGiB = 1024 * kMiB;

// Every device block starts at a multiple of this many bytes (the CUDA driver's own promise).
inline constexpr uint64_t kBlockAlignment = 512;

constexpr uint64_t AlignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

// Bytes of "24GiB", "1.5 GiB", "500MB" (powers of 1000), "2g" (= GiB), "4096". Refuses
// negative, empty, overflowing and unknown-suffix text with one line that quotes it.
absl::StatusOr<uint64_t> ParseSize(std::string_view text);

// "12.40 GiB", "512 B": two decimals, binary units; whole numbers below a KiB.
std::string FormatSize(uint64_t bytes);

}  // namespace ebt

#endif  // EBBTIDE_SRC_BASE_UNITS_H_
