#ifndef EBBTIDE_SRC_BASE_JSON_TEXT_H_
#define EBBTIDE_SRC_BASE_JSON_TEXT_H_

#include <string>
#include <string_view>

namespace ebt {

// A JSON string literal; bytes that are no UTF-8 become U+FFFD.
std::string JsonText(std::string_view text);

}  // namespace ebt

#endif  // EBBTIDE_SRC_BASE_JSON_TEXT_H_
