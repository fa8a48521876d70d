#include "src/base/own_threads.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace ebt {
namespace {

// A process whose first thread ends, with `others` threads of the program and one of ours left. Its
// exit code: whether the one of ours found itself alone within half a second.
int FoundAlone(int others) {
  const pid_t child = fork();
  if (child == 0) {
    static std::atomic<bool> ready{false};
    for (int i = 0; i < others; ++i) std::thread([] { pause(); }).detach();
    std::thread([] {
      const OwnThread own;
      ready = true;
      for (int turn = 0; turn < 50; ++turn) {
        if (ProgramThreadsAreGone()) _exit(1);
        usleep(10'000);
      }
      _exit(0);
    }).detach();
    while (!ready) usleep(1000);
    // Not pthread_exit: that would unwind gtest.
    syscall(SYS_exit, 0);  // of this thread alone
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

TEST(OwnThreadsTest, AloneAreOursWhenTheFirstThreadAndAllOthersHaveEnded) {
  EXPECT_EQ(FoundAlone(0), 1);
}

TEST(OwnThreadsTest, AnotherThreadOfTheProgramIsSomebodyToStayFor) { EXPECT_EQ(FoundAlone(1), 0); }

TEST(OwnThreadsTest, WhileTheFirstThreadRunsTheProgramIsThere) {
  const OwnThread own;
  EXPECT_FALSE(ProgramThreadsAreGone());
}

}  // namespace
}  // namespace ebt
