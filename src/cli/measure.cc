#include "src/cli/measure.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>
#include <functional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "src/base/log.h"
#include "src/base/units.h"
#include "src/cli/exit_codes.h"
#include "src/cli/measured_work.h"

namespace ebt::cli {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kMostBytes = 256 * kMiB;  // of each buffer
constexpr uint64_t kLeastBytes = 64 * kMiB;
constexpr uint64_t kFreePart = 8;  // of the free memory a buffer takes at most; there are two
constexpr uint64_t kHandleBytes = 32 * kMiB;
constexpr int kRepeats = 5;  // of each figure, of which the middle one is taken
constexpr int kVmmRepeats = 15;
constexpr uint64_t kCopySizes[] = {64 << 10, 256 << 10, kMiB, 4 * kMiB, 64 * kMiB};

double Middle(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + long(values.size() / 2), values.end());
  return values[values.size() / 2];
}

using Work = std::function<CUresult(CUstream)>;

class Measurement {
 public:
  Measurement(const DriverApi& driver, CUdevice device)
      : driver_(driver),
        device_(device),
        host_in_(driver),
        host_out_(driver),
        here_in_(driver),
        here_out_(driver),
        managed_in_(driver),
        managed_out_(driver),
        in_(driver),
        out_(driver) {}

  absl::Status Run(plan::DeviceModel& speeds) {
    if (absl::Status ready = Prepare(); !ready.ok()) return ready;
    absl::Status status = MeasureLink(speeds);
    if (status.ok()) status = MeasureSizes(speeds);
    if (status.ok()) status = MeasureDeviceMemory(speeds);
    if (status.ok()) status = MeasureVmm(speeds.vmm);
    if (status.ok()) status = MeasureManaged(speeds);
    return status;
  }

  uint64_t bytes() const { return bytes_; }

 private:
  absl::Status Refused(const char* what, CUresult result) const {
    return absl::UnavailableError(
        fmt::format("{} could not be measured: {}", what, ErrorName(driver_, result)));
  }

  absl::Status Prepare() {
    size_t free_bytes = 0, total = 0;
    CUresult result = driver_.fn_cuMemGetInfo_v2(&free_bytes, &total);
    bytes_ = std::min(kMostBytes, free_bytes / kFreePart / kHandleBytes * kHandleBytes);
    if (result == CUDA_SUCCESS && bytes_ < kLeastBytes) {
      return absl::ResourceExhaustedError(
          fmt::format("{} are free on the device: at least {} are needed to measure it",
                      FormatSize(free_bytes), FormatSize(kLeastBytes * kFreePart)));
    }
    for (Stopwatch* watch : {&in_, &out_}) {
      if (result == CUDA_SUCCESS) result = watch->Make();
    }
    for (Buffer* buffer : {&host_in_, &host_out_}) {
      if (result == CUDA_SUCCESS) result = buffer->OnHost(bytes_, device_);
    }
    for (Buffer* buffer : {&here_in_, &here_out_}) {
      if (result == CUDA_SUCCESS) result = buffer->OnDevice(bytes_);
    }
    return result == CUDA_SUCCESS ? absl::OkStatus() : Refused("the link", result);
  }

  // Bytes a second of work that moves `bytes`, the middle of several times.
  absl::Status Rate(const char* what, Stopwatch& watch, double bytes, const Work& work,
                    double* rate) {
    std::vector<double> times;
    for (int i = 0; i < kRepeats; ++i) {
      double ms = 0;
      CUresult result = watch.Begin();
      if (result == CUDA_SUCCESS) result = work(watch.stream());
      if (result == CUDA_SUCCESS) result = watch.End();
      if (result == CUDA_SUCCESS) result = watch.Read(&ms);
      if (result != CUDA_SUCCESS) return Refused(what, result);
      times.push_back(ms);
    }
    return Take(what, bytes, Middle(std::move(times)), rate);
  }

  static absl::Status Take(const char* what, double bytes, double ms, double* rate) {
    if (ms <= 0) return absl::InternalError(fmt::format("{} took no time", what));
    *rate = bytes / ms * 1e3;
    return absl::OkStatus();
  }

