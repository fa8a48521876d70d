// The core's C face as the front uses it, on the simulated driver: every function of the table in
// every mode. A process has one core, so each test opens it in a process of its own.
#include "src/runtime/engine.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "src/base/config.h"
#include "src/base/units.h"
#include "src/plan/plan_file.h"
#include "src/profile/reader.h"
#include "tests/unit/simulated_device.h"

extern "C" const ebt_core* ebt_core_open(const ebt_front* front);

namespace ebt::runtime {
namespace {

constexpr uint64_t kStateBytes = kMiB, kWeightBytes = 512 * kKiB, kWorkBytes = 64 * kKiB;
constexpr int kThreads = 4, kRounds = 25;

int* Guard() {
  thread_local int guard = 0;
  return &guard;
}

ebt_front Front() {
  return {EBT_CORE_ABI, sizeof(ebt_front),
          [](const char* name) { return dlsym(RTLD_DEFAULT, name); },
          [](void* handle, const char* name) { return dlsym(handle, name); }, &Guard};
}

// An application behind the front's hooks.
class Application {
 public:
  explicit Application(const ebt_core& core) : core_(core) {
    CUmodule module = nullptr;
    EXPECT_EQ(cuModuleLoadData(&module, ""), CUDA_SUCCESS);
    EXPECT_EQ(cuModuleGetFunction(&fill_, module, "ebt_fill"), CUDA_SUCCESS);
    EXPECT_EQ(cuDeviceGetDefaultMemPool(&pool_, 0), CUDA_SUCCESS);
  }

  CUdeviceptr Allocate(const ebt_alloc& request, bool* served = nullptr) const {
    CUdeviceptr ptr = 0;
    CUresult result = CUDA_SUCCESS;
    const bool by_core = core_.alloc(&request, &ptr, &result) != 0;
    if (served) *served = by_core;
    if (by_core) {
      EXPECT_EQ(result, CUDA_SUCCESS);
      return ptr;
    }
    result = request.kind == EBT_ALLOC_LINEAR ? cuMemAlloc(&ptr, request.bytes)
             : request.kind == EBT_ALLOC_POOL
                 ? cuMemAllocFromPoolAsync(&ptr, request.bytes, request.pool, request.stream)
                 : cuMemAllocAsync(&ptr, request.bytes, request.stream);
    if (result == CUDA_SUCCESS) {
      core_.allocated(&request, ptr);
    } else {
      core_.alloc_failed(&request, result);
    }
    return ptr;
  }

  void Free(CUdeviceptr ptr, CUstream stream, bool ordered) const {
    CUresult result = CUDA_SUCCESS;
    if (!core_.free(ptr, stream, ordered, &result))
      result = ordered ? cuMemFreeAsync(ptr, stream) : cuMemFree(ptr);
    EXPECT_EQ(result, CUDA_SUCCESS);
  }

  void Fill(CUdeviceptr block, CUstream stream) const {
    float value = 1;
    uint64_t count = 64;
    void* parameters[] = {&block, &value, &count};
    const ebt_launch launch{fill_, stream, {1, 1, 1}, {64, 1, 1}, 0, parameters, nullptr};
    core_.launch(&launch);
    EXPECT_EQ(cuLaunchKernel(fill_, 1, 1, 1, 64, 1, 1, 0, stream, parameters, nullptr),
              CUDA_SUCCESS);
  }

  void Clear(CUdeviceptr block, size_t bytes, CUstream stream) const {
    const ebt_copy copy{EBT_COPY_MEMSET, block, 0, bytes, stream, 0};
    core_.copy(&copy);
    EXPECT_EQ(cuMemsetD8Async(block, 0, bytes, stream), CUDA_SUCCESS);
  }

  CUmemoryPool pool() const { return pool_; }

