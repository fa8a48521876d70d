// The blocks of a recording, and what touched them, as columns (column.h).
#ifndef EBBTIDE_SRC_REPORT_BLOCK_COLUMNS_H_
#define EBBTIDE_SRC_REPORT_BLOCK_COLUMNS_H_

#include <cstdint>
#include <vector>

#include "src/profile/types.h"
#include "src/report/column.h"

namespace ebt::report {

// Work: a launch, a graph's launch or a copy. It is counted from 0, in the order of events.
bool IsWork(const profile::Event& event);

struct WorkColumns {
  Column event;  // events since the work before it (the first: since event 0)
  // 0 to 5: a copy, its CopyKind; 6: a graph; 7 and above: a launch of function - 7.
  Column what;
  uint64_t works = 0;
};

WorkColumns ColumnsOfWork(const profile::Profile& profile);

// One row a block, in the order of ids, which is that of allocation.
struct BlockColumns {
  Column alloc;    // events since the allocation before it
  Column life;     // events from allocation to free; 0: never freed
  Column bytes;    // taken: rounded up to kBlockAlignment, in units of it
  Column address;  // less the address of the block before it, signed
  // Touches, each a work. `touches`: how many there are. `listed`: the first of these, at most
  // `most_listed` a block, each as works since the one before it (the first: since the first work
  // behind the allocation). `last`, where not all are listed: works since the last listed one.
  Column touches, listed, last;
  uint64_t most_listed = 0;
};

// Lists as many touches of a block as keep the columns of touches at a few MiB.
BlockColumns ColumnsOfBlocks(const profile::Profile& profile);

}  // namespace ebt::report

#endif  // EBBTIDE_SRC_REPORT_BLOCK_COLUMNS_H_
