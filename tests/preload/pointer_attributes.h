// What can be asked about an address, and is answered alike of a block of ours and of the driver's.
#ifndef EBBTIDE_TESTS_PRELOAD_POINTER_ATTRIBUTES_H_
#define EBBTIDE_TESTS_PRELOAD_POINTER_ATTRIBUTES_H_

#include <cuda.h>

namespace ebt::test {

// The attributes whose answers are the same for every allocation of a kind, or relative to it.
// Numbers of blocks differ by their nature, and of IPC and RDMA planned memory tells the truth,
// which is another one.
inline constexpr CUpointer_attribute kSameAnswers[] = {
    CU_POINTER_ATTRIBUTE_CONTEXT,
    CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
    CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
    CU_POINTER_ATTRIBUTE_HOST_POINTER,
    CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
    CU_POINTER_ATTRIBUTE_IS_MANAGED,
    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
    CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
    CU_POINTER_ATTRIBUTE_RANGE_SIZE,
    CU_POINTER_ATTRIBUTE_MAPPED,
    CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES,
    CU_POINTER_ATTRIBUTE_ACCESS_FLAGS,
    CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
};

}  // namespace ebt::test

#endif  // EBBTIDE_TESTS_PRELOAD_POINTER_ATTRIBUTES_H_
