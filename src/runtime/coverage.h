// What a process called of the driver, and how it had come by it.
#ifndef EBBTIDE_SRC_RUNTIME_COVERAGE_H_
#define EBBTIDE_SRC_RUNTIME_COVERAGE_H_

#include <string>

#include "hooks/core_api.h"

namespace ebt::runtime {

// Appends JSON lines to `path`: one for the process, one for each hooked function that was called,
// one for each library whose calls cannot be seen (unseen.h):
//   {"pid":1,"program":"...","driver":"/usr/lib/x86_64-linux-gnu/libcuda.so.1"}
//   {"pid":1,"program":"...","symbol":"cuMemAlloc_v2","family":"alloc","service":"served",
//    "linked":0,"dlsym":0,"proc_v1":0,"proc_v2":3}
//   {"pid":1,"unseen":"libfoo.so","symbols":["cuMemAlloc_v2","dlsym"]}
// A file that cannot be written is one line on stderr.
void WriteCoverage(const ebt_front& front, const std::string& path);

}  // namespace ebt::runtime

#endif  // EBBTIDE_SRC_RUNTIME_COVERAGE_H_
