#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <latch>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "src/callsite/callsite.h"
#include "src/callsite/modules.h"
#include "src/callsite/site_table.h"

namespace ebt::callsite {
namespace {

class CallSites : public testing::Test {
 protected:
  static void SetUpTestSuite() { Initialize(&dlsym); }
};

[[gnu::noinline]] uint64_t CaptureHere() {
  const uint64_t id = Capture();
  asm volatile("");  // no tail call: this function must have a frame
  return id;
}

[[gnu::noinline]] uint64_t CaptureBelow(int depth) {
  const uint64_t id = depth == 0 ? CaptureHere() : CaptureBelow(depth - 1);
  asm volatile("");
  return id;
}

// A function of its own, whose loop the compiler cannot unroll into several call sites.
[[gnu::noinline]] std::vector<uint64_t> CaptureAll(const std::vector<int>& depths) {
  std::vector<uint64_t> ids;
  for (int depth : depths) ids.push_back(CaptureBelow(depth));
  return ids;
}

TEST_F(CallSites, TheSameStackIsOneSiteAndAnotherLineIsAnother) {
  std::set<uint64_t> ids;
  for (int i = 0; i < 10; ++i) ids.insert(CaptureHere());
  EXPECT_EQ(ids.size(), 1u);
  ids.insert(CaptureHere());
  EXPECT_EQ(ids.size(), 2u);
  EXPECT_FALSE(ids.contains(0));
}

TEST_F(CallSites, ASiteNamesTheCallerByBuildIdAndOffset) {
  const Site site = Lookup(CaptureHere());
  ASSERT_GE(site.frames.size(), 2u);
  const Frame& caller = site.frames.front();
  EXPECT_EQ(caller.kind, Frame::Kind::kNative);
  EXPECT_EQ(caller.module.size(), 40u) << "a SHA-1 build-id has 20 bytes: " << caller.module;
  EXPECT_NE(caller.file.find("callsite_sites_test"), std::string::npos);
  Dl_info info;
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&CaptureHere), &info), 0);
  const uint64_t begin =
      reinterpret_cast<uint64_t>(&CaptureHere) - reinterpret_cast<uint64_t>(info.dli_fbase);
  EXPECT_GT(caller.offset, begin);
  EXPECT_LT(caller.offset, begin + 256);
}

TEST_F(CallSites, TheIdIsTheHashOfItsFrames) {
  const uint64_t id = CaptureHere();
  EXPECT_EQ(HashSite(Lookup(id).frames), id);
}

TEST_F(CallSites, DepthTellsSitesApartUntilTheFrameLimit) {
  EXPECT_NE(CaptureBelow(3), CaptureBelow(4));
  const Site deep = Lookup(CaptureBelow(300));
  EXPECT_EQ(deep.frames.size(), SiteTable::kMaxNativeFrames);
}

TEST_F(CallSites, AnUnknownIdHasNoFrames) {
  const Site site = Lookup(12345);
  EXPECT_EQ(site.id, 12345u);
  EXPECT_TRUE(site.frames.empty());
}

TEST_F(CallSites, NewSitesAreHandedOutOnceAndInOrder) {
  size_t from = 0;
  InternedSince(from);  // what other tests left
  const std::vector<uint64_t> ids = CaptureAll({11, 12, 11, 12});
  EXPECT_NE(ids[0], ids[1]);
  EXPECT_EQ(InternedSince(from), (std::vector<uint64_t>{ids[0], ids[1]}));
  EXPECT_TRUE(InternedSince(from).empty());
}

TEST_F(CallSites, ThreadsShareSites) {
  std::vector<uint64_t> ids(8);
  {
    std::vector<std::jthread> threads;
    for (uint64_t& id : ids) {
      threads.emplace_back([&id] {
        for (int i = 0; i < 3000; ++i) {
          CaptureBelow(i % 20);
          id = CaptureHere();
        }
      });
    }
  }
  EXPECT_EQ(std::set<uint64_t>(ids.begin(), ids.end()).size(), 1u);
  EXPECT_NE(ids[0], 0u);
}

TEST_F(CallSites, ASiteIsHandedOutWholeWhileOthersAreInterned) {
  size_t from = 0;
  InternedSince(from);  // what other tests left
  std::atomic<bool> interned{false};
  std::set<uint64_t> captured;
  std::latch start{2};
  std::jthread capturing([&] {
    start.arrive_and_wait();
    for (int depth = 0; depth < 30; ++depth) captured.insert(CaptureBelow(depth));
    interned = true;
  });
  std::set<uint64_t> handed_out;
  start.arrive_and_wait();
  for (bool last = false; !last;) {
    last = interned;
    for (uint64_t id : InternedSince(from)) {
      EXPECT_EQ(HashSite(Lookup(id).frames), id);
      handed_out.insert(id);
    }
  }
  EXPECT_EQ(captured.size(), 30u);
  EXPECT_EQ(handed_out, captured);
}