 private:
  const ebt_core& core_;
  CUfunction fill_ = nullptr;
  CUmemoryPool pool_ = nullptr;
};

void Ask(const ebt_core& core, CUmemoryPool pool, CUdeviceptr state, bool served) {
  CUresult result = CUDA_ERROR_UNKNOWN;
  size_t free_bytes = 0, total_bytes = 0, bytes = 0;
  CUdeviceptr base = 0;
  EXPECT_EQ(core.mem_info(&free_bytes, &total_bytes, &result), served);
  EXPECT_LE(free_bytes, total_bytes);
  EXPECT_EQ(core.address_range(&base, &bytes, state + 100, &result), served);
  EXPECT_EQ(base, served ? state : 0);
  EXPECT_EQ(bytes, served ? kStateBytes : 0);
  bytes = 7;
  result = CUDA_SUCCESS;
  EXPECT_EQ(core.pointer_attribute(CU_POINTER_ATTRIBUTE_RANGE_SIZE, &bytes, state + 100, &result),
            served);
  EXPECT_EQ(bytes, served ? kStateBytes : 7);
  const unsigned off = 0;
  EXPECT_EQ(core.pointer_set(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, &off, state, &result), served);
  EXPECT_EQ(result, CUDA_SUCCESS);
  EXPECT_EQ(core.export_block(EBT_EXPORT_POOL_POINTER, state, &result), served);
  EXPECT_EQ(result, served ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
  cuuint64_t value = 0;
  EXPECT_EQ(core.pool_get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value, &result), served);
  EXPECT_EQ(value, served ? kStateBytes + kWeightBytes : 0);
  // The driver's own peak begins anew as well.
  EXPECT_EQ(core.pool_set(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &(value = 0), &result), 0);
  core.pool_trim(pool, 0);
}

// Everything whose object need not exist any more.
void LiveAndDie(const ebt_core& core, CUmemoryPool pool, CUcontext context, CUdeviceptr block,
                CUstream stream) {
  const CUmemPoolProps properties{.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
  const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0},
                               CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  const CUresult exported = CUDA_SUCCESS;
  CUmemoryPool another = nullptr;
  EXPECT_EQ(cuMemPoolCreate(&another, &properties), CUDA_SUCCESS);
  core.lifecycle(EBT_POOL_CREATE, another, &properties);
  core.lifecycle(EBT_POOL_DESTROY, another, nullptr);
  EXPECT_EQ(cuMemPoolDestroy(another), CUDA_SUCCESS);
  core.lifecycle(EBT_POOL_ACCESS, pool, &access);
  core.lifecycle(EBT_PEER_CONTEXT, context, nullptr);
  core.lifecycle(EBT_BLOCK_EXPORTED, reinterpret_cast<void*>(block), &exported);
  core.lifecycle(EBT_CAPTURE_BEGIN, stream, nullptr);
  core.lifecycle(EBT_CAPTURE_END, stream, nullptr);
  int graph = 0;
  core.lifecycle(EBT_GRAPH_LAUNCH, &graph, stream);
  core.mark(EBT_MARK_STEP, nullptr);
  core.mark(EBT_MARK_PHASE, "forward");
}

void UseFromManyThreads(const ebt_core& core, const Application& application, CUcontext context) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
      CUstream stream = nullptr;
      EXPECT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
      for (int round = 0; round < kRounds; ++round) {
        const CUdeviceptr block =
            application.Allocate({EBT_ALLOC_ASYNC, kWorkBytes, stream, nullptr});
        application.Fill(block, stream);
        application.Free(block, stream, true);
        ebbtide_statistics statistics;
        EXPECT_EQ(core.statistics(&statistics, sizeof(statistics)), 0);
      }
      EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
      core.lifecycle(EBT_STREAM_DESTROY, stream, nullptr);
      EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// The child must not write a byte of the parent's profile, nor wait for its threads.
void ForkOff(const ebt_core& core) {
  const pid_t child = fork();
  if (child == 0) {
    core.forked();
    core.mark(EBT_MARK_STEP, nullptr);
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

// Every function of the table. replayed: the plan of PutPlan is kept to.
void UseEverything(const ebt_core& core, CUcontext context, bool replayed) {
  ASSERT_EQ(core.abi, static_cast<uint32_t>(EBT_CORE_ABI));
  ASSERT_EQ(core.size, sizeof(ebt_core));
  ASSERT_EQ(core.active, 1);
  const Application application(core);
  CUstream stream = nullptr;
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  bool served = false;
  const CUdeviceptr state =
      application.Allocate({EBT_ALLOC_ASYNC, kStateBytes, stream, nullptr}, &served);
  EXPECT_EQ(served, replayed);
  const CUdeviceptr weight =
      application.Allocate({EBT_ALLOC_POOL, kWeightBytes, stream, application.pool()}, &served);
  EXPECT_EQ(served, replayed);
  // Linear memory that no plan knows is the driver's, and so is its refusal.
  const CUdeviceptr work =
      application.Allocate({EBT_ALLOC_LINEAR, kWorkBytes, nullptr, nullptr}, &served);
  EXPECT_FALSE(served);
  EXPECT_EQ(application.Allocate({EBT_ALLOC_LINEAR, uint64_t{1} << 45, nullptr, nullptr}), 0u);
  application.Clear(state, kStateBytes, stream);
  application.Fill(weight, stream);
  Ask(core, application.pool(), state, replayed);
  LiveAndDie(core, application.pool(), context, work, stream);
  UseFromManyThreads(core, application, context);
  ForkOff(core);
  ebbtide_statistics statistics{};
  EXPECT_EQ(core.statistics(&statistics, sizeof(statistics)), 0);
  EXPECT_EQ(statistics.allocations_planned, replayed ? 2u : 0u);
  uint64_t first_field = 0;  // of a younger core's caller: no byte behind it is touched
  EXPECT_EQ(core.statistics(&first_field, sizeof(first_field)), 0);
  EXPECT_EQ(first_field, statistics.allocations_seen);
  application.Free(state, stream, true);
  application.Free(weight, stream, true);
  application.Free(work, nullptr, false);
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  core.lifecycle(EBT_CONTEXT_DESTROY, context, nullptr);
  core.lifecycle(EBT_PRIMARY_RESET, nullptr, nullptr);
}

class EngineTest : public test::SimulatedDevice {
 protected:
  EngineTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  // The same in the test and in its child.
  static std::string Path(const char* suffix) {
    return testing::TempDir() + "ebt_engine_test_" +
           testing::UnitTest::GetInstance()->current_test_info()->name() + suffix;
  }

  static const ebt_core* Open(const char* mode) {
    setenv("EBBTIDE_MODE", mode, 1);
    setenv("EBBTIDE_PROFILE", Path(".ebp").c_str(), 1);
    setenv("EBBTIDE_PLAN", Path(".json").c_str(), 1);
    const ebt_front front = Front();
    return ebt_core_open(&front);
  }

  // At exit what is recorded is written. A child's failures are reported by nobody else.
  [[noreturn]] static void Exit() {
    const testing::TestResult& result =
        *testing::UnitTest::GetInstance()->current_test_info()->result();
    for (int i = 0; i < result.total_part_count(); ++i) {
      const testing::TestPartResult& part = result.GetTestPartResult(i);
      if (part.failed()) fprintf(stderr, "line %d: %s\n", part.line_number(), part.message());
    }
    exit(result.Failed() ? 1 : 0);
  }

  [[noreturn]] static void UseAndExit(const char* mode, CUcontext context) {
    const ebt_core* core = Open(mode);
    EXPECT_NE(core, nullptr);
    if (core) UseEverything(*core, context, std::string(mode) == "replay");
    Exit();
  }
  [[noreturn]] static void ExpectNothingAndExit(const char* mode) {
    EXPECT_EQ(Open(mode), nullptr);
    Exit();
  }

  // The state is cold, the weight warm; no fingerprints, so order and size decide.
  static void PutPlan(const std::string& program) {
    plan::Plan plan;
    plan.program = program;
    plan.warm_bytes = 2 * kMiB;
    plan.cold_bytes = 2 * kMiB;
    plan.planned_peak_bytes = 2 * kMiB;
    plan.step_launches = 1;
    plan.prologue = {{.site = 1,
                      .bytes = kStateBytes,
                      .tier = plan::Tier::kCold,
                      .offset = 2 * kMiB,
                      .persistent = true}};
    plan.step = {{.site = 2, .bytes = kWeightBytes}};
    ASSERT_TRUE(plan::WritePlan(plan, Path(".json")).ok());
  }
};

// One allocation is refused.
const char kRefusedFile[] = ".oom-1.json";
const char kRefusedLine[] =
    "ebbtide: engine_test asked for [^\n]*\\.oom-1\\.json says what filled the memory\n";

TEST_F(EngineTest, OffThereIsNoCore) {
  EXPECT_EXIT(ExpectNothingAndExit("off"), testing::ExitedWithCode(0), testing::Eq(""));
}

TEST_F(EngineTest, FrontOfAnotherVersionGetsNone) {
  ebt_front front = Front();
  front.abi = EBT_CORE_ABI + 1;
  EXPECT_EQ(ebt_core_open(&front), nullptr);
}

TEST_F(EngineTest, DriverThatLacksAFunctionIsNamed) {
  const auto open = [] {
    setenv("EBBTIDE_MODE", "record", 1);
    ebt_front front = Front();
    front.real = [](const char*) -> void* { return nullptr; };
    EXPECT_EQ(ebt_core_open(&front), nullptr);
    Exit();
  };
  EXPECT_EXIT(open(), testing::ExitedWithCode(0),
              testing::HasSubstr("the CUDA driver lacks cuDriverGetVersion"));
}

TEST_F(EngineTest, RecordServesNothingAndWritesWhatItSaw) {
  unlink(Path(".ebp").c_str());
  unlink(Path(kRefusedFile).c_str());
  EXPECT_EXIT(UseAndExit("record", context_), testing::ExitedWithCode(0),
              testing::MatchesRegex(kRefusedLine));
  const auto profile = profile::ReadProfile(Path(".ebp"));
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_FALSE(profile->truncated);
  const auto count = [&](profile::EventKind kind) {
    return std::count_if(profile->events.begin(), profile->events.end(),
                         [&](const profile::Event& event) { return event.kind == kind; });
  };
  constexpr int kOfThreads = kThreads * kRounds;
  EXPECT_EQ(count(profile::EventKind::kAlloc), 3 + kOfThreads);
  EXPECT_EQ(count(profile::EventKind::kFree), 3 + kOfThreads);
  EXPECT_EQ(count(profile::EventKind::kLaunch), 1 + kOfThreads);
  EXPECT_EQ(count(profile::EventKind::kCopy), 1);
  EXPECT_EQ(count(profile::EventKind::kFailed), 1);
  EXPECT_EQ(count(profile::EventKind::kGraph), 1);
  EXPECT_EQ(count(profile::EventKind::kStep), 1) << "the child's is not among them";
  EXPECT_EQ(count(profile::EventKind::kPhase), 1);
  const auto exported = std::count_if(profile->blocks.begin(), profile->blocks.end(),
                                      [](const profile::Block& block) { return block.exported; });
  EXPECT_EQ(exported, 1);
  unlink(Path(".ebp").c_str());
  EXPECT_EQ(unlink(Path(kRefusedFile).c_str()), 0);
}

TEST_F(EngineTest, ReplayServesWhatThePlanKnows) {
  PutPlan(ProgramIdentity());
  unlink(Path(kRefusedFile).c_str());
  EXPECT_EXIT(UseAndExit("replay", context_), testing::ExitedWithCode(0),
              testing::MatchesRegex(kRefusedLine));
  EXPECT_EQ(unlink(Path(kRefusedFile).c_str()), 0);
}

TEST_F(EngineTest, ReplayWithAnotherProgramsPlanSaysSoInOneLine) {
  PutPlan("another[11]");
  EXPECT_EXIT(ExpectNothingAndExit("replay"), testing::ExitedWithCode(0),
              testing::MatchesRegex("ebbtide: .*: is the plan of another.11., and this is "
                                    "engine_test.*: the program runs natively\n"));
}

TEST_F(EngineTest, ReplayWithoutAPlanSaysWhereToGetOne) {
  const auto open = [] {
    setenv("EBBTIDE_MODE", "replay", 1);
    unsetenv("EBBTIDE_PLAN");
    const ebt_front front = Front();
    EXPECT_EQ(ebt_core_open(&front), nullptr);
    Exit();
  };
  EXPECT_EXIT(open(), testing::ExitedWithCode(0),
              testing::MatchesRegex("ebbtide: .*EBBTIDE_PLAN .*ebbtide plan.*\n"));
}

// Not in a child: nothing is recorded, so nothing is written at exit.
class PrimaryEndTest : public EngineTest {
 protected:
  PrimaryEndTest() {
    setenv("EBBTIDE_MODE", "record", 1);
    setenv("EBBTIDE_PROFILE", Path(".ebp").c_str(), 1);
    // An engine is never destroyed, and a pointer has to lead to it to the end.
    static auto* const engines = new std::vector<runtime::Engine*>;
    engine_ = engines->emplace_back(runtime::Engine::Open(Front()));
  }
  ~PrimaryEndTest() override {
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  }
  // What of the device's context has ended, as the engine knows it.
  CUcontext Release() {
    engine_->ReleasingPrimary(0);
    cuDevicePrimaryCtxRelease(0);
    return engine_->PrimaryThatEnded(0);
  }

  runtime::Engine* engine_ = nullptr;
};

TEST_F(PrimaryEndTest, IsTheLastRelease) {
  CUcontext again = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&again, 0), CUDA_SUCCESS);
  EXPECT_EQ(Release(), nullptr);
  EXPECT_EQ(Release(), context_);
  EXPECT_EQ(Release(), nullptr);
}

TEST_F(PrimaryEndTest, IsNotTakenForThatOfALaterReleaseWhichEndedNothing) {
  CUcontext again = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&again, 0), CUDA_SUCCESS);
  EXPECT_EQ(Release(), nullptr);
  // It ends in another way, of which its own end is told.
  ASSERT_EQ(cuDevicePrimaryCtxReset(0), CUDA_SUCCESS);
  ASSERT_EQ(engine_->Primary(0), nullptr);
  EXPECT_EQ(Release(), nullptr);
}

TEST_F(EngineTest, ProfileThatCannotBeWrittenLeavesTheProgramAlone) {
  const auto use = [this] {
    setenv("EBBTIDE_MODE", "record", 1);
    setenv("EBBTIDE_PROFILE", "/nonexistent/p.ebp", 1);
    const ebt_front front = Front();
    const ebt_core* core = ebt_core_open(&front);
    EXPECT_NE(core, nullptr);
    if (core) UseEverything(*core, context_, false);
    Exit();
  };
  EXPECT_EXIT(use(), testing::ExitedWithCode(0),
              testing::MatchesRegex("ebbtide: /nonexistent/p.ebp: .*: nothing is recorded\n"));
}

}  // namespace
}  // namespace ebt::runtime
