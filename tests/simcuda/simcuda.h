// What the simulated driver tells a test beyond the driver API. Every function is exported by the
// simulated libcuda.so.1 and by no real one, so dlsym of any of these also answers the question
// "is this simulated?". All are safe from any thread and take no virtual time.
//
// Environment, read when the library is loaded:
//   SIMCUDA_DEVICES=2        devices, 0 to 16 (default 1); with none cuInit fails
//   SIMCUDA_MEMORY=512MiB    memory of each device: bytes, or KiB, MiB, GiB (default 4GiB)
//   SIMCUDA_FAIL=LIST        seeded faults, separated by commas: NAME:N fails the Nth call of an
//                            exported function, NAME:N+ every call from the Nth on, NAME:%N every
//                            Nth; "=CODE" behind it chooses the CUresult (default 2, out of memory)
//   SIMCUDA_LOG=FILE         one line a call is appended: its name and its arguments
#ifndef EBBTIDE_TESTS_SIMCUDA_SIMCUDA_H_
#define EBBTIDE_TESTS_SIMCUDA_SIMCUDA_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Virtual time of the calling host thread in milliseconds.
double simcuda_now_ms(void);

// Lets the calling thread spend `ms` of virtual time on the host; the devices work meanwhile.
void simcuda_host_work_ms(double ms);

// Bytes of the device's memory in use, everything counted, and the most since the last reset.
uint64_t simcuda_device_bytes(int device);
uint64_t simcuda_peak_device_bytes(int device);
void simcuda_reset_peak(int device);

// Calls so far of an exported function ("cuMemAlloc_v2"), refused ones included; of all variants
// together when `symbol` is a base name with a '*' behind it ("cuMemcpyAsync*").
uint64_t simcuda_call_count(const char* symbol);

// Replaces SIMCUDA_FAIL from now on and counts afresh; NULL or "": no faults. 0 when the text
// could not be read, in which case nothing changes.
int simcuda_set_faults(const char* list);

// Bytes copied over the link so far, host to device and device to host, by copy engines and by
// migration of managed memory; in-place accesses of kernels are not among them.
uint64_t simcuda_link_bytes_in(int device);
uint64_t simcuda_link_bytes_out(int device);

#ifdef __cplusplus
}
#endif
#endif  // EBBTIDE_TESTS_SIMCUDA_SIMCUDA_H_
