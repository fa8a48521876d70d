#include "src/tier/right_of_way.h"

namespace ebt::tier {

RightOfWay::~RightOfWay() {
  for (const Copy& copy : copies_)
    for (CUevent event : {copy.before, copy.behind})
      if (event) driver_.fn_cuEventDestroy_v2(event);
}

size_t RightOfWay::Take() {
  MutexLock lock(&mutex_);
  for (size_t i = 0; i < copies_.size(); ++i) {
    if (copies_[i].state != State::kFree) continue;
    copies_[i].state = State::kTaken;
    return i;
  }
  return kNone;
}

bool RightOfWay::Mark(Copy& copy, CUstream stream) {
  for (CUevent* event : {&copy.before, &copy.behind})
    if (!*event && driver_.fn_cuEventCreate(event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
      return false;
  return driver_.fn_cuEventRecord(copy.before, stream) == CUDA_SUCCESS;
}

size_t RightOfWay::Begin(CUstream stream) {
  const size_t index = Take();
  if (index == kNone) return kNone;
  const bool known = Mark(copies_[index], stream);
  MutexLock lock(&mutex_);
  copies_[index].state = known ? State::kCalling : State::kFree;
  return known ? index : kNone;
}

void RightOfWay::End(size_t index, CUstream stream, bool done) {
  if (index == kNone) return;
  Copy& copy = copies_[index];
  const bool queued = !done && driver_.fn_cuEventRecord(copy.behind, stream) == CUDA_SUCCESS;
  MutexLock lock(&mutex_);
  copy.state = queued ? State::kQueued : State::kFree;
}

bool RightOfWay::IsDue(Copy& copy) {
  if (copy.state == State::kFree || copy.state == State::kTaken) return false;
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
