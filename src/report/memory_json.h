// What fills the memory, for programs. profiles/REPORT.md names the keys and their units.
#ifndef EBBTIDE_SRC_REPORT_MEMORY_JSON_H_
#define EBBTIDE_SRC_REPORT_MEMORY_JSON_H_

#include <string>

#include "src/profile/types.h"
#include "src/report/composition.h"
#include "src/report/names.h"

namespace ebt::report {

// The whole model as one JSON object, without a newline behind it. file: the recording's name.
std::string MemoryJson(const std::string& file, const profile::Profile& profile,
                       const Composition& composition, const SiteNames& names);

}  // namespace ebt::report

#endif  // EBBTIDE_SRC_REPORT_MEMORY_JSON_H_
