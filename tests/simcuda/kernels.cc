#include "kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernel_abi.h"

namespace sim {
namespace {

using ebt::kernel::MultiAdam;

template <typename T>
T At(const std::byte* parameters, size_t offset) {
  T value;
  memcpy(&value, parameters + offset, sizeof value);
  return value;
}

float* Floats(uint64_t address) { return reinterpret_cast<float*>(address); }

Span Reads(uint64_t address, uint64_t count) { return {address, 4 * count, true, false}; }
Span Writes(uint64_t address, uint64_t count) { return {address, 4 * count, false, true}; }
Span Updates(uint64_t address, uint64_t count) { return {address, 4 * count, true, true}; }

struct AdamRates {
  float lr, beta1, beta2, eps, bias1, bias2;
};

// Every operation rounds by itself: this file is built with -ffp-contract=off.
void Adam(float* __restrict p, const float* __restrict g, float* __restrict m, float* __restrict v,
          const AdamRates& r, uint64_t n) {
  const float rest1 = 1.0f - r.beta1;
  const float rest2 = 1.0f - r.beta2;
  for (uint64_t i = 0; i < n; ++i) {
    m[i] = r.beta1 * m[i] + rest1 * g[i];
    v[i] = r.beta2 * v[i] + rest2 * (g[i] * g[i]);
    p[i] = p[i] - r.lr * ((m[i] * r.bias1) / (std::sqrt(v[i] * r.bias2) + r.eps));
  }
}

// ebt_fill: p 0, value 8, n 16.
std::vector<Span> FillSpans(const std::byte* a, const Grid& grid) {
  return {Writes(At<uint64_t>(a, 0), std::min(At<uint64_t>(a, 16), grid.Width()))};
}
void RunFill(const std::byte* a, const Grid& grid) {
  std::fill_n(Floats(At<uint64_t>(a, 0)), std::min(At<uint64_t>(a, 16), grid.Width()),
              At<float>(a, 8));
}

// ebt_axpy: y 0, x 8, a 16, n 24.
std::vector<Span> AxpySpans(const std::byte* a, const Grid& grid) {
  const uint64_t n = std::min(At<uint64_t>(a, 24), grid.Width());
  return {Updates(At<uint64_t>(a, 0), n), Reads(At<uint64_t>(a, 8), n)};
}
void RunAxpy(const std::byte* a, const Grid& grid) {
  float* y = Floats(At<uint64_t>(a, 0));
  const float* x = Floats(At<uint64_t>(a, 8));
  const float factor = At<float>(a, 16);
  const uint64_t n = std::min(At<uint64_t>(a, 24), grid.Width());
  for (uint64_t i = 0; i < n; ++i) y[i] = y[i] + factor * x[i];
}

// ebt_mix: out 0, a 8, b 16, n 24.
std::vector<Span> MixSpans(const std::byte* a, const Grid& grid) {
  const uint64_t n = std::min(At<uint64_t>(a, 24), grid.Width());
  return {Writes(At<uint64_t>(a, 0), n), Reads(At<uint64_t>(a, 8), n),
          Reads(At<uint64_t>(a, 16), n)};
}
void RunMix(const std::byte* arguments, const Grid& grid) {
  float* out = Floats(At<uint64_t>(arguments, 0));
  const float* a = Floats(At<uint64_t>(arguments, 8));
  const float* b = Floats(At<uint64_t>(arguments, 16));
  const uint64_t n = std::min(At<uint64_t>(arguments, 24), grid.Width());
  for (uint64_t i = 0; i < n; ++i) out[i] = a[i] * b[i] + 0.5f * b[i];
}

// ebt_adam: p 0, g 8, m 16, v 24, six rates 32, n 56.
std::vector<Span> AdamSpans(const std::byte* a, const Grid& grid) {
  const uint64_t n = std::min(At<uint64_t>(a, 56), grid.Width());
  return {Updates(At<uint64_t>(a, 0), n), Reads(At<uint64_t>(a, 8), n),
          Updates(At<uint64_t>(a, 16), n), Updates(At<uint64_t>(a, 24), n)};
}
void RunAdam(const std::byte* a, const Grid& grid) {
  Adam(Floats(At<uint64_t>(a, 0)), Floats(At<uint64_t>(a, 8)), Floats(At<uint64_t>(a, 16)),
       Floats(At<uint64_t>(a, 24)), At<AdamRates>(a, 32),
       std::min(At<uint64_t>(a, 56), grid.Width()));
}

// ebt_checksum: p 0, n 8, out 16.
std::vector<Span> ChecksumSpans(const std::byte* a, const Grid& grid) {
  return {Reads(At<uint64_t>(a, 0), std::min(At<uint64_t>(a, 8), grid.Width())),
          {At<uint64_t>(a, 16), 8, true, true}};
}
void RunChecksum(const std::byte* a, const Grid& grid) {
  const float* p = Floats(At<uint64_t>(a, 0));
  const uint64_t n = std::min(At<uint64_t>(a, 8), grid.Width());
  uint64_t sum = 0;
  for (uint64_t i = 0; i < n; ++i) {
    uint32_t bits;
    memcpy(&bits, p + i, sizeof bits);
    sum += bits * (i * 0x9E3779B97F4A7C15u | 1);
  }
  *reinterpret_cast<uint64_t*>(At<uint64_t>(a, 16)) += sum;
}

uint32_t TensorsOf(const MultiAdam& list, const Grid& grid) {
  return std::min({list.tensors, grid.blocks[1], uint32_t{ebt::kernel::kMultiAdamTensors}});
}
std::vector<Span> MultiAdamSpans(const std::byte* a, const Grid& grid) {
  const auto list = At<MultiAdam>(a, 0);
  std::vector<Span> spans;
  for (uint32_t t = 0; t < TensorsOf(list, grid); ++t) {
    const uint64_t n = std::min(list.n[t], grid.Width());
    spans.insert(spans.end(), {Updates(list.p[t], n), Reads(list.g[t], n), Updates(list.m[t], n),
                               Updates(list.v[t], n)});
  }
  return spans;
}
void RunMultiAdam(const std::byte* a, const Grid& grid) {
  const auto list = At<MultiAdam>(a, 0);
  const AdamRates rates = {list.lr, list.beta1, list.beta2, list.eps, list.bias1, list.bias2};
  for (uint32_t t = 0; t < TensorsOf(list, grid); ++t) {
    Adam(Floats(list.p[t]), Floats(list.g[t]), Floats(list.m[t]), Floats(list.v[t]), rates,
         std::min(list.n[t], grid.Width()));
  }
}

// ebt_chase: dst 0, table 8, n 16.
uint64_t ChaseCount(const std::byte* a, const Grid& grid) {
  return std::min(At<uint64_t>(a, 16), grid.Width());
}
std::vector<Span> ChaseSpans(const std::byte* a, const Grid& grid) {
  return {Writes(At<uint64_t>(a, 0), ChaseCount(a, grid)), {At<uint64_t>(a, 8), 8, true, false}};
}
uint64_t ChaseSource(const std::byte* a) {
  return *reinterpret_cast<const uint64_t*>(At<uint64_t>(a, 8));
}
std::vector<Span> ChaseReached(const std::byte* a, const Grid& grid) {
  return {Reads(ChaseSource(a), ChaseCount(a, grid))};
}
void RunChase(const std::byte* a, const Grid& grid) {
  std::copy_n(Floats(ChaseSource(a)), ChaseCount(a, grid), Floats(At<uint64_t>(a, 0)));
}

const std::vector<Kernel>& Kernels() {
  // ebt_mix stands for a layer's matrix product: its arithmetic outweighs its traffic.
  constexpr uint64_t kMixPicoseconds = 100;
  static const auto* kernels = new std::vector<Kernel>{
      {"ebt_fill", {{0, 8}, {8, 4}, {16, 8}}, 24, FillSpans, RunFill},
      {"ebt_axpy", {{0, 8}, {8, 8}, {16, 4}, {24, 8}}, 32, AxpySpans, RunAxpy},
      {"ebt_mix", {{0, 8}, {8, 8}, {16, 8}, {24, 8}}, 32, MixSpans, RunMix, kMixPicoseconds},
      {"ebt_adam",
       {{0, 8},
        {8, 8},
        {16, 8},
        {24, 8},
        {32, 4},
        {36, 4},
        {40, 4},
        {44, 4},
        {48, 4},
        {52, 4},
        {56, 8}},
       64,
       AdamSpans,
       RunAdam},
      {"ebt_checksum", {{0, 8}, {8, 8}, {16, 8}}, 24, ChecksumSpans, RunChecksum},
      {"ebt_multi_adam", {{0, sizeof(MultiAdam)}}, sizeof(MultiAdam), MultiAdamSpans, RunMultiAdam},
      {"ebt_chase", {{0, 8}, {8, 8}, {16, 8}}, 24, ChaseSpans, RunChase, 0, ChaseReached},
  };
  return *kernels;
}

}  // namespace

const Kernel* FindKernel(const std::string& name) {
  for (const Kernel& kernel : Kernels()) {
    if (name == kernel.name) return &kernel;
  }
  return nullptr;
}

}  // namespace sim
