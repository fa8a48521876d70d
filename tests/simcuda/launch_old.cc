// Launches of the interface before CUDA 4: the parameters are state of the function.
#include <cstring>
#include <map>
#include <vector>

#include "api.h"
#include "state.h"

namespace sim {
namespace {

struct Prepared {
  std::vector<std::byte> parameters;
  unsigned block[3] = {1, 1, 1};
};

std::map<CUfunction, Prepared>& Functions() {
  static auto* functions = new std::map<CUfunction, Prepared>();
  return *functions;
}

constexpr size_t kMostBytes = 32764;  // of parameters

CUresult Put(CUfunction function, int offset, const void* data, size_t bytes) {
  if (function == nullptr || data == nullptr || offset < 0) return CUDA_ERROR_INVALID_VALUE;
  if (static_cast<size_t>(offset) + bytes > kMostBytes) return CUDA_ERROR_INVALID_VALUE;
  std::vector<std::byte>& all = Functions()[function].parameters;
  const auto at = static_cast<size_t>(offset);
  if (all.size() < at + bytes) all.resize(at + bytes);
  memcpy(all.data() + at, data, bytes);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult FuncSetBlockShape(CUfunction function, int x, int y, int z) {
  unsigned* block = Functions()[function].block;
  block[0] = static_cast<unsigned>(x);
  block[1] = static_cast<unsigned>(y);
  block[2] = static_cast<unsigned>(z);
  return CUDA_SUCCESS;
}
CUresult ParamSetSize(CUfunction function, unsigned int bytes) {
  Functions()[function].parameters.resize(bytes);
  return CUDA_SUCCESS;
}
CUresult ParamSeti(CUfunction function, int offset, unsigned int value) {
  return Put(function, offset, &value, sizeof value);
}
CUresult ParamSetf(CUfunction function, int offset, float value) {
  return Put(function, offset, &value, sizeof value);
}
CUresult ParamSetv(CUfunction function, int offset, void* data, unsigned int bytes) {
  return Put(function, offset, data, bytes);
}

CUresult LaunchGridAsync(CUfunction function, int width, int height, CUstream stream) {
  Prepared& prepared = Functions()[function];
  size_t bytes = prepared.parameters.size();
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, prepared.parameters.data(),
                   CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  return LaunchKernel(function, static_cast<unsigned>(width), static_cast<unsigned>(height), 1,
                      prepared.block[0], prepared.block[1], prepared.block[2], 0, stream, nullptr,
                      extra);
}
CUresult LaunchGrid(CUfunction function, int width, int height) {
  return LaunchGridAsync(function, width, height, nullptr);
}
CUresult LaunchOnce(CUfunction function) { return LaunchGrid(function, 1, 1); }

}  // namespace sim
