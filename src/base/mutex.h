// std::mutex with abseil's thread annotations. Not absl::Mutex: distributions build abseil
// without ThreadSanitizer, which then sees none of its locking.
#ifndef EBBTIDE_SRC_BASE_MUTEX_H_
#define EBBTIDE_SRC_BASE_MUTEX_H_

#include <mutex>

#include "absl/base/thread_annotations.h"

namespace ebt {

// Waiting on it goes through std::condition_variable_any.
class ABSL_LOCKABLE Mutex {
 public:
  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_->lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_->unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mutex_;
};

}  // namespace ebt

#endif  // EBBTIDE_SRC_BASE_MUTEX_H_
