// Mutations hardly ever get past a profile's checksums: here bytes become chunks that have true
// ones.
#ifndef EBBTIDE_TESTS_FUZZ_PROFILE_BYTES_H_
#define EBBTIDE_TESTS_FUZZ_PROFILE_BYTES_H_

#include <string>
#include <string_view>

namespace ebt::fuzz {

// The file that `bytes` describe: the format (1 byte), then of each chunk how it is packed (1),
// type (1), length (2) and payload. Empty for no bytes.
std::string WithTrueChecksums(std::string_view bytes);

}  // namespace ebt::fuzz

#endif  // EBBTIDE_TESTS_FUZZ_PROFILE_BYTES_H_
