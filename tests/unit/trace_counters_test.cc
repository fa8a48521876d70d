#include "src/report/trace_counters.h"

#include <gtest/gtest.h>

#include "tests/unit/training_profile.h"

namespace ebt::report {
namespace {

using profile::Kind;
using profile::ProfileBuilder;

struct Told {
  uint64_t event, all;
  friend bool operator==(const Told&, const Told&) = default;
};

// Live bytes after each event, in units of 512: 2, 5, 3, 7, 4, 5.
ProfileBuilder UpAndDown() {
  ProfileBuilder builder;
  const uint32_t first = builder.Alloc(2 * 512, 1);
  const uint32_t second = builder.Alloc(3 * 512, 1);
  builder.Free(first);
  builder.Alloc(4 * 512, 1);
  builder.Free(second);
  builder.Alloc(512, 1);
  return builder;
}

std::vector<Told> ToldBy(const ProfileBuilder& builder, uint64_t stretches) {
  const MemorySpaces memory = FindMemorySpaces(builder.profile, std::nullopt, {});
  std::vector<Told> told;
  CounterPlaces(builder.profile, {}, memory, 0, stretches)
      .ForEach([&](const CounterPlaces::Place& place) {
        told.push_back({place.event, place.all / 512});
        EXPECT_EQ(place.bytes[0], place.all) << "all are unknown";
      });
  return told;
}

TEST(TraceCountersTest, EveryChangeIsToldWhereThereIsRoom) {
  EXPECT_EQ(ToldBy(UpAndDown(), 6),
            (std::vector<Told>{{0, 2}, {1, 5}, {2, 3}, {3, 7}, {4, 4}, {5, 5}}));
}

// Two stretches of three changes: 2 5 3 and 7 4 5.
TEST(TraceCountersTest, OfAStretchTheLargestMomentAndTheEndAreTold) {
  EXPECT_EQ(ToldBy(UpAndDown(), 2), (std::vector<Told>{{1, 5}, {2, 3}, {3, 7}, {5, 5}}));
  EXPECT_EQ(ToldBy(UpAndDown(), 1), (std::vector<Told>{{3, 7}, {5, 5}}));
}

TEST(TraceCountersTest, OnlyKindsThatChangedAreMarked) {
  ProfileBuilder builder;
  builder.Alloc(512, 1);
  builder.Alloc(1024, 1);
  const std::vector<Kind> kinds = {Kind::kParameter, Kind::kInput};
  const MemorySpaces memory = FindMemorySpaces(builder.profile, std::nullopt, kinds);
  std::vector<CounterPlaces::Place> places;
  CounterPlaces(builder.profile, kinds, memory, 0, 10)
      .ForEach([&](const CounterPlaces::Place& place) { places.push_back(place); });
  ASSERT_EQ(places.size(), 2u);
  EXPECT_TRUE(places[0].changed[size_t(Kind::kParameter)]);
  EXPECT_FALSE(places[0].changed[size_t(Kind::kInput)]);
  EXPECT_FALSE(places[1].changed[size_t(Kind::kParameter)]);
  EXPECT_EQ(places[1].bytes[size_t(Kind::kInput)], 1024u);
}

}  // namespace
}  // namespace ebt::report
