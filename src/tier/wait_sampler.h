// How long streams are held up by waiting for an event, measured on the device for some waits.
#ifndef EBBTIDE_SRC_TIER_WAIT_SAMPLER_H_
#define EBBTIDE_SRC_TIER_WAIT_SAMPLER_H_

#include <cuda.h>

#include <cstdint>
#include <deque>
#include <vector>

#include "src/driver/driver_api.h"

namespace ebt::tier {

// Not thread-safe.
class WaitSampler {
 public:
  explicit WaitSampler(const DriverApi& driver) : driver_(driver) {}
  ~WaitSampler();

  // Makes `stream`, which is not being captured, wait for `event`. CUDA_SUCCESS or the driver's
  // refusal of the wait itself.
  CUresult Wait(CUstream stream, CUevent event);

  uint64_t waits() const { return waits_; }
  // Milliseconds of all waits: those that were measured and are over, scaled up.
  double Milliseconds();

 private:
  struct Sample {
    CUevent before = nullptr, after = nullptr;
  };
  bool Begin(CUstream stream, Sample* sample);
  void ReadThoseThatAreOver();

  const DriverApi& driver_;
  uint64_t waits_ = 0, measured_ = 0;
  double measured_ms_ = 0;
  std::deque<Sample> under_way_;
  std::vector<Sample> spare_;
};

}  // namespace ebt::tier

#endif  // EBBTIDE_SRC_TIER_WAIT_SAMPLER_H_
