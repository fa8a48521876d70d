#include "src/tier/right_of_way.h"

namespace ebt::tier {

RightOfWay::~RightOfWay() {
  for (const Copy& copy : copies_)
    for (CUevent event : {copy.before, copy.behind})
      if (event) driver_.fn_cuEventDestroy_v2(event);
}

size_t RightOfWay::Begin(CUstream stream) {
  MutexLock lock(&mutex_);
  for (size_t i = 0; i < copies_.size(); ++i) {
    Copy& copy = copies_[i];
    if (copy.state != State::kFree) continue;
    for (CUevent* event : {&copy.before, &copy.behind})
      if (!*event && driver_.fn_cuEventCreate(event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        return kNone;
    if (driver_.fn_cuEventRecord(copy.before, stream) != CUDA_SUCCESS) return kNone;
    copy.state = State::kCalling;
    return i;
  }
  return kNone;
}

void RightOfWay::End(size_t index, CUstream stream) {
  if (index == kNone) return;
  MutexLock lock(&mutex_);
  Copy& copy = copies_[index];
  const bool known = driver_.fn_cuEventRecord(copy.behind, stream) == CUDA_SUCCESS;
  copy.state = known ? State::kQueued : State::kFree;
}

bool RightOfWay::IsDue(Copy& copy) {
  if (copy.state == State::kFree) return false;
  // An error says nothing about the copy and must not hold anybody up for good.
  if (copy.state == State::kQueued &&
      driver_.fn_cuEventQuery(copy.behind) != CUDA_ERROR_NOT_READY) {
    copy.state = State::kFree;
    return false;
  }
  return driver_.fn_cuEventQuery(copy.before) == CUDA_SUCCESS;
}

bool RightOfWay::Due() {
  MutexLock lock(&mutex_);
  bool due = false;
  for (Copy& copy : copies_) due |= IsDue(copy);
  return due;
}

}  // namespace ebt::tier
