// A snapshot of memory for people, in a terminal.
#ifndef EBBTIDE_SRC_REPORT_SNAPSHOT_TABLE_H_
#define EBBTIDE_SRC_REPORT_SNAPSHOT_TABLE_H_

#include <string>

#include "src/profile/snapshot.h"
#include "src/report/names.h"

namespace ebt::report {

// What was asked for, what fills the memory, the last steps, and what to try: at most 100 columns
// wide, no colours, ends with a newline. top_sites: how many rows of sites are listed.
std::string SnapshotTable(const profile::Snapshot& snapshot, const SiteNames& names,
                          size_t top_sites = 12);

}  // namespace ebt::report

#endif  // EBBTIDE_SRC_REPORT_SNAPSHOT_TABLE_H_