  // The same of two works at once.
  absl::Status BothRates(const char* what, const Work& work_in, const Work& work_out,
                         double* rate_in, double* rate_out) {
    std::vector<double> times_in, times_out;
    for (int i = 0; i < kRepeats; ++i) {
      double ms_in = 0, ms_out = 0;
      CUresult result = in_.Begin();
      if (result == CUDA_SUCCESS) result = out_.Begin();
      if (result == CUDA_SUCCESS) result = work_in(in_.stream());
      if (result == CUDA_SUCCESS) result = work_out(out_.stream());
      if (result == CUDA_SUCCESS) result = in_.End();
      if (result == CUDA_SUCCESS) result = out_.End();
      if (result == CUDA_SUCCESS) result = in_.Read(&ms_in);
      if (result == CUDA_SUCCESS) result = out_.Read(&ms_out);
      if (result != CUDA_SUCCESS) return Refused(what, result);
      times_in.push_back(ms_in), times_out.push_back(ms_out);
    }
    absl::Status status = Take(what, double(bytes_), Middle(std::move(times_in)), rate_in);
    if (!status.ok()) return status;
    return Take(what, double(bytes_), Middle(std::move(times_out)), rate_out);
  }

  Work CopyIn(uint64_t bytes) {
    return [=, this](CUstream stream) {
      return driver_.fn_cuMemcpyAsync(here_in_.address(), host_in_.address(), bytes, stream);
    };
  }
  Work CopyOut() {
    return [=, this](CUstream stream) {
      return driver_.fn_cuMemcpyAsync(host_out_.address(), here_out_.address(), bytes_, stream);
    };
  }

  absl::Status MeasureLink(plan::DeviceModel& speeds) {
    const auto bytes = double(bytes_);
    absl::Status status = Rate("copies in", in_, bytes, CopyIn(bytes_), &speeds.link_in_alone);
    if (status.ok()) status = Rate("copies out", out_, bytes, CopyOut(), &speeds.link_out_alone);
    if (!status.ok()) return status;
    return BothRates("copies both ways", CopyIn(bytes_), CopyOut(), &speeds.link_in,
                     &speeds.link_out);
  }

