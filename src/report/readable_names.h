// What the names of a recording are for people.
#ifndef EBBTIDE_SRC_REPORT_READABLE_NAMES_H_
#define EBBTIDE_SRC_REPORT_READABLE_NAMES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/profile/types.h"

namespace ebt::report {

// Where the names come from that a report shows. Called once a site or function, from one thread.
struct ReadableNames {
  // The stack of a site, innermost frame first; empty for one that is not known.
  std::function<std::vector<std::string>(uint64_t site)> frames;
  // A site in one line.
  std::function<std::string(uint64_t site)> site;
  // A kernel by the name that the recording has for it.
  std::function<std::string(const std::string& function)> function;
};

// Names as its report has them (names.h). `profile` must outlive the answer.
ReadableNames NamesOf(const profile::Profile& profile);

// "file:line function", "function (module)" or "module+0x12".
std::string FrameText(const callsite::Frame& frame);

// At most `bytes` of `text`, which ends in "..." where something was left out. No UTF-8 character
// is cut apart.
std::string Clipped(const std::string& text, size_t bytes);

}  // namespace ebt::report

#endif  // EBBTIDE_SRC_REPORT_READABLE_NAMES_H_
