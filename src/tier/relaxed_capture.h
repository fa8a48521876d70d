// Somebody's stream capture in global mode must not mind driver calls of ours.
#ifndef EBBTIDE_SRC_TIER_RELAXED_CAPTURE_H_
#define EBBTIDE_SRC_TIER_RELAXED_CAPTURE_H_

#include <cuda.h>

#include "src/driver/driver_api.h"

namespace ebt::tier {

// For the calling thread, as long as it lives.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const DriverApi& driver) : driver_(driver) {
    driver_.fn_cuThreadExchangeStreamCaptureMode(&mode_);
  }
  ~RelaxedCapture() { driver_.fn_cuThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const DriverApi& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace ebt::tier

#endif  // EBBTIDE_SRC_TIER_RELAXED_CAPTURE_H_
