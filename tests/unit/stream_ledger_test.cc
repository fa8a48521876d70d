#include "src/memory/stream_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

namespace ebt::memory {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

CUstream Stream(uintptr_t number) { return reinterpret_cast<CUstream>(number * 0x100); }
const CUstream kA = Stream(1), kB = Stream(2), kC = Stream(3);

std::string Name(CUstream stream) {
  if (stream == nullptr) return "legacy";
  if (stream == CU_STREAM_PER_THREAD) return "own";
  return std::string(1, static_cast<char>('A' + reinterpret_cast<uintptr_t>(stream) / 0x100 - 1));
}

// A driver that writes down what it is asked: "record e1 A", "wait B e1".
struct FakeDriver {
  std::vector<std::string> log;
  std::map<std::string, CUresult> refuses;  // by first word of the log line
  CUstream capturing = reinterpret_cast<CUstream>(~0ull);
  uintptr_t events = 0, live_events = 0;

  CUresult Call(const std::string& what, const std::string& arguments = "") {
    log.push_back(what + arguments);
    const auto at = refuses.find(what);
    return at == refuses.end() ? CUDA_SUCCESS : at->second;
  }
};
FakeDriver g_fake;

std::string Event(CUevent event) { return absl::StrCat(" e", reinterpret_cast<uintptr_t>(event)); }

DriverApi FakeApi() {
  DriverApi api;
  api.fn_cuEventCreate = [](CUevent* event, unsigned) {
    if (g_fake.refuses.count("create")) return g_fake.refuses["create"];
    *event = reinterpret_cast<CUevent>(++g_fake.events);
    ++g_fake.live_events;
    return CUDA_SUCCESS;
  };
  api.fn_cuEventRecord = [](CUevent event, CUstream stream) {
    return g_fake.Call("record", Event(event) + " " + Name(stream));
  };
  api.fn_cuStreamWaitEvent = [](CUstream stream, CUevent event, unsigned) {
    return g_fake.Call("wait", " " + Name(stream) + Event(event));
  };
  api.fn_cuEventSynchronize = [](CUevent event) { return g_fake.Call("host", Event(event)); };
  api.fn_cuEventDestroy_v2 = [](CUevent) {
    --g_fake.live_events;
    return CUDA_SUCCESS;
  };
  api.fn_cuStreamIsCapturing = [](CUstream stream, CUstreamCaptureStatus* status) {
    *status = stream == g_fake.capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                         : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  };
  return api;
}

class StreamLedgerTest : public ::testing::Test {
 protected:
  StreamLedgerTest() { g_fake = {}; }
  // Memory of 512 bytes each, freed in the orders of `tags`.
  static std::vector<Piece> Pieces(std::vector<StreamTag> tags) {
    std::vector<Piece> pieces;
    for (StreamTag tag : tags) pieces.push_back({512 * pieces.size(), 512, tag});
    return pieces;
  }

