// How processes live and die in front of the library: contexts that end and begin again, forks,
// every way of ending, and what is asked of planned memory. Each program must print and return what
// it does natively, under recording and under replay, and what is recorded must be readable.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "src/base/config.h"
#include "src/base/units.h"
#include "src/plan/plan_file.h"
#include "src/profile/reader.h"
#include "tests/preload/run_process.h"

namespace ebt::test {
namespace {

using plan::Slot;
using plan::Tier;
using ::testing::HasSubstr;

const char kDestroyed[] =
    "ebbtide: the context that the plan was kept in is destroyed: the program runs on natively "
    "from here\n";

class LifeTest : public ::testing::Test {
 protected:
  static std::vector<std::string> Argv(const std::string& action) {
    return {Product("tests/preload/life_program"), action};
  }
  Variables Common() const {
    return {{"LD_LIBRARY_PATH", Product("tests/simcuda")}, {"SIMCUDA_DEVICES", "2"}};
  }
  Variables Recording() const {
    Variables variables = Common();
    variables["LD_PRELOAD"] = Product("libebbtide.so");
    variables["EBBTIDE_MODE"] = "record";
    variables["EBBTIDE_PROFILE"] = Profile();
    return variables;
  }
  // The state, 2 MiB of linear memory, is cold; what each step works in, 1 MiB, is not.
  Variables Replaying(const std::vector<std::string>& argv) const {
    plan::Plan plan;
    plan.program = ProgramIdentityOf(argv[0], argv);
    plan.warm_bytes = 2 * kMiB;
    plan.cold_bytes = 2 * kMiB;
    plan.step_launches = 9;
    Slot state, work;
    state.tier = Tier::kCold;
    state.site = 1;
    state.bytes = 2 * kMiB;
    state.offset = 2 * kMiB;
    state.persistent = true;
    state.use = plan::ColdUse::kPrefetch;  // so that there is a thread of ours
    state.fetch_launch = 1;
    state.evict_launch = 8;
    work.site = 2;
    work.bytes = kMiB;
    plan.prologue = {state};
    plan.step = {work};
    EXPECT_TRUE(plan::WritePlan(plan, folder_ + "/plan.json").ok());
    Variables variables = Common();
    variables["LD_PRELOAD"] = Product("libebbtide.so");
    variables["EBBTIDE_MODE"] = "replay";
    variables["EBBTIDE_PLAN"] = folder_ + "/plan.json";
    return variables;
  }
  std::string Profile() const { return folder_ + "/p.ebp"; }

  struct Counted {
    long allocations = 0, frees = 0;
    bool truncated = false;
    bool operator==(const Counted&) const = default;
    friend void PrintTo(const Counted& counted, std::ostream* stream) {
      *stream << counted.allocations << " allocations, " << counted.frees << " frees"
              << (counted.truncated ? ", truncated" : "");
    }
  };
  Counted Recorded() const {
    const auto profile = profile::ReadProfile(Profile());
    EXPECT_TRUE(profile.ok()) << profile.status();
    if (!profile.ok()) return {};
    const auto count = [&](profile::EventKind kind) {
      return static_cast<long>(
          std::count_if(profile->events.begin(), profile->events.end(),
                        [&](const profile::Event& event) { return event.kind == kind; }));
    };
    return {count(profile::EventKind::kAlloc), count(profile::EventKind::kFree),
            profile->truncated};
  }

  // What the program does natively, which must be this.
  void ExpectNatively(const std::string& action, int code, const std::string& out) {
    ASSERT_EQ(RunProcess(Argv(action), Common(), folder_), (Outcome{code, out, ""}));
  }
  void ExpectInEveryMode(const std::string& action, int code, const std::string& out,
                         const std::string& said_in_replay = "") {
    ExpectNatively(action, code, out);
    EXPECT_EQ(RunProcess(Argv(action), Recording(), folder_), (Outcome{code, out, ""}));
    EXPECT_EQ(RunProcess(Argv(action), Replaying(Argv(action)), folder_),
              (Outcome{code, out, said_in_replay}));
  }

