// What fills the memory, for people, in a terminal.
#ifndef EBBTIDE_SRC_REPORT_MEMORY_TABLE_H_
#define EBBTIDE_SRC_REPORT_MEMORY_TABLE_H_

#include <string>

#include "src/profile/types.h"
#include "src/report/composition.h"
#include "src/report/names.h"

namespace ebt::report {

// The recording, its peak and what that consists of: at most 100 columns wide, no colours, ends
// with a newline. top_sites: how many rows of sites are listed.
std::string MemoryTable(const profile::Profile& profile, const Composition& composition,
                        const SiteNames& names, size_t top_sites = 12);

}  // namespace ebt::report

#endif  // EBBTIDE_SRC_REPORT_MEMORY_TABLE_H_
