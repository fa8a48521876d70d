// Parameters of the kernels that the simulated driver computes, shared with the demo trainer
// whose PTX runs the same arithmetic on a GPU. Only IEEE add, multiply, divide and square root,
// each rounded to nearest and never fused, so that both give the same bits.
//
//   ebt_fill    (float* p, float value, uint64 n)                    p[i] = value
//   ebt_axpy    (float* y, const float* x, float a, uint64 n)        y[i] = y[i] + a * x[i]
//   ebt_mix     (float* out, const float* a, const float* b, uint64 n)
//                                                       out[i] = a[i] * b[i] + 0.5 * b[i]
//   ebt_adam    (float* p, const float* g, float* m, float* v, float lr, float beta1, float beta2,
//                float eps, float bias1, float bias2, uint64 n)
//                 m = beta1 * m + (1 - beta1) * g;  v = beta2 * v + (1 - beta2) * (g * g)
//                 p = p - lr * ((m * bias1) / (sqrt(v * bias2) + eps))
//   ebt_checksum(const float* p, uint64 n, uint64* out)
//                 *out += sum of bits(p[i]) * ((i * 0x9E3779B97F4A7C15) | 1), modulo 2^64
//   ebt_chase   (float* dst, const float* const* table, uint64 n)     dst[i] = table[0][i]
//   ebt_multi_adam(MultiAdam)  ebt_adam on tensor blockIdx.y of the list
//
// Thread blockIdx.x * blockDim.x + threadIdx.x computes element i; elements beyond the grid stay.
#ifndef EBBTIDE_TESTS_SIMCUDA_KERNEL_ABI_H_
#define EBBTIDE_TESTS_SIMCUDA_KERNEL_ABI_H_

#include <stdint.h>

namespace ebt::kernel {

inline constexpr int kMultiAdamTensors = 48;

// Passed by value as one parameter, the way multi-tensor kernels of frameworks are called.
struct MultiAdam {
  uint64_t p[kMultiAdamTensors];
  uint64_t g[kMultiAdamTensors];
  uint64_t m[kMultiAdamTensors];
  uint64_t v[kMultiAdamTensors];
  uint64_t n[kMultiAdamTensors];
  float lr, beta1, beta2, eps, bias1, bias2;
  uint32_t tensors;
  uint32_t unused;
};
static_assert(sizeof(MultiAdam) == 1952, "the PTX names these offsets");

}  // namespace ebt::kernel

#endif  // EBBTIDE_TESTS_SIMCUDA_KERNEL_ABI_H_