  const DriverApi api_ = FakeApi();
  StreamLedger ledger_{api_};
};

TEST_F(StreamLedgerTest, AStreamKeepsItsTagAndNoTagIsIdle) {
  const StreamTag a = ledger_.TagOf(kA);
  EXPECT_NE(a, kIdle);
  EXPECT_NE(a, ledger_.TagOf(kB));
  EXPECT_EQ(a, ledger_.TagOf(kA));
  EXPECT_EQ(ledger_.TagOf(nullptr), ledger_.TagOf(CU_STREAM_LEGACY));
  EXPECT_NE(ledger_.TagOf(nullptr), ledger_.TagOf(CU_STREAM_PER_THREAD));
}

TEST_F(StreamLedgerTest, TheSameStreamAndIdleMemoryNeedNoCall) {
  const StreamTag a = ledger_.TagOf(kA);
  EXPECT_EQ(ledger_.Freed(a), CUDA_SUCCESS);
  EXPECT_EQ(ledger_.OrderAfter(kA, Pieces({a, kIdle, a})), CUDA_SUCCESS);
  EXPECT_THAT(g_fake.log, IsEmpty());
}

TEST_F(StreamLedgerTest, WhoComesBehindAnEventWaitsForItWithoutAnotherRecording) {
  const StreamTag event = ledger_.TagOfEvent(reinterpret_cast<CUevent>(7), nullptr);
  EXPECT_EQ(ledger_.OrderAfter(kA, Pieces({event, event})), CUDA_SUCCESS);
  EXPECT_EQ(ledger_.WaitFor(Pieces({event})), CUDA_SUCCESS);
  EXPECT_THAT(g_fake.log, ElementsAre("wait A e7", "host e7"));
  ledger_.EventDone(event);
  EXPECT_EQ(ledger_.OrderAfter(kA, Pieces({event})), CUDA_SUCCESS);
  EXPECT_THAT(g_fake.log, ::testing::SizeIs(2));
}

TEST_F(StreamLedgerTest, AnEventsOwnerMakesStreamsWaitItself) {
  std::vector<CUstream> waiting;
  const StreamTag event = ledger_.TagOfEvent(reinterpret_cast<CUevent>(7), [&](CUstream stream) {
    waiting.push_back(stream);
    return CUDA_ERROR_UNKNOWN;
  });
  EXPECT_EQ(ledger_.OrderAfter(kB, Pieces({event})), CUDA_ERROR_UNKNOWN);
  EXPECT_THAT(waiting, ElementsAre(kB));
  EXPECT_THAT(g_fake.log, IsEmpty());
}

TEST_F(StreamLedgerTest, AnotherStreamWaitsForAnEventOfTheFreeingOne) {
  const StreamTag a = ledger_.TagOf(kA);
  EXPECT_EQ(ledger_.OrderAfter(kB, Pieces({a})), CUDA_SUCCESS);
  EXPECT_THAT(g_fake.log, ElementsAre("record e1 A", "wait B e1"));
  EXPECT_EQ(g_fake.live_events, 0u);
}

TEST_F(StreamLedgerTest, EachOwnerIsWaitedForOnce) {
  const StreamTag a = ledger_.TagOf(kA), b = ledger_.TagOf(kB), c = ledger_.TagOf(kC);
  EXPECT_EQ(ledger_.OrderAfter(kC, Pieces({a, b, a, c, kIdle, b})), CUDA_SUCCESS);
  EXPECT_THAT(g_fake.log,
              UnorderedElementsAre("record e1 A", "wait C e1", "record e2 B", "wait C e2"));
}

TEST_F(StreamLedgerTest, MemoryForAnyStreamIsWaitedForOnTheHost) {
  const StreamTag a = ledger_.TagOf(kA), legacy = ledger_.TagOf(nullptr);
  EXPECT_EQ(ledger_.WaitFor(Pieces({a, kIdle, legacy, a})), CUDA_SUCCESS);
  EXPECT_THAT(g_fake.log, ElementsAre("record e1 A", "host e1", "record e2 legacy", "host e2"));
  EXPECT_EQ(ledger_.WaitFor(Pieces({kIdle})), CUDA_SUCCESS);
  EXPECT_EQ(g_fake.log.size(), 4u);
}

TEST_F(StreamLedgerTest, ADestroyedStreamsOrderSurvivesIt) {
  const StreamTag a = ledger_.TagOf(kA);
  ledger_.StreamDestroyed(kA);
  EXPECT_THAT(g_fake.log, ElementsAre("record e1 A"));
  EXPECT_EQ(ledger_.OrderAfter(kB, Pieces({a})), CUDA_SUCCESS);
  EXPECT_EQ(ledger_.WaitFor(Pieces({a})), CUDA_SUCCESS);
  EXPECT_THAT(g_fake.log, ElementsAre("record e1 A", "wait B e1", "host e1"));
}

TEST_F(StreamLedgerTest, TheSameHandleCreatedAnewIsAnotherStream) {
  const StreamTag first = ledger_.TagOf(kA);
  ledger_.StreamDestroyed(kA);
  const StreamTag second = ledger_.TagOf(kA);
  EXPECT_NE(first, second);
  EXPECT_EQ(ledger_.OrderAfter(kA, Pieces({first})), CUDA_SUCCESS);
  EXPECT_THAT(g_fake.log, ElementsAre("record e1 A", "wait A e1"));
}

TEST_F(StreamLedgerTest, TheEndOfAStreamThatFreedNothingIsNoWork) {
  ledger_.StreamDestroyed(kA);
  EXPECT_THAT(g_fake.log, IsEmpty());
}

TEST_F(StreamLedgerTest, AStreamThatEndedWithoutAnEventOrdersNobody) {
  const StreamTag a = ledger_.TagOf(kA);
  g_fake.refuses["record"] = CUDA_ERROR_LAUNCH_FAILED;
  ledger_.StreamDestroyed(kA);
  g_fake.refuses.clear();
  EXPECT_NE(ledger_.OrderAfter(kB, Pieces({a})), CUDA_SUCCESS);
  EXPECT_NE(ledger_.WaitFor(Pieces({a})), CUDA_SUCCESS);
}

TEST_F(StreamLedgerTest, AStreamThatEndedWithoutEventsToBeHadOrdersNobody) {
  const StreamTag a = ledger_.TagOf(kA);
  g_fake.refuses["create"] = CUDA_ERROR_OUT_OF_MEMORY;
  ledger_.StreamDestroyed(kA);
  g_fake.refuses.clear();
  EXPECT_NE(ledger_.OrderAfter(kB, Pieces({a})), CUDA_SUCCESS);
}

TEST_F(StreamLedgerTest, PerThreadStreamsOfTwoThreadsAreTwoStreams) {
  const StreamTag mine = ledger_.TagOf(CU_STREAM_PER_THREAD);
  StreamTag theirs = kIdle;
  std::thread([&] {
    theirs = ledger_.TagOf(CU_STREAM_PER_THREAD);
    EXPECT_EQ(ledger_.Freed(theirs), CUDA_SUCCESS);
  }).join();
  EXPECT_NE(mine, theirs);
  EXPECT_THAT(g_fake.log, ElementsAre("record e1 own"));
  EXPECT_EQ(ledger_.OrderAfter(CU_STREAM_PER_THREAD, Pieces({theirs, mine})), CUDA_SUCCESS);
  EXPECT_THAT(g_fake.log, ElementsAre("record e1 own", "wait own e1"));
}

TEST_F(StreamLedgerTest, EveryFreeOfAPerThreadStreamMovesItsEvent) {
  const StreamTag own = ledger_.TagOf(CU_STREAM_PER_THREAD);
  EXPECT_EQ(ledger_.Freed(own), CUDA_SUCCESS);
  EXPECT_EQ(ledger_.Freed(own), CUDA_SUCCESS);
  EXPECT_THAT(g_fake.log, ElementsAre("record e1 own", "record e1 own"));
}

TEST_F(StreamLedgerTest, ARefusedFreeOfAPerThreadStreamIsReported) {
  const StreamTag own = ledger_.TagOf(CU_STREAM_PER_THREAD);
  g_fake.refuses["record"] = CUDA_ERROR_LAUNCH_FAILED;
  EXPECT_EQ(ledger_.Freed(own), CUDA_ERROR_LAUNCH_FAILED);
}

TEST_F(StreamLedgerTest, TheDriversRefusalIsReportedAndNoEventLeaks) {
  const StreamTag a = ledger_.TagOf(kA);
  for (const char* call : {"create", "record", "wait"}) {
    g_fake.refuses = {{call, CUDA_ERROR_NOT_PERMITTED}};
    EXPECT_EQ(ledger_.OrderAfter(kB, Pieces({a})), CUDA_ERROR_NOT_PERMITTED) << call;
  }
  g_fake.refuses = {{"host", CUDA_ERROR_NOT_PERMITTED}};
  EXPECT_EQ(ledger_.WaitFor(Pieces({a})), CUDA_ERROR_NOT_PERMITTED);
  EXPECT_EQ(g_fake.live_events, 0u);
}

TEST_F(StreamLedgerTest, NobodyIsDrawnIntoACapture) {
  const StreamTag a = ledger_.TagOf(kA);
  g_fake.capturing = kA;
  EXPECT_NE(ledger_.OrderAfter(kB, Pieces({a})), CUDA_SUCCESS);
  EXPECT_NE(ledger_.WaitFor(Pieces({a})), CUDA_SUCCESS);
  EXPECT_THAT(g_fake.log, IsEmpty());
}

}  // namespace
}  // namespace ebt::memory
