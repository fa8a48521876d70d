// How programs find the driver's functions: dlsym and cuGetProcAddress, answered from the table.
#ifndef EBBTIDE_HOOKS_RESOLVE_H_
#define EBBTIDE_HOOKS_RESOLVE_H_

#include "hooks/front.h"

namespace ebt::front {

// The row whose symbol is `name`, NULL if it is not hooked.
const Row* FindSymbol(const char* name);

// What stands in for `answer`, the driver's own answer to cuGetProcAddress(base, version,
// flags), asked for in the stream mode `asked` and by `way`; `answer` itself if it is not hooked.
void* Replacement(const char* base, void* answer, int version, cuuint64_t flags, Mode asked,
                  Way way);

// Replaces only what the driver found, and leaves its status alone (it may be NULL).
inline void Replace(const Entry& entry, const char* base, void** function, CUresult result,
                    int version, cuuint64_t flags, Mode asked, Way way) {
  if (entry.wanted() && base && function && *function && result == CUDA_SUCCESS)
    *function = Replacement(base, *function, version, flags, asked, way);
}

template <Slot slot, Mode mode>
CUresult ProcAddressV1(const char* base, void** function, int version, cuuint64_t flags) {
  EBT_ENTER(ProcAddressV1);
  const CUresult result = real(base, function, version, flags);
  Replace(entry, base, function, result, version, flags, mode, kProcAddressV1);
  return result;
}

template <Slot slot, Mode mode>
CUresult ProcAddressV2(const char* base, void** function, int version, cuuint64_t flags,
                       void* symbol_status) {
  EBT_ENTER(ProcAddressV2);
  const CUresult result = real(base, function, version, flags, symbol_status);
  Replace(entry, base, function, result, version, flags, mode, kProcAddressV2);
  return result;
}

}  // namespace ebt::front

#endif  // EBBTIDE_HOOKS_RESOLVE_H_
