// How much of the device is in use while a recording runs, by whomever: what the driver's own
// allocators hold beyond the blocks, the context, the kernels.
#ifndef EBBTIDE_SRC_RECORD_DEVICE_WATCH_H_
#define EBBTIDE_SRC_RECORD_DEVICE_WATCH_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "hooks/core_api.h"
#include "src/driver/driver_api.h"

namespace ebt::record {

// Watches the device of the first allocation's context. Thread-safe.
class DeviceWatch {
 public:
  explicit DeviceWatch(const DriverApi& driver) : driver_(driver) {}

  // After an allocation succeeded; only the first one counts. Its memory is subtracted, so that
  // the base is what was in use before it.
  void Allocated(const ebt_alloc& request, CUcontext context, CUdevice device);

  // Measures once. Changes the calling thread's current context; the caller keeps contexts from
  // going away meanwhile. Errors are ignored: there is nothing to measure, then.
  void Sample();

  // Bytes of `device` now, where it is the one that is watched; else both stay. As Sample.
  void Memory(CUdevice device, uint64_t& free_bytes, uint64_t& total_bytes);

  void ContextGone(CUcontext context);

  // That of the first allocation, NULL before it and once it is gone.
  CUcontext context();

  // Adds to `changed` the metadata that is not yet in the file: "gpu", "total_bytes",
  // "device_used_base_bytes", "device_used_peak_bytes".
  void Metadata(std::map<std::string, std::string>& changed);

 private:
  bool EnterContext(CUdevice* device);
  uint64_t BytesOfFirst(const ebt_alloc& request, CUdevice device) const;

  const DriverApi& driver_;
  std::atomic<bool> seen_{false};
  std::mutex mutex_;
  CUcontext context_ = nullptr;
  CUdevice device_ = 0;
  bool described_ = false;
  bool has_base_ = false, base_told_ = false;
  uint64_t base_ = 0, peak_ = 0, told_peak_ = 0;
};

}  // namespace ebt::record

#endif  // EBBTIDE_SRC_RECORD_DEVICE_WATCH_H_
