// The core's C face while the process has no memory: nothing is thrown into the application, and
// its calls go on as they would without us.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <new>
#include <string>

#include "src/base/config.h"
#include "src/base/units.h"
#include "src/plan/plan_file.h"
#include "src/runtime/engine.h"
#include "tests/unit/simulated_device.h"

extern "C" const ebt_core* ebt_core_open(const ebt_front* front);

namespace {
thread_local bool t_no_memory = false;
}  // namespace

void* operator new(size_t bytes) {
  void* memory = t_no_memory ? nullptr : malloc(bytes == 0 ? 1 : bytes);
  if (!memory) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { free(memory); }
void operator delete(void* memory, size_t) noexcept { free(memory); }

namespace ebt::runtime {
namespace {

constexpr uint64_t kBytes = kMiB;

int* Guard() {
  thread_local int guard = 0;
  return &guard;
}

class EngineMemoryTest : public test::SimulatedDevice {
 protected:
  EngineMemoryTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  static std::string Path(const char* suffix) {
    return testing::TempDir() + "ebt_engine_memory_test_" +
           testing::UnitTest::GetInstance()->current_test_info()->name() + suffix;
  }
  static const ebt_core* Open(const char* mode) {
    plan::Plan plan;
    plan.program = ProgramIdentity();
    plan.warm_bytes = 2 * kMiB;
    plan.planned_peak_bytes = 2 * kMiB;
    plan.step_launches = 1;
    plan.step = {{.site = 2, .bytes = kBytes}};
    EXPECT_TRUE(plan::WritePlan(plan, Path(".json")).ok());
    setenv("EBBTIDE_MODE", mode, 1);
    setenv("EBBTIDE_PLAN", Path(".json").c_str(), 1);
    setenv("EBBTIDE_PROFILE", Path(".ebp").c_str(), 1);
    ebt_front front{};
    front.abi = EBT_CORE_ABI;
    front.size = sizeof(front);
    front.real = [](const char* name) { return dlsym(RTLD_DEFAULT, name); };
    front.libc_dlsym = [](void* handle, const char* name) { return dlsym(handle, name); };
    front.guard = &Guard;
    return ebt_core_open(&front);
  }
  // Everything that an application may call, without memory. Ends the process, with the number of
  // the first thing that is wrong.
  [[noreturn]] static void UseWithoutMemory(const char* mode, bool served) {
    const ebt_core* core = Open(mode);
    if (!core) _exit(1);
    const ebt_alloc request = {EBT_ALLOC_ASYNC, kBytes, nullptr, nullptr};
    CUdeviceptr block = 0;
    CUresult result = CUDA_ERROR_UNKNOWN;
    if ((core->alloc(&request, &block, &result) != 0) != served) _exit(2);
    if (!served && cuMemAllocAsync(&block, kBytes, nullptr) != CUDA_SUCCESS) _exit(3);
    if (!served) core->allocated(&request, block);
    t_no_memory = true;
    // New blocks are the driver's from the first refusal on, and all are reported.
    for (int i = 0; i < 100; ++i) {
      CUdeviceptr next = 0;
      if (core->alloc(&request, &next, &result) != 0 && result != CUDA_SUCCESS) _exit(4);
      if (next == 0) core->allocated(&request, next = 0x1000 + static_cast<CUdeviceptr>(i));
      core->alloc_failed(&request, CUDA_ERROR_OUT_OF_MEMORY);
    }
    uint64_t word = block;
    void* params[] = {&word};
    const ebt_launch launch{&word, nullptr, {1, 1, 1}, {1, 1, 1}, 0, params, nullptr};
    const ebt_copy copy{EBT_COPY_MEMSET, block, 0, 8, nullptr, 0, 8, 0};
    for (int i = 0; i < 100; ++i) {
      if (core->launch(&launch) != 0) core->touched();
      if (core->copy(&copy) != 0) core->touched();
    }
    size_t free_bytes = 0, total_bytes = 0;
    core->mem_info(&free_bytes, &total_bytes, &result);
    core->address_range(nullptr, nullptr, block, &result);
    result = CUDA_SUCCESS;
    core->pointer_attribute(CU_POINTER_ATTRIBUTE_RANGE_SIZE, &total_bytes, block, &result);
    core->export_block(EBT_EXPORT_IPC, block, &result);
    core->pool_trim(nullptr, 0);
    core->lifecycle(EBT_STREAM_DESTROY, &word, nullptr);
    core->lifecycle(EBT_CAPTURE_BEGIN, &word, nullptr);
    core->lifecycle(EBT_CAPTURE_END, &word, nullptr);
    core->mark(EBT_MARK_PHASE, "a phase whose name is too long to be kept without memory");
    const bool by_core = core->free(block, nullptr, 1, &result) != 0;
    if (by_core != served || (served && result != CUDA_SUCCESS)) _exit(5);
    t_no_memory = false;
    _exit(0);
  }
};

TEST_F(EngineMemoryTest, NothingIsThrownWhileAPlanIsKeptTo) {
  EXPECT_EXIT(UseWithoutMemory("replay", true), testing::ExitedWithCode(0),
              testing::AnyOf(testing::Eq(""), testing::HasSubstr("ebbtide: ")));
}

TEST_F(EngineMemoryTest, NothingIsThrownWhileRecordingAndItEndsWithOneLine) {
  EXPECT_EXIT(UseWithoutMemory("record", false), testing::ExitedWithCode(0),
              testing::ContainsRegex("ebbtide: "));
}

}  // namespace
}  // namespace ebt::runtime
