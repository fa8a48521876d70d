// What a measurement works on: memory on either side of the link, and a stream with a clock.
#ifndef EBBTIDE_SRC_CLI_MEASURED_WORK_H_
#define EBBTIDE_SRC_CLI_MEASURED_WORK_H_

#include <cuda.h>

#include <cstdint>

#include "src/driver/driver_api.h"

namespace ebt::cli {

// Bytes that a device can use, given back at the end.
class Buffer {
 public:
  explicit Buffer(const DriverApi& driver) : driver_(driver) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (address_ == 0) return;
    if (!mapped_) {
      driver_.fn_cuMemFree_v2(address_);
      return;
    }
    driver_.fn_cuMemUnmap(address_, bytes_);
    driver_.fn_cuMemAddressFree(address_, bytes_);
  }

  CUresult OnDevice(uint64_t bytes) { return driver_.fn_cuMemAlloc_v2(&address_, bytes); }
  CUresult Managed(uint64_t bytes) {
    return driver_.fn_cuMemAllocManaged(&address_, bytes, CU_MEM_ATTACH_GLOBAL);
  }
  // Pinned memory of the host next to the device, as the swap engine has it.
  CUresult OnHost(uint64_t bytes, CUdevice device) {
    int node = -1;
    CUresult result =
        driver_.fn_cuDeviceGetAttribute(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, device);
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_HOST_NUMA, {node}};
    CUmemGenericAllocationHandle handle = 0;
    if (result == CUDA_SUCCESS) result = driver_.fn_cuMemCreate(&handle, bytes, &properties, 0);
    if (result != CUDA_SUCCESS) return result;
    result = driver_.fn_cuMemAddressReserve(&address_, bytes, 0, 0, 0);
    if (result == CUDA_SUCCESS) {
      bytes_ = bytes, mapped_ = true;
      result = driver_.fn_cuMemMap(address_, bytes, 0, handle, 0);
    }
    driver_.fn_cuMemRelease(handle);  // it stays as long as it is mapped
    const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, {device}},
                                    CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    return result == CUDA_SUCCESS ? driver_.fn_cuMemSetAccess(address_, bytes, &access, 1) : result;
  }
  CUdeviceptr address() const { return address_; }

 private:
  const DriverApi& driver_;
  CUdeviceptr address_ = 0;
  uint64_t bytes_ = 0;
  bool mapped_ = false;
};

// A stream and two events on it.
class Stopwatch {
 public:
  explicit Stopwatch(const DriverApi& driver) : driver_(driver) {}
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() {
    if (begin_ != nullptr) driver_.fn_cuEventDestroy_v2(begin_);
    if (end_ != nullptr) driver_.fn_cuEventDestroy_v2(end_);
    if (stream_ != nullptr) driver_.fn_cuStreamDestroy_v2(stream_);
  }

  CUresult Make() {
    CUresult result = driver_.fn_cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0);
    if (result == CUDA_SUCCESS) result = driver_.fn_cuEventCreate(&begin_, CU_EVENT_DEFAULT);
    return result == CUDA_SUCCESS ? driver_.fn_cuEventCreate(&end_, CU_EVENT_DEFAULT) : result;
  }
  CUstream stream() const { return stream_; }
  CUresult Begin() { return driver_.fn_cuEventRecord(begin_, stream_); }
  CUresult End() { return driver_.fn_cuEventRecord(end_, stream_); }
  CUresult Read(double* ms) {
    float elapsed = 0;
    CUresult result = driver_.fn_cuEventSynchronize(end_);
    if (result == CUDA_SUCCESS) result = driver_.fn_cuEventElapsedTime(&elapsed, begin_, end_);
    *ms = elapsed;
    return result;
  }

 private:
  const DriverApi& driver_;
  CUstream stream_ = nullptr;
  CUevent begin_ = nullptr, end_ = nullptr;
};

}  // namespace ebt::cli

#endif  // EBBTIDE_SRC_CLI_MEASURED_WORK_H_
