// Which context is current is the application's business.
#ifndef EBBTIDE_SRC_DRIVER_CURRENT_CONTEXT_H_
#define EBBTIDE_SRC_DRIVER_CURRENT_CONTEXT_H_

#include <cuda.h>

#include "src/driver/driver_api.h"

namespace ebt {

// Remembers the calling thread's context and makes it current again at its end, whatever was set
// meanwhile.
class CurrentContext {
 public:
  explicit CurrentContext(const DriverApi& driver) : driver_(driver) {
    for (int i = 0; i < kTries && !known_; ++i)
      known_ = driver_.fn_cuCtxGetCurrent(&context_) == CUDA_SUCCESS;
  }
  // The same, and makes `context` current until then. Not where the driver does not say which one
  // is: it could not be put back.
  CurrentContext(const DriverApi& driver, CUcontext context) : CurrentContext(driver) {
    if (!known_) {
      result_ = CUDA_ERROR_INVALID_CONTEXT;
    } else if (context != context_) {
      result_ = driver_.fn_cuCtxSetCurrent(context);
    }
  }
  ~CurrentContext() {
    for (int i = 0; i < kTries && known_; ++i)
      known_ = driver_.fn_cuCtxSetCurrent(context_) != CUDA_SUCCESS;
  }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

  // The one that is remembered. NULL: none, or the driver would not say.
  CUcontext context() const { return context_; }
  // Of making another one current.
  CUresult result() const { return result_; }

 private:
  static constexpr int kTries = 3;

  const DriverApi& driver_;
  CUcontext context_ = nullptr;
  bool known_ = false;  // and to be set again
  CUresult result_ = CUDA_SUCCESS;
};

}  // namespace ebt

#endif  // EBBTIDE_SRC_DRIVER_CURRENT_CONTEXT_H_
