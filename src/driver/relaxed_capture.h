// Somebody's stream capture in global mode must not mind driver calls of ours.
#ifndef EBBTIDE_SRC_DRIVER_RELAXED_CAPTURE_H_
#define EBBTIDE_SRC_DRIVER_RELAXED_CAPTURE_H_

#include <cuda.h>

#include "src/driver/driver_api.h"

namespace ebt {

// While one lives, calls of this thread neither fail because of somebody's stream capture nor
// spoil it.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const DriverApi& driver) : driver_(driver), exchanged_(Exchange()) {}
  ~RelaxedCapture() {
    // The mode is the application's: a refusal must not leave it with ours.
    for (int i = 0; i < kTries && exchanged_; ++i) exchanged_ = !Exchange();
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  static constexpr int kTries = 3;

  // False where the driver refuses, or is too old to know of modes.
  bool Exchange() {
    return driver_.fn_cuThreadExchangeStreamCaptureMode != nullptr &&
           driver_.fn_cuThreadExchangeStreamCaptureMode(&mode_) == CUDA_SUCCESS;
  }

  const DriverApi& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  bool exchanged_;
};

}  // namespace ebt

#endif  // EBBTIDE_SRC_DRIVER_RELAXED_CAPTURE_H_
