// Ebbtide's optional C API. A program that links libebbtide.so, or looks these up with dlsym
// when it was preloaded, can tell Ebbtide what it would otherwise infer. Every function may be
// called from any thread, never fails loudly, and does nothing in a process in which Ebbtide
// is not active.
#ifndef EBBTIDE_EBBTIDE_H_
#define EBBTIDE_EBBTIDE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// A NUL-terminated version such as "0.1.0"; static storage.
const char* ebbtide_version(void);

// A training step begins here. Overrides step detection in a recording.
void ebbtide_step(void);

// The phase called `name` ("forward", "backward", "optimizer" or your own; copied, at most 63
// bytes) begins here.
void ebbtide_phase(const char* name);

// What Ebbtide has done in this process so far. All counts since the process began, all sizes
// in bytes. Later versions append fields.
typedef struct ebbtide_statistics {
  uint64_t allocations_seen;     // allocation calls that passed a hook
  uint64_t allocations_planned;  // served at their planned place
  uint64_t allocations_dynamic;  // served by us, unplanned
  uint64_t allocations_native;   // left to the driver
  uint64_t launches_seen;
  uint64_t device_bytes;  // device memory mapped by us now
  uint64_t device_bytes_peak;
  uint64_t cold_bytes;  // bytes of live cold blocks now
  uint64_t cold_bytes_peak;
  uint64_t prefetched_bytes;  // moved to the device ahead of use
  uint64_t evicted_bytes;     // moved back to the host
  uint64_t steps;             // planned steps gone through
} ebbtide_statistics;

// Fills the first `size` bytes of *out (pass sizeof(ebbtide_statistics)). Returns 0, or 1 when
// Ebbtide is not active in this process; *out is then zeroed.
int ebbtide_get_statistics(ebbtide_statistics* out, size_t size);

#ifdef __cplusplus
}
#endif
#endif  // EBBTIDE_EBBTIDE_H_
