#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "src/record/event_buffers.h"

namespace ebt::record {
namespace {

void Append(EventBuffers& buffers, const EventRecord& event) {
  buffers.Append(buffers.OfThisThread(), event);
}

TEST(EventBuffers, GiveBackWhatWasAppended) {
  EventBuffers buffers;
  const uint32_t touched[] = {3, 1, 2};
  Append(buffers, {.kind = RecordKind::kAlloc,
                   .alloc = profile::AllocKind::kPool,
                   .device = 2,
                   .stream = 3,
                   .block = 4,
                   .bytes = 5,
                   .site = 6,
                   .fingerprint = 7,
                   .address = 8});
  Append(buffers, {.kind = RecordKind::kCopy,
                   .copy = profile::CopyKind::kPeer,
                   .bytes = 9,
                   .touched = touched});
  Append(buffers, {.kind = RecordKind::kPhase, .phase = "backward"});
  EXPECT_GT(buffers.in_flight(), 0u);
  std::vector<EventRecord> events;
  buffers.Drain(events);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].sequence, 0u);
  EXPECT_EQ(events[0].alloc, profile::AllocKind::kPool);
  EXPECT_EQ(events[0].device, 2);
  EXPECT_EQ(events[0].stream, 3);
  EXPECT_EQ(events[0].block, 4u);
  EXPECT_EQ(events[0].bytes, 5u);
  EXPECT_EQ(events[0].site, 6u);
  EXPECT_EQ(events[0].fingerprint, 7u);
  EXPECT_EQ(events[0].address, 8u);
  EXPECT_EQ(events[1].copy, profile::CopyKind::kPeer);
  EXPECT_EQ(std::vector<uint32_t>(events[1].touched.begin(), events[1].touched.end()),
            (std::vector<uint32_t>{3, 1, 2}));
  EXPECT_EQ(events[2].phase, "backward");
  buffers.Drain(events);
  EXPECT_TRUE(events.empty());
  EXPECT_EQ(buffers.in_flight(), 0u);
}

TEST(EventBuffers, CutAPhaseNameAtItsLimit) {
  EventBuffers buffers;
  const std::string name(100, 'x');
  Append(buffers, {.kind = RecordKind::kPhase, .phase = name});
  std::vector<EventRecord> events;
  buffers.Drain(events);
  EXPECT_EQ(events.at(0).phase, std::string(63, 'x'));
}

TEST(EventBuffers, LeaveOutNumbersThatWereReserved) {
  EventBuffers buffers;
  Append(buffers, {});
  EXPECT_EQ(buffers.Reserve(), 1u);
  Append(buffers, {});
  std::vector<EventRecord> events;
  buffers.Drain(events);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].sequence, 2u);
}

// Every drain continues the history without a gap, whatever the threads do meanwhile.
TEST(EventBuffers, DrainAPrefixOfTheHistoryInAStormOfThreads) {
  constexpr uint32_t kThreads = 4, kEvents = 5000;
  EventBuffers buffers;
  std::atomic<uint32_t> running{kThreads};
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (uint32_t i = 0; i < kEvents; ++i) {
        Append(buffers, {.kind = RecordKind::kFree, .block = i, .function = t});
      }
      --running;
    });
  }
  uint64_t next_sequence = 0;
  std::map<uint32_t, uint32_t> next_of_thread;
  std::vector<EventRecord> events;
  for (bool last = false; !last;) {
    last = running == 0;
    for (bool more = true; more;) {
      more = buffers.Drain(events);
      for (const EventRecord& event : events) {
        ASSERT_EQ(event.sequence, next_sequence++);
        ASSERT_EQ(event.block, next_of_thread[event.function]++);
      }
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(next_sequence, uint64_t{kThreads} * kEvents);
  EXPECT_FALSE(buffers.Drain(events));
  EXPECT_EQ(buffers.in_flight(), 0u);
}

TEST(EventBuffers, DrainABurstInPartsAndGiveItsMemoryBackOnTheWay) {
  EventBuffers buffers;
  constexpr size_t kEvents = 3 * EventBuffers::kMostAtOnce;
  for (uint32_t i = 0; i < kEvents; ++i) {
    Append(buffers, {.kind = RecordKind::kFree, .block = i});
  }
  const size_t full = buffers.in_flight();
  std::vector<EventRecord> events;
  EXPECT_TRUE(buffers.Drain(events));
  EXPECT_EQ(events.size(), EventBuffers::kMostAtOnce);
  EXPECT_EQ(buffers.in_flight(), full);
  EXPECT_TRUE(buffers.Drain(events));
  // A third went, but for the segment in which it ended.
  EXPECT_LE(buffers.in_flight(), full * 2 / 3 + (64 << 10));
  EXPECT_FALSE(buffers.Drain(events));
  EXPECT_EQ(events.back().block, kEvents - 1);
  EXPECT_FALSE(buffers.Drain(events));
  EXPECT_EQ(buffers.in_flight(), 0u);
}

TEST(EventBuffers, TakeASegmentOfItsOwnForAnEventThatFitsIntoNone) {
  EventBuffers buffers;
  const std::vector<uint32_t> touched(100000, 7);  // 400 kB
  Append(buffers, {.kind = RecordKind::kLaunch, .touched = touched});
  Append(buffers, {.kind = RecordKind::kStep});
  std::vector<EventRecord> events;
  buffers.Drain(events);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(std::vector<uint32_t>(events[0].touched.begin(), events[0].touched.end()), touched);
}

TEST(EventBuffers, KeepTheEventsOfThreadsThatAreGone) {
  EventBuffers buffers;
  for (int i = 0; i < 3; ++i) std::thread([&] { Append(buffers, {}); }).join();
  std::vector<EventRecord> events;
  buffers.Drain(events);
  EXPECT_EQ(events.size(), 3u);
}

TEST(EventBuffers, ServeOneThreadInSeveralRecordings) {
  auto first = std::make_unique<EventBuffers>();
  Append(*first, {});
  EventBuffers second;
  Append(second, {});
  Append(*first, {});
  std::vector<EventRecord> events;
  first->Drain(events);
  EXPECT_EQ(events.size(), 2u);
  first.reset();
  Append(second, {});
  second.Drain(events);
  EXPECT_EQ(events.size(), 2u);
}

}  // namespace
}  // namespace ebt::record
