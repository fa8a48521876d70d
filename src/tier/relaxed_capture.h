// Somebody's stream capture in global mode must not mind driver calls of ours.
#ifndef EBBTIDE_SRC_TIER_RELAXED_CAPTURE_H_
#define EBBTIDE_SRC_TIER_RELAXED_CAPTURE_H_

#include <cuda.h>

#include "src/driver/driver_api.h"

namespace ebt::tier {

// For the calling thread, as long as it lives.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const DriverApi& driver)
      : driver_(driver),
        exchanged_(driver_.fn_cuThreadExchangeStreamCaptureMode(&mode_) == CUDA_SUCCESS) {}
  ~RelaxedCapture() {
    // The mode is the application's: a refusal must not leave it with ours.
    for (int i = 0; i < kTries && exchanged_; ++i)
      exchanged_ = driver_.fn_cuThreadExchangeStreamCaptureMode(&mode_) != CUDA_SUCCESS;
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  static constexpr int kTries = 3;

  const DriverApi& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  bool exchanged_ = false;
};

}  // namespace ebt::tier

#endif  // EBBTIDE_SRC_TIER_RELAXED_CAPTURE_H_