  const std::string folder_ = FreshFolder();
};

// Each life is 9 allocations and 9 frees, the last of which may be the context's end.
TEST_F(LifeTest, ALifeAfterTheLastReleaseOfThePrimaryContextIsRight) {
  ExpectInEveryMode("released-once", 0, "19 19\n19 19\n", kDestroyed);
  EXPECT_EQ(Recorded(), (Counted{18, 18}));
}

TEST_F(LifeTest, OnlyTheLastReleaseEndsAnything) {
  ExpectInEveryMode("released-twice", 0, "19 19\n19 19\n19 19\n", kDestroyed);
  EXPECT_EQ(Recorded(), (Counted{18, 18}));
}

TEST_F(LifeTest, ALifeAfterAResetIsRight) {
  ExpectInEveryMode("reset", 0, "19 19\n19 19\n", kDestroyed);
  EXPECT_EQ(Recorded(), (Counted{18, 18}));
}

TEST_F(LifeTest, ALifeInASecondContextIsRight) {
  ExpectInEveryMode("destroyed", 0, "19 19\n19 19\n", kDestroyed);
  EXPECT_EQ(Recorded(), (Counted{18, 18}));
}

TEST_F(LifeTest, TheEndOfAnotherDevicesContextsEndsNothing) {
  ExpectInEveryMode("others-end", 0, "19 19\nrefused 1\n19 19\n");
  EXPECT_EQ(Recorded(), (Counted{9, 9}));
  // The state is read once more at the end, and is freed behind that.
  const auto profile = profile::ReadProfile(Profile());
  ASSERT_TRUE(profile.ok()) << profile.status();
  const auto last = [&](profile::EventKind kind) {
    return std::find_if(profile->events.rbegin(), profile->events.rend(),
                        [&](const profile::Event& event) { return event.kind == kind; });
  };
  EXPECT_LT(last(profile::EventKind::kFree), last(profile::EventKind::kCopy));
}

TEST_F(LifeTest, ChildrenOfEveryKindEndAsNativelyAndTouchNothingOfTheParents) {
  ExpectInEveryMode("forked", 0, "19 19\n7 8 9 134 10 11 7, seen as before 1\n19 19\n19 19\n");
  EXPECT_EQ(Recorded(), (Counted{18, 18}));
}

TEST_F(LifeTest, AChildForkedBeforeTheDriverIsUsedHasAProfileOfItsOwn) {
  const std::string out = "19 19\n12\n19 19\n";
  ExpectNatively("forked-before", 0, out);
  const Outcome recorded = RunProcess(Argv("forked-before"), Recording(), folder_);
  EXPECT_EQ(recorded.code, 0);
  EXPECT_EQ(recorded.out, out);
  int profiles = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    if (entry.path().extension() != ".ebp") continue;
    ++profiles;
    const auto profile = profile::ReadProfile(entry.path());
    ASSERT_TRUE(profile.ok()) << profile.status();
    EXPECT_FALSE(profile->truncated);
    EXPECT_EQ(profile->blocks.size(), 9u);
  }
  EXPECT_EQ(profiles, 2);
  EXPECT_EQ(RunProcess(Argv("forked-before"), Replaying(Argv("forked-before")), folder_),
            (Outcome{0, out, ""}));
}

struct Ending {
  const char* action;
  int code;
  const char* out;
  const char* out_in_replay = nullptr;  // where it is another one
};
void PrintTo(const Ending& ending, std::ostream* stream) { *stream << ending.action; }

class EndingTest : public LifeTest, public ::testing::WithParamInterface<Ending> {};

TEST_P(EndingTest, IsAsNativelyAndLeavesAReadableProfile) {
  const auto& [action, code, out, out_in_replay] = GetParam();
  const auto begin = std::chrono::steady_clock::now();
  ExpectNatively(action, code, out);
  EXPECT_EQ(RunProcess(Argv(action), Recording(), folder_), (Outcome{code, out, ""}));
  EXPECT_EQ(RunProcess(Argv(action), Replaying(Argv(action)), folder_),
            (Outcome{code, out_in_replay ? out_in_replay : out, ""}));
  EXPECT_GE(Recorded().allocations, 9);
  // Nobody waits for what cannot come.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

INSTANTIATE_TEST_SUITE_P(
    EveryWay, EndingTest,
    ::testing::Values(Ending{"in-flight", 3, "19 19\n"}, Ending{"in-flight-end", 4, "19 19\n"},
                      Ending{"from-thread", 5, "19 19\n"}, Ending{"main-thread-ends", 0, "19 19\n"},
                      Ending{"late-destructors", 6, "19 19\n19 19\nlate 0 0\nlate 0 0\nlate 0 0\n"},
                      // A block of ours is freed in a stream's order without the driver.
                      Ending{"driver-gone", 7, "19 19\nlate 4 4\n", "19 19\nlate 4 0\n"}),
    [](const auto& info) {
      std::string name = info.param.action;
      name.erase(std::remove(name.begin(), name.end(), '-'), name.end());
      return name;
    });

TEST_F(LifeTest, PlannedMemoryAnswersEveryQueryAsNatively) {
  const Outcome native = RunProcess(Argv("queries"), Common(), folder_);
  ASSERT_EQ(native.code, 0) << native;
  ASSERT_THAT(native.out, HasSubstr("linear, freed"));
  EXPECT_EQ(RunProcess(Argv("queries"), Recording(), folder_), native);
  // Who asks for SYNC_MEMOPS lets another device reach the block: it stays native in a plan.
  const auto profile = profile::ReadProfile(Profile());
  ASSERT_TRUE(profile.ok()) << profile.status();
  ASSERT_EQ(profile->blocks.size(), 2u);
  EXPECT_TRUE(profile->blocks[0].exported);
  EXPECT_FALSE(profile->blocks[1].exported);
  EXPECT_EQ(RunProcess(Argv("queries"), Replaying(Argv("queries")), folder_), native);
}

TEST_F(LifeTest, APoolThatPlannedBlocksAreFromIsReadAndSetAsNatively) {
  const Outcome native = RunProcess(Argv("pools"), Common(), folder_);
  ASSERT_EQ(native.code, 0) << native;
  ASSERT_THAT(native.out, HasSubstr("reset: used 1048576, high 1048576, reserved covers it 1 1"));
  ASSERT_THAT(native.out, HasSubstr("host 0 0"));
  EXPECT_EQ(RunProcess(Argv("pools"), Recording(), folder_), native);
  EXPECT_EQ(RunProcess(Argv("pools"), Replaying(Argv("pools")), folder_), native);
}

TEST_F(LifeTest, WorkOfNoBytesIsAnsweredAsNatively) {
  const Outcome native = RunProcess(Argv("no-bytes"), Common(), folder_);
  ASSERT_EQ(native.code, 0) << native;
  ASSERT_THAT(native.out, HasSubstr("managed: prefetch 1,"));
  ASSERT_THAT(native.out, HasSubstr("all of it 0\n"));
  EXPECT_EQ(RunProcess(Argv("no-bytes"), Recording(), folder_), native);
  EXPECT_EQ(RunProcess(Argv("no-bytes"), Replaying(Argv("no-bytes")), folder_), native);
}

TEST_F(LifeTest, PlannedMemoryIsExportedInNoWayAndThatIsSaidOnce) {
  // What the recording saw exported stays native in its plan.
  ASSERT_EQ(RunProcess(Argv("exports"), Recording(), folder_),
            (Outcome{0, "0 0 1 1, file 1\n1 801 1 1, file 0\n", ""}));
  const auto profile = profile::ReadProfile(Profile());
  ASSERT_TRUE(profile.ok()) << profile.status();
  ASSERT_EQ(profile->blocks.size(), 2u);
  EXPECT_TRUE(profile->blocks[0].exported);
  // Its export was refused: the program wanted it all the same.
  EXPECT_TRUE(profile->blocks[1].exported);
  const Outcome replayed = RunProcess(Argv("exports"), Replaying(Argv("exports")), folder_);
  EXPECT_EQ(replayed.code, 0);
  EXPECT_EQ(replayed.out, "1 801 1 1, file 0\n1 801 1 1, file 0\n");
  EXPECT_EQ(std::count(replayed.err.begin(), replayed.err.end(), '\n'), 1) << replayed.err;
  EXPECT_THAT(replayed.err, HasSubstr("record the job again"));
}

// Neither a CUDA library nor the runtime, whose failing calls would leave an error behind in the
// application.
TEST(ProductsTest, NeedTheDriverOnlyAtRunTimeAndTheCudaRuntimeNever) {
  for (const char* name : {"libebbtide.so", "libebbtide-core.so"}) {
    const Outcome needed = RunProcess({"readelf", "-d", Product(name)});
    if (needed.code != 0) GTEST_SKIP() << "no readelf here";
    EXPECT_THAT(needed.out, HasSubstr("NEEDED"));
    EXPECT_THAT(needed.out, ::testing::Not(HasSubstr("libcu")));
    const Outcome symbols = RunProcess({"nm", "-D", "--undefined-only", Product(name)});
    EXPECT_EQ(symbols.code, 0);
    EXPECT_THAT(symbols.out, ::testing::Not(::testing::ContainsRegex(" U cu(da)?[A-Z]")));
  }
}

TEST_F(LifeTest, ADriverThatOnlyItsPathLeadsToIsFound) {
  const Outcome python = RunProcess({"python3", "-c", "import sys; print(sys.executable, end='')"});
  if (python.code != 0) GTEST_SKIP() << "no python3 here";
  Variables variables = Recording();
  variables["LD_LIBRARY_PATH"] = "";
  const std::string script =
      "import ctypes\n"
      "cuda = ctypes.CDLL('" +
      Product("tests/simcuda/libcuda.so.1") +
      "')\n"
      "context, block = ctypes.c_void_p(), ctypes.c_uint64()\n"
      "print(cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),\n"
      "      cuda.cuCtxSetCurrent(context),\n"
      "      cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(4096)),\n"
      "      cuda.cuMemFree_v2(block))\n";
  EXPECT_EQ(RunProcess({python.out, "-c", script}, variables, folder_),
            (Outcome{0, "0 0 0 0 0\n", ""}));
  EXPECT_EQ(Recorded(), (Counted{1, 1}));
}

// multiprocessing's ways to start a process, before the parent has used the driver and after.
struct Beginning {
  const char* method;
  const char* when;
};
void PrintTo(const Beginning& start, std::ostream* stream) {
  *stream << start.method << " " << start.when;
}

class MultiprocessingTest : public LifeTest, public ::testing::WithParamInterface<Beginning> {
 protected:
  std::vector<std::string> Script() const {
    return {python_, getenv("LIFE_MULTIPROCESSING"), GetParam().method, GetParam().when};
  }
  void SetUp() override {
    const Outcome python =
        RunProcess({"python3", "-c", "import sys; print(sys.executable, end='')"});
    if (python.code != 0) GTEST_SKIP() << "no python3 here";
    python_ = python.out;
    ASSERT_NE(getenv("LIFE_MULTIPROCESSING"), nullptr);
  }
  std::string python_;
};

TEST_P(MultiprocessingTest, IsAsNativelyAndTheParentsProfileIsWhole) {
  const Outcome native = RunProcess(Script(), Common(), folder_);
  const bool after = GetParam().when == std::string("after");
  // Where the parent has used the driver a forked child must not.
  const bool idle = after && GetParam().method == std::string("fork");
  const std::string children =
      "children [" + std::string(idle ? "21, 21" : "42, 42") + "] [0, 3]\n";
  const std::string parent = "parent right\n";
  ASSERT_EQ(native,
            (Outcome{5, after ? parent + children + parent : children + parent + parent, ""}));
  const Outcome recorded = RunProcess(Script(), Recording(), folder_);
  EXPECT_EQ(recorded.code, native.code) << recorded;
  EXPECT_EQ(recorded.out, native.out);
  int whole = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    if (entry.path().extension() != ".ebp") continue;
    const auto profile = profile::ReadProfile(entry.path());
    ASSERT_TRUE(profile.ok()) << profile.status();
    // The parent's; children have 3 blocks, and those that are forked end without an end.
    whole += profile->blocks.size() == 6 && !profile->truncated;
  }
  EXPECT_EQ(whole, 1);
  const Outcome replayed = RunProcess(Script(), Replaying(Script()), folder_);
  EXPECT_EQ(replayed.code, native.code) << replayed;
  EXPECT_EQ(replayed.out, native.out);
}

INSTANTIATE_TEST_SUITE_P(
    EveryMethod, MultiprocessingTest,
    ::testing::Values(Beginning{"fork", "before"}, Beginning{"fork", "after"},
                      Beginning{"fork", "resolved"}, Beginning{"spawn", "before"},
                      Beginning{"spawn", "after"}, Beginning{"forkserver", "before"},
                      Beginning{"forkserver", "after"}),
    [](const auto& info) { return std::string(info.param.method) + "_" + info.param.when; });

}  // namespace
}  // namespace ebt::test
