// The words of a launch's parameters, any of which may be an address.
#ifndef EBBTIDE_SRC_DRIVER_LAUNCH_WORDS_H_
#define EBBTIDE_SRC_DRIVER_LAUNCH_WORDS_H_

#include <cstdint>
#include <cstring>
#include <utility>

#include "hooks/core_api.h"
#include "src/driver/function_table.h"

namespace ebt {

// The parameter buffer of a launch's `extra` list and its bytes; NULL and 0 where there is none.
std::pair<const void*, size_t> ExtraBuffer(void** extra);

// Calls visit(word) for every aligned 8-byte word of every parameter. `layout` is the function's.
template <typename Visit>
void VisitWords(const ebt_launch& launch, const FunctionLayout& layout, Visit&& visit) {
  const auto words_of = [&](const void* data, size_t bytes) {
    for (size_t at = 0; at + sizeof(uint64_t) <= bytes; at += sizeof(uint64_t)) {
      uint64_t word;
      std::memcpy(&word, static_cast<const char*>(data) + at, sizeof(word));
      visit(word);
    }
  };
  for (size_t i = 0; launch.params != nullptr && i < layout.sizes.size(); ++i) {
    if (launch.params[i] != nullptr) words_of(launch.params[i], layout.sizes[i]);
  }
  if (launch.extra != nullptr) {
    const auto [buffer, bytes] = ExtraBuffer(launch.extra);
    if (buffer != nullptr) words_of(buffer, bytes);
  }
}

}  // namespace ebt

#endif  // EBBTIDE_SRC_DRIVER_LAUNCH_WORDS_H_
