#include "src/base/dump_signal.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace ebt {
namespace {

TEST(DumpSignal, NamesOfSignalsForOthersAreKnown) {
  EXPECT_EQ(DumpSignalNumber("USR1"), SIGUSR1);
  EXPECT_EQ(DumpSignalNumber("SIGUSR2"), SIGUSR2);
  EXPECT_EQ(DumpSignalNumber("usr2"), SIGUSR2);
  EXPECT_EQ(DumpSignalNumber("URG"), SIGURG);
  EXPECT_EQ(DumpSignalNumber("WINCH"), SIGWINCH);
  EXPECT_EQ(DumpSignalNumber("RTMIN"), SIGRTMIN);
  EXPECT_EQ(DumpSignalNumber("SIGRTMIN+3"), SIGRTMIN + 3);
}

TEST(DumpSignal, SignalsThatMeanSomethingElseAreNot) {
  for (const char* name : {"", "KILL", "STOP", "SEGV", "INT", "TERM", "CHLD", "PIPE", "10", "USR3",
                           "RTMIN+", "RTMIN-1", "RTMIN+99", "RTMIN+ 1", "RTMIN+x", "RTMAX"})
    EXPECT_FALSE(DumpSignalNumber(name)) << name;
}

int theirs = 0;

// One process catches one signal: this is the only test that does.
TEST(DumpSignal, ComesOnceAndTheProgramsHandlerIsCalledBehind) {
  struct sigaction own {};
  own.sa_sigaction = [](int, siginfo_t* info, void*) { theirs += info->si_signo == SIGUSR1; };
  own.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGUSR1, &own, nullptr);
  CatchDumpSignal(SIGUSR1);
  EXPECT_FALSE(DumpSignalCame());
  raise(SIGUSR1);
  EXPECT_EQ(theirs, 1);
  EXPECT_TRUE(DumpSignalCame());
  EXPECT_FALSE(DumpSignalCame());
  struct sigaction now {};
  sigaction(SIGUSR1, nullptr, &now);
  EXPECT_EQ(now.sa_flags & (SA_SIGINFO | SA_NODEFER), SA_SIGINFO | SA_NODEFER);
  CatchDumpSignal(SIGUSR1);  // not once more: it would be chained to itself
  raise(SIGUSR1);
  EXPECT_EQ(theirs, 2);
}

}  // namespace
}  // namespace ebt
