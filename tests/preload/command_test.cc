// The command from outside: what it passes on, and its exit codes.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>

#include "src/base/config.h"
#include "tests/preload/run_process.h"

namespace ebt::test {
namespace {

// On a machine that has a driver, unless `variables` say otherwise.
Outcome Ebbtide(std::vector<std::string> words, Variables variables = {}) {
  words.insert(words.begin(), Product("ebbtide"));
  variables.emplace("LD_LIBRARY_PATH", Product("tests/simcuda"));
  return RunProcess(words, variables, FreshFolder());
}

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Command, ExitCodeOfCmdIsPassedOn) {
  EXPECT_EQ(Ebbtide({"record", "--", "bash", "-c", "exit 7"}).code, 7);
  EXPECT_EQ(Ebbtide({"record", "--", "true"}).code, 0);
}

TEST(Command, CmdKilledByASignalIs128AndTheSignal) {
  EXPECT_EQ(Ebbtide({"record", "--", "bash", "-c", "kill -KILL $$"}).code, 137);
}

TEST(Command, CmdThatIsNotThereIs127) {
  const Outcome outcome = Ebbtide({"record", "--", "no-such-program"});
  EXPECT_EQ(outcome.code, 127);
  EXPECT_EQ(outcome.err,
            "ebbtide: no-such-program: not found; give a path, or a name that PATH leads to\n");
}

TEST(Command, CmdThatIsNoProgramIs126) {
  EXPECT_EQ(Ebbtide({"record", "--", "/etc/passwd"}).code, 126);
}

TEST(Command, BadCommandLinesAre2AndOneLine) {
  const std::vector<std::vector<std::string>> bad = {
      {},
      {"frobnicate"},
      {"record", "--steps"},
      {"record", "--steps", "0", "--", "true"},
      {"record"},
      {"record", "--"},
      {"record", "true"},
      {"plan"},
      {"plan", "x.ebp", "--budget", "lots"},
      {"run", "--cold", "freezing", "--plan", "x", "--", "true"},
  };
  for (const auto& words : bad) {
    const Outcome outcome = Ebbtide(words);
    EXPECT_EQ(outcome.code, 2) << testing::PrintToString(words);
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_EQ(outcome.err.rfind("ebbtide: ", 0), 0u) << outcome.err;
  }
}

TEST(Command, RunWithoutAPlanSaysWhatToDoAndIs2) {
  const Outcome outcome = Ebbtide({"run", "--", "echo", "started"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(Contains(outcome.err, "needs a plan")) << outcome.err;
}

TEST(Command, EverythingBehindTheFirstDashesBelongsToCmd) {
  const Outcome outcome =
      Ebbtide({"record", "--", "bash", "-c", "echo \"$@\"", "x", "--", "-o", "--steps", "--help"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out, "-- -o --steps --help\n");
}

TEST(Command, StandardInputAndOutputAreThoseOfCmd) {
  const Outcome outcome = Ebbtide({"record", "--", "bash", "-c", "cat; echo out; echo err >&2"});
  EXPECT_EQ(outcome.out, "out\n");
  EXPECT_EQ(outcome.err.rfind("err\n", 0), 0u) << outcome.err;
}

TEST(Command, TerminationIsForwardedToCmd) {
  const Process process = Start({Product("ebbtide"), "record", "--", "bash", "-c",
                                 "trap 'echo bye; exit 9' TERM; echo up; while :; do sleep 0.05; "
                                 "done"},
                                {}, FreshFolder());
  char up[3];
  ASSERT_EQ(read(process.out, up, sizeof(up)), 3);
  kill(process.pid, SIGTERM);
  const Outcome outcome = Finish(process);
  EXPECT_EQ(outcome.out, "bye\n");
  EXPECT_EQ(outcome.code, 9);
}

TEST(Command, RecordOfAProgramWithoutCudaSaysSo) {
  const Outcome outcome = Ebbtide({"record", "--", "true"});
  EXPECT_EQ(outcome.err, "ebbtide: no profile was written: no process of true used CUDA\n");
}

// The simulated driver may be on the path of whoever runs the tests.
const Variables kNoDriver = {{"LD_LIBRARY_PATH", ""}};

bool DriverIsInstalled() {
  return RunProcess({"python3", "-c", "import ctypes; ctypes.CDLL('libcuda.so.1')"}, kNoDriver)
             .code == 0;
}

// What both sub-commands say about it.
const std::string kNoDriverLine =
    "ebbtide: no driver: libcuda.so.1: cannot open shared object file: No such file or directory; "
    "install NVIDIA's driver, or mount it into the container (`ebbtide doctor` tells more); ";

TEST(Command, WithoutADriverOneLineIsSaidAndCmdRunsAsItWouldAnyway) {
  if (DriverIsInstalled()) GTEST_SKIP() << "a driver is installed here";
  const std::vector<std::string> cmd = {"--", "cat", "/proc/self/environ"};
  const Outcome native = RunProcess({cmd[1], cmd[2]}, kNoDriver);
  for (std::vector<std::string> words :
       {std::vector<std::string>{"record"}, std::vector<std::string>{"run", "--plan", "x.json"}}) {
    words.insert(words.end(), cmd.begin(), cmd.end());
    const Outcome outcome = Ebbtide(words, kNoDriver);
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(outcome.err, kNoDriverLine + "cat runs without Ebbtide\n");
    EXPECT_EQ(outcome.out.find("libebbtide"), std::string::npos);
    EXPECT_EQ(outcome.out.find("cudaMallocAsync"), std::string::npos);
    EXPECT_EQ(outcome.out.size(), native.out.size());
  }
}

TEST(Command, WithoutADriverAStrictRunFails) {
  if (DriverIsInstalled()) GTEST_SKIP() << "a driver is installed here";
  const Outcome outcome =
      Ebbtide({"run", "--strict", "--plan", "x.json", "--", "echo", "x"}, kNoDriver);
  EXPECT_EQ(outcome.code, 125);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err.rfind("ebbtide: no driver: ", 0), 0u) << outcome.err;
}

// srun on a machine without a GPU starts programs on one that has some.
TEST(Command, WithoutADriverALauncherStillPassesEbbtideOn) {
  if (DriverIsInstalled()) GTEST_SKIP() << "a driver is installed here";
  const Outcome outcome = Ebbtide({"record", "--", "bash", "-c", "echo $EBBTIDE_MODE"}, kNoDriver);
  EXPECT_EQ(outcome.out, "record\n");
  EXPECT_EQ(outcome.err, kNoDriverLine + "what bash starts on this machine runs without Ebbtide\n");
}

TEST(Command, RecordIntoAMissingFolderIs125BeforeCmdStarts) {
  const Outcome outcome = Ebbtide({"record", "-o", "/no/such/folder/a.ebp", "--", "echo", "x"});
  EXPECT_EQ(outcome.code, 125);
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(Contains(outcome.err, "/no/such/folder")) << outcome.err;
}

TEST(Command, UnknownVariableIsAnsweredOnceWithTheNearest) {
  const Outcome outcome = Ebbtide({"record", "--", "true"}, {{"EBBTIDE_BUGDET", "1GiB"}});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(Contains(outcome.err,
                       "EBBTIDE_BUGDET is not a variable of Ebbtide; did you mean "
                       "EBBTIDE_BUDGET?"))
      << outcome.err;
}

// Prints one variable of CMD's environment.
std::string Seen(const std::string& name, const Variables& variables = {},
                 const std::vector<std::string>& options = {}) {
  std::vector<std::string> words = {"record"};
  words.insert(words.end(), options.begin(), options.end());
  // The shell's own library is preloaded too; its answer must come without ours.
  words.insert(words.end(), {"--", "bash", "-c", "echo \"${" + name + "-unset}\""});
  return Ebbtide(words, variables).out;
}

TEST(CommandEnvironment, LibraryIsPutInFrontOfOthers) {
  EXPECT_EQ(Seen("LD_PRELOAD"), Product("libebbtide.so") + "\n");
  EXPECT_EQ(Seen("LD_PRELOAD", {{"LD_PRELOAD", "libm.so.6"}}),
            Product("libebbtide.so") + ":libm.so.6\n");
}

TEST(CommandEnvironment, FrameworksAreAskedForTheStreamOrderedAllocator) {
  EXPECT_EQ(Seen("PYTORCH_CUDA_ALLOC_CONF"), "backend:cudaMallocAsync\n");
  EXPECT_EQ(Seen("XLA_PYTHON_CLIENT_ALLOCATOR"), "cuda_async\n");
  EXPECT_EQ(Seen("XLA_PYTHON_CLIENT_PREALLOCATE"), "false\n");
}

TEST(CommandEnvironment, UsersAllocatorStays) {
  EXPECT_EQ(Seen("PYTORCH_CUDA_ALLOC_CONF", {{"PYTORCH_CUDA_ALLOC_CONF", "backend:native"}}),
            "backend:native\n");
  EXPECT_EQ(Seen("PYTORCH_CUDA_ALLOC_CONF", {{"PYTORCH_ALLOC_CONF", "backend:native"}}), "unset\n");
  EXPECT_EQ(Seen("XLA_PYTHON_CLIENT_ALLOCATOR", {{"TF_GPU_ALLOCATOR", "cuda_malloc_async"}}),
            "unset\n");
}

TEST(CommandEnvironment, KeepAndNativeLeaveFrameworksAlone) {
  EXPECT_EQ(Seen("PYTORCH_CUDA_ALLOC_CONF", {}, {"--torch-backend", "keep"}), "unset\n");
  EXPECT_EQ(Seen("PYTORCH_CUDA_ALLOC_CONF", {{"EBBTIDE_TORCH_BACKEND", "native"}}), "unset\n");
}

TEST(CommandEnvironment, FrameworksKeepTheirAllocatorWhereThePlanServesNothing) {
  const std::string plan = testing::TempDir() + "ebbtide-plan-that-serves-little.json";
  const auto seen = [&](const std::string& prologue, const std::vector<std::string>& options) {
    std::ofstream(plan) << R"({"schema": 2, "program": "any", "gpu": "", "ebbtide": "",
        "source": "", "budget": 0, "overhead_bytes": 0, "warm_bytes": 2097152, "cold_bytes": 0,
        "step_launches": 0, "native_step_ms": 0, "predicted_step_ms": 0, "max_live_bytes": 512,
        "planned_peak_bytes": 2097152, "slab_bytes": 0, "slabs": [], "cleared": [], "sites": [],
        "step": [], "prologue": [)"
                        << prologue << "]}";
    std::vector<std::string> words = {"run", "--strict", "--plan", plan};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"--", "bash", "-c", "echo \"${PYTORCH_CUDA_ALLOC_CONF-unset}\""});
    const Outcome outcome = Ebbtide(words, {});
    return outcome.out + outcome.err;
  };
  const std::string slot = R"({"site": "0x1", "ordinal": 0, "bytes": 512, "stream": 0,
      "launch": 0, "tier": "warm", "offset": 0, "persistent": true})";
  EXPECT_EQ(seen(slot, {}), "backend:cudaMallocAsync\n");
  EXPECT_EQ(seen("", {}), "unset\n");
  EXPECT_EQ(seen("", {"--torch-backend", "async"}), "backend:cudaMallocAsync\n");
}

