// The meeting point of the two shared objects: libebbtide.so (the front, libc only) and
// libebbtide-core.so (the engine). Plain C, versioned, nothing but function pointers and
// plain structs, so that neither side needs to know how the other was built.
//
// Threads: every function may be called from any thread at any time, also concurrently.
// Errors: no function throws, exits or aborts; see each for what it returns.
// Streams arrive normalized: a NULL stream of a per-thread-default-stream entry point is
// passed as CU_STREAM_PER_THREAD, a NULL stream of a legacy one stays NULL.
#ifndef EBBTIDE_HOOKS_CORE_API_H_
#define EBBTIDE_HOOKS_CORE_API_H_

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

#define EBT_CORE_ABI 3

#ifdef __cplusplus
extern "C" {
#endif

// What becomes of a call of a hooked function.
enum ebt_service {
  kServed = 0,   // the core may answer in the driver's stead
  kTold = 1,     // the driver answers, and the core hears of it
  kCounted = 2,  // the driver answers as if we were not there
};

// How often a row of the table was called, by the way in which the program had found it.
typedef struct ebt_row_calls {
  const char* symbol;
  const char* family;
  int service;  // enum ebt_service
  uint64_t linked, dlsym, proc_v1, proc_v2;
} ebt_row_calls;

// What the front gives the core.
typedef struct ebt_front {
  uint32_t abi;   // EBT_CORE_ABI
  uint32_t size;  // sizeof(ebt_front)
  // The driver's own function for an exported symbol ("cuMemAlloc_v2"), NULL where this
  // driver has none. Never a hook of ours.
  void* (*real)(const char* symbol);
  // dlsym of libc itself.
  void* (*libc_dlsym)(void* handle, const char* name);
  // The calling thread's re-entrancy guard. While it is not zero every hook forwards.
  int* (*guard)(void);
  // The calls of row 0, 1, 2 ... so far; 0: there is no such row. They are counted only where
  // EBBTIDE_COVERAGE is set.
  int (*row_calls)(int row, ebt_row_calls* out);
} ebt_front;

enum ebt_alloc_kind {
  EBT_ALLOC_LINEAR = 0,   // cuMemAlloc
  EBT_ALLOC_PITCHED = 1,  // cuMemAllocPitch
  EBT_ALLOC_MANAGED = 2,  // cuMemAllocManaged
  EBT_ALLOC_ASYNC = 3,    // cuMemAllocAsync: the device's current pool
  EBT_ALLOC_POOL = 4,     // cuMemAllocFromPoolAsync: `pool`
  EBT_ALLOC_VMM = 5,      // cuMemCreate: counted, never served
};

typedef struct ebt_alloc {
  int kind;           // enum ebt_alloc_kind
  size_t bytes;       // requested size in bytes (pitched: pitch * height, known afterwards)
  CUstream stream;    // ordering stream; NULL for the kinds without one
  CUmemoryPool pool;  // EBT_ALLOC_POOL only
} ebt_alloc;

typedef struct ebt_launch {
  void* function;  // CUfunction or CUkernel, as the caller gave it
  CUstream stream;
  unsigned grid[3], block[3];
  unsigned shared_bytes;
  void** params;  // kernelParams, or NULL
  void** extra;   // CU_LAUNCH_PARAM_* list, or NULL
} ebt_launch;

enum ebt_copy_kind {
  EBT_COPY_HTOD = 0,
  EBT_COPY_DTOH = 1,
  EBT_COPY_DTOD = 2,
  EBT_COPY_UNIFIED = 3,  // cuMemcpy, cuMemcpyAsync: the addresses say where
  EBT_COPY_PEER = 4,
  EBT_COPY_MEMSET = 5,  // dst only
};

typedef struct ebt_copy {
  int kind;           // enum ebt_copy_kind
  uint64_t dst, src;  // addresses of the first bytes; 0 where there is none
  size_t bytes;       // bytes moved or set
  CUstream stream;    // NULL with synchronous calls
  int synchronous;    // the call returns after the work has been done; of a memset: it knows no
                      // stream
  // Bytes from the first to behind the last one that is read or written: more than `bytes` where
  // rows have a pitch.
  uint64_t dst_span, src_span;
} ebt_copy;

enum ebt_lifecycle {
  EBT_STREAM_DESTROY = 0,   // before the driver's call; object = the CUstream
  EBT_CONTEXT_DESTROY = 1,  // before the driver's call; object = the CUcontext
  EBT_PRIMARY_RESET = 2,    // before the driver's call; object = the CUdevice as an integer
  EBT_CAPTURE_BEGIN = 3,    // after success; object = the CUstream
  EBT_CAPTURE_END = 4,      // after the driver's call; object = the CUstream
  EBT_GRAPH_LAUNCH = 5,     // before the driver's call; object = the CUgraphExec
  EBT_POOL_CREATE = 6,      // after success; object = the CUmemoryPool, detail = its CUmemPoolProps
  EBT_POOL_DESTROY = 7,     // before the driver's call; object = the CUmemoryPool
  EBT_BLOCK_EXPORTED = 8,   // after the driver's call; object = a device address whose block others
                            // than this process reach or were to reach, detail = the CUresult
  EBT_PEER_CONTEXT = 9,     // after success: the current context may access object, a CUcontext
  EBT_POOL_ACCESS = 10,     // after success; object = the pool, detail = one CUmemAccessDesc
  EBT_ADDRESS_TAKEN = 11,   // before the driver's call; object = a device address that goes into
                            // something opaque, which work may use at any time; detail = what that
                            // is called ("a tensor map")
  EBT_KERNEL_NODE = 12,     // before the driver's call; detail = the ebt_launch that a graph, which
                            // somebody builds by hand, will do whenever it is launched
  EBT_COPY_NODE = 13,       // likewise; detail = an ebt_copy
  EBT_HANDLE_RELEASED = 14,  // before the driver's call; object = a CUmemGenericAllocationHandle
  // A reference to a primary context is given up: before and after the driver's call, by the same
  // thread; object = the CUdevice as an integer.
  EBT_PRIMARY_RELEASE = 15,
  EBT_PRIMARY_RELEASED = 16,
  EBT_FUNCTIONS_END = 17,  // before the driver's call: handles of kernel functions may end with it
};

// Ways to hand memory to others.
enum ebt_export {
  EBT_EXPORT_IPC = 0,           // cuIpcGetMemHandle
  EBT_EXPORT_RANGE = 1,         // cuMemGetHandleForAddressRange
  EBT_EXPORT_HANDLE = 2,        // cuMemRetainAllocationHandle
  EBT_EXPORT_POOL_POINTER = 3,  // cuMemPoolExportPointer
};

enum ebt_mark { EBT_MARK_STEP = 0, EBT_MARK_PHASE = 1 };

// What the core gives the front. "Served" functions return 1 when the core answered and
// *result is the call's result; 0 when the call must go to the driver as it came.
typedef struct ebt_core {
  uint32_t abi;   // EBT_CORE_ABI
  uint32_t size;  // sizeof(ebt_core)
  // 0: no hook needs to be handed out, the process runs as if we were not there.
  int active;

  int (*alloc)(const ebt_alloc* request, CUdeviceptr* ptr, CUresult* result);
  // After the driver served an allocation; of EBT_ALLOC_VMM `ptr` is the handle. Not called on
  // failure.
  void (*allocated)(const ebt_alloc* request, CUdeviceptr ptr);
  // After the driver refused an allocation with `result`.
  void (*alloc_failed)(const ebt_alloc* request, CUresult result);
  // Before the driver frees. ordered: the free is stream-ordered (cuMemFreeAsync).
  int (*free)(CUdeviceptr ptr, CUstream stream, int ordered, CUresult* result);

  // Before the driver's call. 1: the core wants `touched` to be called by the same thread right
  // after it, whatever it returned.
  int (*launch)(const ebt_launch* launch);
  int (*copy)(const ebt_copy* copy);
  // As `copy`, for what the driver queues on one stream in one call: copy_at fills in the copy of
  // an index below `count`.
  int (*copies)(const void* batch, size_t count,
                void (*copy_at)(const void* batch, size_t index, ebt_copy* out));
  void (*touched)(void);

  int (*mem_info)(size_t* free_bytes, size_t* total_bytes, CUresult* result);
  int (*address_range)(CUdeviceptr* base, size_t* bytes, CUdeviceptr ptr, CUresult* result);
  // After the driver answered one attribute of `ptr` with *result. 1: the address is one of ours,
  // and *value and *result are what the native allocation would have had; where *result is then
  // an error, *value is what cuPointerGetAttributes leaves of such an attribute.
  int (*pointer_attribute)(CUpointer_attribute attribute, void* value, CUdeviceptr ptr,
                           CUresult* result);
  // Before the driver's call.
  int (*pointer_set)(CUpointer_attribute attribute, const void* value, CUdeviceptr ptr,
                     CUresult* result);
  // Before the driver's call, in one of the ways of ebt_export. 1: refused.
  int (*export_block)(int way, CUdeviceptr ptr, CUresult* result);
  int (*pool_get)(CUmemoryPool pool, CUmemPool_attribute attribute, void* value, CUresult* result);
  int (*pool_set)(CUmemoryPool pool, CUmemPool_attribute attribute, void* value, CUresult* result);
  void (*pool_trim)(CUmemoryPool pool, size_t keep_bytes);  // before the driver's call

  void (*lifecycle)(int what, void* object, const void* detail);
  // ebbtide.h: a step begins, or the phase called `name` begins.
  void (*mark)(int what, const char* name);
  // ebbtide.h: fills the first `size` bytes of an ebbtide_statistics.
  int (*statistics)(void* out, size_t size);
  void (*forked)(void);  // in the child, right after fork
} ebt_core;

// The core's one exported symbol. NULL: the core cannot work here and has said why.
typedef const ebt_core* (*ebt_core_open_fn)(const ebt_front* front);

#ifdef __cplusplus
}
#endif
#endif  // EBBTIDE_HOOKS_CORE_API_H_
