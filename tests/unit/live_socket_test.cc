#include "src/base/live_socket.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

namespace ebt {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

// Answers from a thread of its own, as the recorder does.
class Answering {
 public:
  Answering(LiveSocket& socket, std::string text)
      : thread_([this, &socket, text] {
          while (!stop_) {
            socket.Serve([&] {
              ++answers_;
              return text;
            });
            std::this_thread::sleep_for(milliseconds(5));
          }
        }) {}
  ~Answering() {
    stop_ = true;
    thread_.join();
  }
  int answers() const { return answers_; }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<int> answers_{0};
  std::thread thread_;
};

TEST(LiveSocket, WhoAsksGetsTheWholeText) {
  LiveSocket socket;
  const std::string text(3 << 20, 'x');  // more than the kernel keeps for us
  const Answering answering(socket, text);
  const auto answer = AskLive(getpid());
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(*answer, text);
  EXPECT_TRUE(AskLive(getpid()).ok());
  EXPECT_EQ(answering.answers(), 2);
}

TEST(LiveSocket, ProcessThatDoesNotListenIsTold) {
  const auto answer = AskLive(getpid());
  EXPECT_THAT(std::string(answer.status().message()), HasSubstr("not recorded"));
  EXPECT_THAT(std::string(AskLive(0x3fffffff).status().message()),
              HasSubstr("there is no process"));
}

TEST(LiveSocket, NobodyWaitsForEverForWhoIsBusy) {
  LiveSocket socket;  // nobody serves
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(std::string(AskLive(getpid()).status().message()), HasSubstr("try again"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST(LiveSocket, NameIsFreeAgainBehindTheEnd) {
  { const LiveSocket first; }
  LiveSocket second;
  const Answering answering(second, "second");
  const auto answer = AskLive(getpid());
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(*answer, "second");
}

TEST(LiveSocket, ForkedChildLetsGoOfIt) {
  auto* socket = new LiveSocket;
  int ready[2], go[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(go), 0);
  const pid_t child = fork();
  if (child == 0) {
    socket->Close();
    char c = 0;
    close(go[1]);
    static_cast<void>(!write(ready[1], &c, 1));
    static_cast<void>(!read(go[0], &c, 1));  // until the parent has asked
    _exit(0);
  }
  char c = 0;
  EXPECT_EQ(read(ready[0], &c, 1), 1);
  delete socket;  // with the child's copy open the name would still be taken, and unanswered
  EXPECT_THAT(std::string(AskLive(getpid()).status().message()), HasSubstr("not recorded"));
  for (const int fd : {ready[0], ready[1], go[0], go[1]}) close(fd);
  waitpid(child, nullptr, 0);
}

// A program closes every descriptor it does not know, and the number becomes another file's.
TEST(LiveSocket, DescriptorThatTheProgramClosedIsLeftAlone) {
  const int lowest = dup(0);
  close(lowest);
  int theirs = -1;
  {
    LiveSocket socket;  // has the number `lowest`
    close(lowest);
    theirs = open("/dev/null", O_RDONLY | O_CLOEXEC);
    ASSERT_EQ(theirs, lowest);
    socket.Serve([] { return std::string("never"); });
  }
  EXPECT_NE(fcntl(theirs, F_GETFD), -1) << "it was closed behind the program's back";
  close(theirs);
}

}  // namespace
}  // namespace ebt
