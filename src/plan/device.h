// What a GPU and its link can do, as plans and predictions take it: measured figures, read from a
// description (profiles/devices/DEVICES.md). Bytes a second, microseconds.
#ifndef EBBTIDE_SRC_PLAN_DEVICE_H_
#define EBBTIDE_SRC_PLAN_DEVICE_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace ebt::plan {

// One copy of so many bytes, nothing else on the link.
struct CopySpeed {
  uint64_t bytes = 0;
  double rate = 0;
};

struct VmmTimes {
  double create = 56, map = 4.5, set_access = 73.5, unmap = 35, release = 83;
};

// The defaults were measured on one NVIDIA H200 (driver 580.159, CUDA 13.0).
struct DeviceModel {
  double link_in = 50e9;      // copies host to device while others go back
  double link_out = 50e9;     // copies device to host while others come in
  double in_place = 42e9;     // a kernel reading and writing host memory, each way at once
  double managed_in = 50e9;   // prefetch of managed memory to the device
  double managed_out = 12e9;  // prefetch of managed memory to the host
  double link_in_alone = 55e9;
  double link_out_alone = 55e9;
  double managed_in_both = 9e9;  // both ways at once, each
  double managed_out_both = 9e9;
  double hbm = 3.6e12;
  VmmTimes vmm;
  // By size, ascending; those without bytes come last and say nothing.
  std::array<CopySpeed, 16> copies = {
      CopySpeed{65536, 17e9}, {262144, 36e9}, {1048576, 48e9}, {4194304, 53e9}, {67108864, 55e9}};

  // What part of its full speed a copy of so many bytes has: between two measured sizes the time
  // is taken to be linear in the bytes. 1 where nothing was measured.
  double CopyShare(uint64_t bytes) const;
};

// The speed at which a bulk copy goes is that of its pieces (src/tier/mover).
inline constexpr uint64_t kCopyPiece = uint64_t{4} << 20;

struct DeviceDescription {
  std::string name;  // as the driver calls the GPU
  std::string driver;
  std::string measured;    // the day, ISO 8601
  std::string conditions;  // how, for people
  bool simulated = false;  // no hardware was measured
  uint64_t device_bytes = 0;
  DeviceModel speeds;
};

// Untrusted text. The error is one line: `source`, the key and what is wrong with it.
absl::StatusOr<DeviceDescription> DeviceFromJson(std::string_view text, std::string_view source);
std::string DeviceJson(const DeviceDescription& device);

// What is built in: file names of profiles/devices without their ending.
std::vector<std::string> BuiltInDevices();

// A built-in device by its file's or its own name (letters' case does not matter), else a file.
absl::StatusOr<DeviceDescription> FindDevice(const std::string& name_or_file);

// The built-in device that the profile's GPU is, else the H200 with a line in `note` that says so.
DeviceDescription DeviceOfGpu(const std::string& gpu, std::string* note);

}  // namespace ebt::plan

#endif  // EBBTIDE_SRC_PLAN_DEVICE_H_
