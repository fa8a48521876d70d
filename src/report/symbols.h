// Names of native code, from the files that it was loaded from.
#ifndef EBBTIDE_SRC_REPORT_SYMBOLS_H_
#define EBBTIDE_SRC_REPORT_SYMBOLS_H_

#include <vector>

#include "src/callsite/callsite.h"

namespace ebt::report {

// Sets the function of every native frame that has none, where it can be told: demangled, from the
// symbol tables of the frame's file and of its separate debug file under /usr/lib/debug. A file
// that is no longer there, or has another build-id than was recorded, gives no names. Reads each
// file once, O(its symbols · log of its frames); maps it and never runs any of it.
void ResolveNames(std::vector<callsite::Site>& sites);

}  // namespace ebt::report

#endif  // EBBTIDE_SRC_REPORT_SYMBOLS_H_
