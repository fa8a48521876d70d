// What a capture costs. The bound is loose enough for a sanitizer on a busy machine; the printed
// numbers are what one looks at.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdio>

#include "src/callsite/callsite.h"
#include "src/callsite/native_stack.h"

namespace ebt::callsite {
namespace {

constexpr int kDepth = 40;
constexpr int kRounds = 20000;

template <typename Call>
double NanosecondsEach(Call call) {
  for (int i = 0; i < 100; ++i) call();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kRounds; ++i) call();
  const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - begin;
  return spent.count() / kRounds;
}

template <typename Call>
[[gnu::noinline]] double AtDepth(int depth, Call call) {
  const double cost = depth == 0 ? NanosecondsEach(call) : AtDepth(depth - 1, call);
  asm volatile("");  // no tail call: every level must have a frame
  return cost;
}

TEST(CallSiteCost, ARepeatedCaptureCostsLittleMoreThanTheUnwinding) {
  Initialize(&dlsym);
  uint64_t id = 0;
  const double capture = AtDepth(kDepth, [&id] { id = Capture(); });
  std::array<void*, 80> pcs;
  int frames = 0;
  const double unwind = AtDepth(kDepth, [&] { frames = UnwindHere(pcs); });
  const double fingerprint = AtDepth(kDepth, [] { Fingerprint(); });
  std::printf(
      "%d native frames: capture %.0f ns, of which unwinding %.0f ns; fingerprint without "
      "Python %.1f ns\n",
      frames, capture, unwind, fingerprint);
  EXPECT_GE(frames, kDepth);
  EXPECT_NE(id, 0u);
  EXPECT_LT(capture, 1e6);
}

}  // namespace
}  // namespace ebt::callsite
