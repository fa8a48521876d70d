// A column of numbers as text: what an HTML file holds of a recording.
#ifndef EBBTIDE_SRC_REPORT_COLUMN_H_
#define EBBTIDE_SRC_REPORT_COLUMN_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace ebt::report {

// Numbers as LEB128: seven bits a byte, the lowest first, the eighth bit says that more follow.
class Column {
 public:
  void Add(uint64_t number) {
    for (; number >= 0x80; number >>= 7) bytes_.push_back(static_cast<char>(number | 0x80));
    bytes_.push_back(static_cast<char>(number));
  }
  // Small ones of either sign are short: 0, -1, 1, -2 ... are 0, 1, 2, 3 ...
  void AddSigned(int64_t number) {
    Add((static_cast<uint64_t>(number) << 1) ^ static_cast<uint64_t>(number >> 63));
  }

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// RFC 4648, with padding.
std::string Base64(std::string_view bytes);

}  // namespace ebt::report

#endif  // EBBTIDE_SRC_REPORT_COLUMN_H_