TEST_F(CallSites, WithoutPythonThereIsNoFingerprint) { EXPECT_EQ(Fingerprint(), 0u); }

TEST_F(CallSites, AForkedChildGoesOnCapturing) {
  const uint64_t before = CaptureBelow(2);
  const pid_t child = fork();
  if (child == 0) {
    AfterFork();
    alarm(20);
    const uint64_t id = CaptureHere();
    _exit(id != 0 && !Lookup(id).frames.empty() && !Lookup(before).frames.empty() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(CallSites, AChildForkedWhileAThreadWasInterningGoesOnCapturing) {
  std::atomic<bool> stop{false};
  std::jthread busy([&] {
    while (!stop) {
      size_t from = 0;
      InternedSince(from);
    }
  });
  for (int i = 0; i < 50; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      AfterFork();
      alarm(20);
      _exit(CaptureHere() != 0 ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
  }
  stop = true;
}

// Prints the sites of a few stacks; run twice as a program of its own by the test below.
TEST_F(CallSites, DISABLED_PrintSites) {
  for (int depth : {0, 1, 5, 100}) std::printf("site %016lx\n", CaptureBelow(depth));
}

std::vector<std::string> SitesOfAnotherRun() {
  char program[4096];
  const ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
  if (length <= 0) return {};
  const std::string command =
      std::string(program, static_cast<size_t>(length)) +
      " --gtest_also_run_disabled_tests --gtest_filter=CallSites.DISABLED_PrintSites";
  std::vector<std::string> sites;
  FILE* output = popen(command.c_str(), "r");
  if (output == nullptr) return {};
  char line[256];
  while (std::fgets(line, sizeof(line), output) != nullptr) {
    if (std::string(line).starts_with("site ")) sites.emplace_back(line);
  }
  return pclose(output) == 0 ? sites : std::vector<std::string>{};
}

TEST_F(CallSites, AreTheSameNumbersInEveryRun) {
  const std::vector<std::string> first = SitesOfAnotherRun();
  ASSERT_EQ(first.size(), 4u);
  EXPECT_EQ(std::set<std::string>(first.begin(), first.end()).size(), 4u);
  EXPECT_EQ(SitesOfAnotherRun(), first);
}

TEST(ModuleTable, GivesFileAddresses) {
  void* const function = dlsym(RTLD_DEFAULT, "getpid");
  Dl_info info;
  ElfW(Sym)* symbol = nullptr;
  ASSERT_NE(dladdr1(function, &info, reinterpret_cast<void**>(&symbol), RTLD_DL_SYMENT), 0);
  ASSERT_NE(symbol, nullptr);
  ModuleTable table;
  EXPECT_TRUE(table.Refresh());
  EXPECT_FALSE(table.Refresh());
  const Module* libc = table.Find(reinterpret_cast<uint64_t>(function));
  ASSERT_NE(libc, nullptr);
  EXPECT_EQ(reinterpret_cast<uint64_t>(function) - libc->bias, symbol->st_value);
  EXPECT_EQ(libc->path, info.dli_fname);
  EXPECT_FALSE(libc->ours);
}

TEST(ModuleTable, DoesNotKnowMemoryThatIsNoModule) {
  void* page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  ModuleTable table;
  table.Refresh();
  EXPECT_EQ(table.Find(reinterpret_cast<uint64_t>(page)), nullptr);
  EXPECT_EQ(table.Find(0), nullptr);
  EXPECT_EQ(table.Find(UINT64_MAX), nullptr);
  munmap(page, 4096);
}

TEST(SiteHash, DependsOnWhatNamesAFrameAndOnNothingElse) {
  const Frame native{.module = "ab", .offset = 16};
  Frame elsewhere = native;
  elsewhere.file = "/another/path";
  elsewhere.function = "resolved";
  EXPECT_EQ(HashFrame(native), HashFrame(elsewhere));
  Frame moved = native;
  moved.offset = 17;
  EXPECT_NE(HashFrame(native), HashFrame(moved));
  Frame python{.kind = Frame::Kind::kPython, .module = "ab", .offset = 16, .function = "f"};
  Frame beside = python;
  beside.function = "g";
  EXPECT_NE(HashFrame(python), HashFrame(beside));
  EXPECT_NE(HashSite(std::vector<Frame>{native, python}),
            HashSite(std::vector<Frame>{python, native}));
}

}  // namespace
}  // namespace ebt::callsite
