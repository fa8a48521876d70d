// Virtual memory management: a program's own handles are the driver's, but what we hold and
// nobody uses must not be what they lack.
#ifndef EBBTIDE_HOOKS_VMM_H_
#define EBBTIDE_HOOKS_VMM_H_

#include "hooks/alloc.h"

namespace ebt::front {

template <Slot slot, Mode mode>
CUresult MemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                   const CUmemAllocationProp* properties, unsigned long long flags) {
  EBT_ENTER(MemCreate);
  return Retried(entry.core, [&] { return real(handle, bytes, properties, flags); });
}

}  // namespace ebt::front

#endif  // EBBTIDE_HOOKS_VMM_H_
