#include "src/tier/wait_sampler.h"

namespace ebt::tier {
namespace {

constexpr uint64_t kOneIn = 8;
constexpr size_t kMostUnderWay = 64;

}  // namespace

WaitSampler::~WaitSampler() {
  spare_.insert(spare_.end(), under_way_.begin(), under_way_.end());
  for (const Sample& sample : spare_) {
    driver_.fn_cuEventDestroy_v2(sample.before);
    driver_.fn_cuEventDestroy_v2(sample.after);
  }
}

CUresult WaitSampler::Wait(CUstream stream, CUevent event) {
  Sample sample;
  const bool sampled = waits_++ % kOneIn == 0 && Begin(stream, &sample);
  const CUresult result = driver_.fn_cuStreamWaitEvent(stream, event, 0);
  if (!sampled) return result;
  if (result == CUDA_SUCCESS && driver_.fn_cuEventRecord(sample.after, stream) == CUDA_SUCCESS) {
    under_way_.push_back(sample);
  } else {
    spare_.push_back(sample);
  }
  return result;
}

bool WaitSampler::Begin(CUstream stream, Sample* sample) {
  ReadThoseThatAreOver();
  if (under_way_.size() >= kMostUnderWay) return false;
  if (!spare_.empty()) {
    *sample = spare_.back();
    spare_.pop_back();
  } else {
    if (driver_.fn_cuEventCreate(&sample->before, CU_EVENT_DEFAULT) != CUDA_SUCCESS) return false;
    if (driver_.fn_cuEventCreate(&sample->after, CU_EVENT_DEFAULT) != CUDA_SUCCESS) {
      driver_.fn_cuEventDestroy_v2(sample->before);
      return false;
    }
  }
  if (driver_.fn_cuEventRecord(sample->before, stream) == CUDA_SUCCESS) return true;
  spare_.push_back(*sample);
  return false;
}

void WaitSampler::ReadThoseThatAreOver() {
  while (!under_way_.empty()) {
    const Sample& oldest = under_way_.front();
    const CUresult over = driver_.fn_cuEventQuery(oldest.after);
    if (over == CUDA_ERROR_NOT_READY) return;
    float ms = 0;
    if (over == CUDA_SUCCESS &&
        driver_.fn_cuEventElapsedTime(&ms, oldest.before, oldest.after) == CUDA_SUCCESS) {
      ++measured_;
      measured_ms_ += ms;
    }
    spare_.push_back(oldest);
    under_way_.pop_front();
  }
}

double WaitSampler::Milliseconds() {
  ReadThoseThatAreOver();
  if (measured_ == 0) return 0;
  return measured_ms_ * static_cast<double>(waits_) / static_cast<double>(measured_);
}

}  // namespace ebt::tier