  absl::Status MeasureSizes(plan::DeviceModel& speeds) {
    speeds.copies = {};
    size_t next = 0;
    for (uint64_t bytes : kCopySizes) {
      if (bytes > bytes_) break;
      plan::CopySpeed& copy = speeds.copies[next++];
      copy.bytes = bytes;
      absl::Status status = Rate("copies by size", in_, double(bytes), CopyIn(bytes), &copy.rate);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // A copy on the device reads and writes.
  absl::Status MeasureDeviceMemory(plan::DeviceModel& speeds) {
    const Work copy = [this](CUstream stream) {
      return driver_.fn_cuMemcpyAsync(here_in_.address(), here_out_.address(), bytes_, stream);
    };
    return Rate("the device's memory", in_, 2 * double(bytes_), copy, &speeds.hbm);
  }

  template <typename Call>
  static CUresult Timed(std::vector<double>& times, Call call) {
    const auto begin = std::chrono::steady_clock::now();
    const CUresult result = call();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    times.push_back(std::max(took.count(), 1e-3));
    return result;
  }

  absl::Status MeasureVmm(plan::VmmTimes& vmm) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device_}};
    const CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr at = 0;
    CUresult result = driver_.fn_cuMemAddressReserve(&at, kHandleBytes, 0, 0, 0);
    std::vector<double> create, map, set_access, unmap, release;
    for (int i = 0; i < kVmmRepeats && result == CUDA_SUCCESS; ++i) {
      CUmemGenericAllocationHandle handle = 0;
      result = Timed(create,
                     [&] { return driver_.fn_cuMemCreate(&handle, kHandleBytes, &properties, 0); });
      if (result != CUDA_SUCCESS) break;
      result = Timed(map, [&] { return driver_.fn_cuMemMap(at, kHandleBytes, 0, handle, 0); });
      if (result == CUDA_SUCCESS) {
        result = Timed(set_access,
                       [&] { return driver_.fn_cuMemSetAccess(at, kHandleBytes, &access, 1); });
        const CUresult unmapped =
            Timed(unmap, [&] { return driver_.fn_cuMemUnmap(at, kHandleBytes); });
        if (result == CUDA_SUCCESS) result = unmapped;
      }
      const CUresult released = Timed(release, [&] { return driver_.fn_cuMemRelease(handle); });
      if (result == CUDA_SUCCESS) result = released;
    }
    if (at != 0) driver_.fn_cuMemAddressFree(at, kHandleBytes);
    if (result != CUDA_SUCCESS) return Refused("virtual memory management", result);
    vmm = {.create = Middle(std::move(create)),
           .map = Middle(std::move(map)),
           .set_access = Middle(std::move(set_access)),
           .unmap = Middle(std::move(unmap)),
           .release = Middle(std::move(release))};
    return absl::OkStatus();
  }

  Work Prefetch(const Buffer& buffer, CUdevice where) {
    return [=, this, &buffer](CUstream stream) {
      return driver_.fn_cuMemPrefetchAsync(buffer.address(), bytes_, where, stream);
    };
  }

  // Written once, so that there are pages to move; used in place as managed cold blocks are.
  absl::Status MeasureManaged(plan::DeviceModel& speeds) {
    CUresult result = managed_in_.Managed(bytes_);
    if (result == CUDA_SUCCESS) result = managed_out_.Managed(bytes_);
    for (Buffer* buffer : {&managed_in_, &managed_out_}) {
      if (result == CUDA_SUCCESS) {
        result = driver_.fn_cuMemsetD8Async(buffer->address(), 0, bytes_, in_.stream());
      }
    }
    if (result == CUDA_SUCCESS) result = driver_.fn_cuStreamSynchronize(in_.stream());
    if (result != CUDA_SUCCESS) return Refused("managed memory", result);
    absl::Status status = MeasurePrefetch(speeds);
    return status.ok() ? MeasureInPlace(speeds) : status;
  }

  // To and fro, so that each prefetch finds the pages on the other side.
  absl::Status MeasurePrefetch(plan::DeviceModel& speeds) {
    std::vector<double> in, out, both_in, both_out;
    for (int i = 0; i < kRepeats; ++i) {
      double ms = 0, ms_out = 0;
      CUresult result = Once(out_, Prefetch(managed_in_, CU_DEVICE_CPU), &ms);
      out.push_back(ms);
      if (result == CUDA_SUCCESS) result = Once(in_, Prefetch(managed_in_, device_), &ms);
      in.push_back(ms);
      if (result == CUDA_SUCCESS) result = Once(out_, Prefetch(managed_in_, CU_DEVICE_CPU), &ms);
      if (result == CUDA_SUCCESS) result = Once(in_, Prefetch(managed_out_, device_), &ms);
      if (result == CUDA_SUCCESS) result = Together(&ms, &ms_out);
      if (result != CUDA_SUCCESS) return Refused("prefetches of managed memory", result);
      both_in.push_back(ms), both_out.push_back(ms_out);
    }
    const auto bytes = double(bytes_);
    absl::Status status = Take("prefetch in", bytes, Middle(std::move(in)), &speeds.managed_in);
    if (status.ok()) {
      status = Take("prefetch out", bytes, Middle(std::move(out)), &speeds.managed_out);
    }
    if (status.ok()) {
      status =
          Take("prefetch both ways", bytes, Middle(std::move(both_in)), &speeds.managed_in_both);
    }
    if (!status.ok()) return status;
    return Take("prefetch both ways", bytes, Middle(std::move(both_out)), &speeds.managed_out_both);
  }

  CUresult Once(Stopwatch& watch, const Work& work, double* ms) {
    CUresult result = watch.Begin();
    if (result == CUDA_SUCCESS) result = work(watch.stream());
    if (result == CUDA_SUCCESS) result = watch.End();
    return result == CUDA_SUCCESS ? watch.Read(ms) : result;
  }

  CUresult Together(double* ms_in, double* ms_out) {
    CUresult result = in_.Begin();
    if (result == CUDA_SUCCESS) result = out_.Begin();
    if (result == CUDA_SUCCESS) result = Prefetch(managed_in_, device_)(in_.stream());
    if (result == CUDA_SUCCESS) result = in_.End();
    if (result == CUDA_SUCCESS) result = Prefetch(managed_out_, CU_DEVICE_CPU)(out_.stream());
    if (result == CUDA_SUCCESS) result = out_.End();
    if (result == CUDA_SUCCESS) result = in_.Read(ms_in);
    return result == CUDA_SUCCESS ? out_.Read(ms_out) : result;
  }

  absl::Status MeasureInPlace(plan::DeviceModel& speeds) {
    const CUdeviceptr at = managed_in_.address();
    CUresult result =
        driver_.fn_cuMemAdvise(at, bytes_, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_DEVICE_CPU);
    if (result == CUDA_SUCCESS) {
      result = driver_.fn_cuMemAdvise(at, bytes_, CU_MEM_ADVISE_SET_ACCESSED_BY, device_);
    }
    double ms = 0;
    if (result == CUDA_SUCCESS) result = Once(out_, Prefetch(managed_in_, CU_DEVICE_CPU), &ms);
    if (result != CUDA_SUCCESS) return Refused("memory used in place", result);
    const Work fill = [this, at](CUstream stream) {
      return driver_.fn_cuMemsetD8Async(at, 1, bytes_, stream);
    };
    return Rate("memory used in place", in_, double(bytes_), fill, &speeds.in_place);
  }

  const DriverApi& driver_;
  CUdevice device_;
  uint64_t bytes_ = 0;
  Buffer host_in_, host_out_, here_in_, here_out_, managed_in_, managed_out_;
  Stopwatch in_, out_;
};