TEST(CommandEnvironment, RecordingIsSetUpWithAnAbsolutePath) {
  EXPECT_EQ(Seen("EBBTIDE_MODE"), "record\n");
  EXPECT_EQ(Seen("EBBTIDE_STEPS", {}, {"--steps", "5"}), "5\n");
  EXPECT_EQ(Seen("EBBTIDE_PROFILE", {}, {"-o", "a-{rank}.ebp"}).front(), '/');
}

TEST(CommandEnv, ListsEveryVariable) {
  const Outcome outcome = Ebbtide({"env"});
  EXPECT_EQ(outcome.code, 0);
  for (const EnvVar& var : EnvVars()) EXPECT_TRUE(Contains(outcome.out, var.name)) << var.name;
}

TEST(CommandHelp, EverySubCommandExplainsItself) {
  for (const char* name : {"record", "plan", "run", "doctor", "env"}) {
    const Outcome outcome = Ebbtide({name, "--help"});
    EXPECT_EQ(outcome.code, 0) << name;
    EXPECT_TRUE(Contains(outcome.out, "Usage: ebbtide " + std::string(name))) << outcome.out;
  }
  EXPECT_EQ(Ebbtide({"--version"}).out.rfind("ebbtide 0.", 0), 0u);
}

TEST(CommandDoctor, WithoutADriverSaysSoAndIs1) {
  if (DriverIsInstalled()) GTEST_SKIP() << "a driver is installed here";
  const Outcome outcome = Ebbtide({"doctor"}, kNoDriver);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(Contains(outcome.out, "driver      none")) << outcome.out;
  EXPECT_TRUE(Contains(outcome.out, "problem:")) << outcome.out;
  EXPECT_TRUE(Contains(outcome.out, "advice:")) << outcome.out;
}

}  // namespace
}  // namespace ebt::test
