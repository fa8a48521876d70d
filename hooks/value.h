// Streams that wait for memory, and write it. Others may poll or write the same address at any
// time, so it stays in place.
#ifndef EBBTIDE_HOOKS_VALUE_H_
#define EBBTIDE_HOOKS_VALUE_H_

#include "hooks/front.h"

namespace ebt::front {

inline constexpr char kMemoryOperation[] = "a stream's memory operation";

template <Slot slot, Mode mode>
CUresult StreamValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  EBT_ENTER(StreamValue32);
  AddressTaken(entry, address, kMemoryOperation);
  return real(stream, address, value, flags);
}

template <Slot slot, Mode mode>
CUresult StreamValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
  EBT_ENTER(StreamValue64);
  AddressTaken(entry, address, kMemoryOperation);
  return real(stream, address, value, flags);
}

// All operations with an address have it at the same place.
inline void AddressesTaken(const Entry& entry, const CUstreamBatchMemOpParams* list,
                           unsigned count) {
  for (unsigned i = 0; list && i < count; ++i) {
    const CUstreamBatchMemOpType operation = list[i].operation;
    if (operation == CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES || operation == CU_STREAM_MEM_OP_BARRIER)
      continue;
    AddressTaken(entry, list[i].waitValue.address, kMemoryOperation);
  }
}

template <Slot slot, Mode mode>
CUresult StreamBatchMemOp(CUstream stream, unsigned count, CUstreamBatchMemOpParams* list,
                          unsigned flags) {
  EBT_ENTER(StreamBatchMemOp);
  AddressesTaken(entry, list, count);
  return real(stream, count, list, flags);
}

}  // namespace ebt::front

#endif  // EBBTIDE_HOOKS_VALUE_H_