std::string Today() {
  char text[16] = "";
  const std::time_t now = std::time(nullptr);
  std::strftime(text, sizeof(text), "%Y-%m-%d", std::gmtime(&now));
  return text;
}

absl::StatusOr<DriverApi> StartDriver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);  // never closed
  if (library == nullptr) return absl::UnavailableError(absl::StrCat("no driver: ", dlerror()));
  auto driver = LoadDriverApi([library](const char* name) { return dlsym(library, name); });
  if (!driver.ok()) return driver;
  const auto init = reinterpret_cast<CUresult (*)(unsigned)>(dlsym(library, "cuInit"));
  const CUresult result = init == nullptr ? CUDA_ERROR_NOT_FOUND : init(0);
  if (result == CUDA_SUCCESS) return driver;
  return absl::UnavailableError(
      fmt::format("the driver does not start: {}", ErrorName(*driver, result)));
}

int CannotMeasure(std::string_view message) {
  Log(LogLevel::kError, "{}", message);
  return kOwnFailure;
}

}  // namespace

absl::StatusOr<plan::DeviceDescription> MeasureDevice(const DriverApi& driver, int ordinal) {
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUresult result = driver.fn_cuDeviceGet(&device, ordinal);
  if (result == CUDA_SUCCESS) result = driver.fn_cuDevicePrimaryCtxRetain(&context, device);
  if (result == CUDA_SUCCESS) result = driver.fn_cuCtxSetCurrent(context);
  if (result != CUDA_SUCCESS) {
    return absl::UnavailableError(
        fmt::format("device {} cannot be used: {}", ordinal, ErrorName(driver, result)));
  }
  char name[256] = "unknown";
  driver.fn_cuDeviceGetName(name, sizeof(name) - 1, device);
  size_t total = 0;
  driver.fn_cuDeviceTotalMem_v2(&total, device);
  int version = 0;
  driver.fn_cuDriverGetVersion(&version);
  plan::DeviceDescription out;
  out.name = name;
  out.driver = fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
  out.measured = Today();
  out.simulated = absl::StrContains(out.name, "simulated");
  out.device_bytes = total;
  absl::Status status;
  {
    Measurement measurement(driver, device);
    status = measurement.Run(out.speeds);
    out.conditions = fmt::format(
        "{}ebbtide doctor --measure: buffers of {}, the middle of {} times; in place: a memset of "
        "managed memory at home on the host, so writing alone; HBM: a copy on the device; VMM: "
        "handles of {}",
        out.simulated ? "simulated, no hardware was measured; " : "",
        FormatSize(measurement.bytes()), kRepeats, FormatSize(kHandleBytes));
  }
  driver.fn_cuDevicePrimaryCtxRelease_v2(device);
  if (!status.ok()) return status;
  return out;
}

int MeasureAndWrite(const std::string& output) {
  const absl::StatusOr<DriverApi> driver = StartDriver();
  if (!driver.ok()) return CannotMeasure(Message(driver.status()));
  const auto device = MeasureDevice(*driver, 0);
  if (!device.ok()) return CannotMeasure(Message(device.status()));
  const std::string text = plan::DeviceJson(*device);
  if (output.empty()) {
    fmt::print("{}", text);
    return 0;
  }
  std::ofstream file(output);
  file << text;
  if (!file.flush()) return CannotMeasure(fmt::format("{}: cannot be written", output));
  Log(LogLevel::kWarning, "wrote {}: {}{}; next: ebbtide plan PROFILE --device {}", output,
      device->name, device->simulated ? ", no hardware was measured" : "", output);
  return 0;
}

}  // namespace ebt::cli
