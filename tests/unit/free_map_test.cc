#include "src/memory/free_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <vector>

namespace ebt::memory {

static bool operator==(const Piece& a, const Piece& b) {
  return a.offset == b.offset && a.bytes == b.bytes && a.tag == b.tag;
}

static void PrintTo(const Piece& piece, std::ostream* stream) {
  *stream << "[" << piece.offset << " +" << piece.bytes << " tag " << piece.tag << "]";
}

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kGranule = 512;

// Every granule's owner, one by one: what the map must say, by brute force.
class GranuleModel {
 public:
  explicit GranuleModel(size_t granules) : tags_(granules, kIdle) {}

  bool IsFree(size_t first, size_t count) const {
    if (first + count > tags_.size()) return false;
    return std::all_of(tags_.begin() + first, tags_.begin() + first + count,
                       [](const auto& tag) { return tag.has_value(); });
  }
  // The range as runs of one tag each.
  std::vector<Piece> Pieces(size_t first, size_t count) const {
    std::vector<Piece> pieces;
    for (size_t i = first; i < first + count; ++i) {
      if (i == first || tags_[i] != tags_[i - 1]) pieces.push_back({i * kGranule, 0, *tags_[i]});
      pieces.back().bytes += kGranule;
    }
    return pieces;
  }
  void Take(size_t first, size_t count) { Set(first, count, std::nullopt); }
  void Set(size_t first, size_t count, std::optional<StreamTag> tag) {
    std::fill_n(tags_.begin() + first, count, tag);
  }
  void SetAllIdle() {
    for (auto& tag : tags_)
      if (tag) tag = kIdle;
  }
  uint64_t free_bytes() const {
    return kGranule *
           std::count_if(tags_.begin(), tags_.end(), [](const auto& tag) { return !!tag; });
  }
  // Length of the smallest run that holds `count` granules and is made of `preferred` and idle
  // ones alone (any_owner: of any free ones). 0: there is none.
  size_t SmallestRun(size_t count, StreamTag preferred, bool any_owner) const {
    size_t best = 0, run = 0;
    for (size_t i = 0; i <= tags_.size(); ++i) {
      const bool in = i < tags_.size() && tags_[i] &&
                      (any_owner || *tags_[i] == kIdle || *tags_[i] == preferred);
      if (in) {
        ++run;
        continue;
      }
      if (run >= count && (best == 0 || run < best)) best = run;
      run = 0;
    }
    return best;
  }
  // Length of the run of such granules that `first` lies at the beginning of; 0: it does not.
  size_t RunFrom(size_t first, StreamTag preferred, bool any_owner) const {
    const auto in = [&](size_t i) {
      return i < tags_.size() && tags_[i] &&
             (any_owner || *tags_[i] == kIdle || *tags_[i] == preferred);
    };
    if (first > 0 && in(first - 1)) return 0;
    size_t run = 0;
    while (in(first + run)) ++run;
    return run;
  }

 private:
  std::vector<std::optional<StreamTag>> tags_;  // empty: in use
};

TEST(FreeMapTest, BeginsFreeAndIdle) {
  FreeMap map(4096);
  EXPECT_EQ(map.size(), 4096u);
  EXPECT_EQ(map.free_bytes(), 4096u);
  EXPECT_THAT(map.TakeAt(0, 4096), ElementsAre(Piece{0, 4096, kIdle}));
  EXPECT_EQ(map.free_bytes(), 0u);
}

TEST(FreeMapTest, AnEmptyRangeHasNothingToTake) {
  FreeMap map(0);
  EXPECT_THAT(map.TakeAt(0, 512), IsEmpty());
  EXPECT_THAT(map.TakeBestFit(512, 1), IsEmpty());
  EXPECT_FALSE(map.IsFree(0, 1));
}

TEST(FreeMapTest, TakingNothingTakesNothing) {
  FreeMap map(1024);
  EXPECT_THAT(map.TakeAt(0, 0), IsEmpty());
  EXPECT_THAT(map.TakeBestFit(0, 1), IsEmpty());
  map.Give(512, 0, 3);
  EXPECT_EQ(map.free_bytes(), 1024u);
  EXPECT_THAT(map.TakeAt(0, 1024), ElementsAre(Piece{0, 1024, kIdle}));
}

TEST(FreeMapTest, NothingBeyondTheEndIsTaken) {
  FreeMap map(1024);
  EXPECT_THAT(map.TakeAt(512, 1024), IsEmpty());
  EXPECT_THAT(map.TakeAt(1024, 512), IsEmpty());
  EXPECT_THAT(map.TakeAt(4096, 512), IsEmpty());
  EXPECT_THAT(map.TakeBestFit(1536, 1), IsEmpty());
  EXPECT_EQ(map.free_bytes(), 1024u);
}

TEST(FreeMapTest, AnEndThatOverflowsIsBeyondTheEnd) {
  FreeMap map(1024);
  EXPECT_THAT(map.TakeAt(512, kMax - 511), IsEmpty());  // 512 + that is 2^64
  EXPECT_THAT(map.TakeAt(1024, kMax), IsEmpty());
  EXPECT_THAT(map.TakeAt(kMax, 1024), IsEmpty());
  EXPECT_THAT(map.TakeBestFit(kMax, 1), IsEmpty());
  EXPECT_FALSE(map.IsFree(kMax - 511, 1024));
  EXPECT_EQ(map.free_bytes(), 1024u);
}

TEST(FreeMapTest, ATakeAcrossOwnersNamesEachInOrder) {
  FreeMap map(4096);
  map.TakeAt(0, 4096);
  map.Give(0, 1024, 1);
  map.Give(1024, 512, 2);
  map.Give(1536, 512, kIdle);
  EXPECT_THAT(map.TakeAt(512, 1536),
              ElementsAre(Piece{512, 512, 1}, Piece{1024, 512, 2}, Piece{1536, 512, kIdle}));
  EXPECT_EQ(map.free_bytes(), 512u);
}

TEST(FreeMapTest, OneByteInUseSparesTheWholeRange) {
  FreeMap map(2048);
  map.TakeAt(1024, 512);
  EXPECT_THAT(map.TakeAt(0, 2048), IsEmpty());
  EXPECT_THAT(map.TakeAt(512, 1024), IsEmpty());
  EXPECT_EQ(map.free_bytes(), 1536u);
  EXPECT_THAT(map.TakeAt(0, 1024), ElementsAre(Piece{0, 1024, kIdle}));
}

TEST(FreeMapTest, BestFitTakesTheSmallestRunThatHolds) {
  FreeMap map(16 * 512);
  map.TakeAt(0, 16 * 512);
  map.Give(1 * 512, 4 * 512, kIdle);
  map.Give(7 * 512, 2 * 512, kIdle);
  map.Give(11 * 512, 3 * 512, kIdle);
  EXPECT_THAT(map.TakeBestFit(2 * 512, 1), ElementsAre(Piece{7 * 512, 2 * 512, kIdle}));
  EXPECT_THAT(map.TakeBestFit(2 * 512, 1), ElementsAre(Piece{11 * 512, 2 * 512, kIdle}));
  EXPECT_THAT(map.TakeBestFit(3 * 512, 1), ElementsAre(Piece{1 * 512, 3 * 512, kIdle}));
}

TEST(FreeMapTest, BestFitPrefersWhatNobodyElseMayStillUse) {
  FreeMap map(16 * 512);
  map.TakeAt(0, 16 * 512);
  map.Give(0, 2 * 512, 2);        // fits exactly, another stream's
  map.Give(4 * 512, 2 * 512, 1);  // own and idle side by side, larger
  map.Give(6 * 512, 2 * 512, kIdle);
  EXPECT_THAT(map.TakeBestFit(2 * 512, 1), ElementsAre(Piece{4 * 512, 2 * 512, 1}));
}

TEST(FreeMapTest, BestFitFallsBackToARunOfSeveralOwners) {
  FreeMap map(8 * 512);
  map.TakeAt(0, 8 * 512);
  map.Give(1 * 512, 512, 2);
  map.Give(2 * 512, 512, 1);
  map.Give(3 * 512, 512, kIdle);
  EXPECT_THAT(
      map.TakeBestFit(3 * 512, 1),
      ElementsAre(Piece{1 * 512, 512, 2}, Piece{2 * 512, 512, 1}, Piece{3 * 512, 512, kIdle}));
}

TEST(FreeMapTest, BestFitCountsOfARunOnlyWhatLiesBeforeTheLimit) {
  FreeMap map(16 * 512);
  map.TakeAt(0, 8 * 512);
  map.Give(1 * 512, 3 * 512, kIdle);
  // The run from granule 8 on is 8 granules long, 2 of them before the limit.
  EXPECT_THAT(map.TakeBestFit(2 * 512, 1, 10 * 512), ElementsAre(Piece{8 * 512, 2 * 512, kIdle}));
  EXPECT_THAT(map.TakeBestFit(4 * 512, 1, 10 * 512), IsEmpty());
  EXPECT_THAT(map.TakeBestFit(3 * 512, 1, 10 * 512), ElementsAre(Piece{1 * 512, 3 * 512, kIdle}));
}

TEST(FreeMapTest, LowestTakesTheFirstRunWithinTheRangeThatHolds) {
  FreeMap map(16 * 512);
  map.TakeAt(0, 16 * 512);
  map.Give(0, 4 * 512, kIdle);
  map.Give(6 * 512, 512, kIdle);
  map.Give(8 * 512, 2 * 512, 1);  // of two owners, side by side
  map.Give(10 * 512, 2 * 512, 2);
  // Of the first run only granules 2 and 3 are in the range.
  EXPECT_THAT(map.TakeLowest(3 * 512, 2 * 512, 16 * 512),
              ElementsAre(Piece{8 * 512, 2 * 512, 1}, Piece{10 * 512, 512, 2}));
  EXPECT_THAT(map.TakeLowest(2 * 512, 2 * 512, 16 * 512),
              ElementsAre(Piece{2 * 512, 2 * 512, kIdle}));
  EXPECT_THAT(map.TakeLowest(2 * 512, 4 * 512, 16 * 512), IsEmpty());
  EXPECT_THAT(map.TakeLowest(512, 4 * 512, 6 * 512), IsEmpty());
  EXPECT_THAT(map.TakeLowest(0, 0, 16 * 512), IsEmpty());
  EXPECT_EQ(map.free_bytes(), (2 + 1 + 1) * 512u);
}

TEST(FreeMapTest, RestoreLeavesNoTraceOfATake) {
  FreeMap map(8 * 512);
  map.TakeAt(0, 8 * 512);
  map.Give(0, 1024, 4);
  map.Give(1024, 1024, 5);
  const std::vector<Piece> taken = map.TakeAt(512, 1024);
  ASSERT_THAT(taken, ElementsAre(Piece{512, 512, 4}, Piece{1024, 512, 5}));
  map.Restore(taken);
  EXPECT_EQ(map.free_bytes(), 2048u);
  EXPECT_THAT(map.TakeAt(0, 2048), ElementsAre(Piece{0, 1024, 4}, Piece{1024, 1024, 5}));
}

TEST(FreeMapTest, SetAllIdleJoinsNeighboursAndSparesWhatIsInUse) {
  FreeMap map(8 * 512);
  map.TakeAt(0, 8 * 512);
  map.Give(0, 512, 1);
  map.Give(512, 512, 2);
  map.Give(2048, 512, 3);
  map.SetAllIdle();
  EXPECT_EQ(map.free_bytes(), 1536u);
  EXPECT_THAT(map.TakeAt(0, 1024), ElementsAre(Piece{0, 1024, kIdle}));
  EXPECT_THAT(map.TakeAt(2048, 512), ElementsAre(Piece{2048, 512, kIdle}));
}

// Random takes and gives of up to 12 granules in a range of 64, three streams, and after each
// of them everything that can be asked.
class FreeMapAgainstModelTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  static constexpr size_t kGranules = 64;
  struct Used {
    size_t first, count;
  };

  size_t Random(size_t below) { return random_() % below; }

  void Took(const std::vector<Piece>& taken, size_t first, size_t count) {
    EXPECT_EQ(taken, model_.Pieces(first, count));
    model_.Take(first, count);
    if (Random(4) == 0) {
      map_.Restore(taken);
      for (const Piece& piece : taken)
        model_.Set(piece.offset / kGranule, piece.bytes / kGranule, piece.tag);
    } else {
      used_.push_back({first, count});
    }
  }

  void TakeAt() {
    const size_t first = Random(kGranules), count = 1 + Random(12);
    const std::vector<Piece> taken = map_.TakeAt(first * kGranule, count * kGranule);
    ASSERT_EQ(!taken.empty(), model_.IsFree(first, count));
    if (!taken.empty()) Took(taken, first, count);
  }

  void TakeBestFit() {
    const size_t count = 1 + Random(12);
    const StreamTag stream = 1 + Random(3);
    const size_t own = model_.SmallestRun(count, stream, false);
    const size_t any = model_.SmallestRun(count, stream, true);
    const std::vector<Piece> taken = map_.TakeBestFit(count * kGranule, stream);
    ASSERT_EQ(!taken.empty(), any > 0);
    if (taken.empty()) return;
    const size_t first = taken.front().offset / kGranule;
    if (own > 0) {
      ASSERT_EQ(model_.RunFrom(first, stream, false), own);
    } else {
      ASSERT_EQ(model_.RunFrom(first, stream, true), any);
    }
    Took(taken, first, count);
  }

  // All of a block, or a part of it first.
  void Give() {
    if (used_.empty()) return;
    const size_t at = Random(used_.size());
    Used& block = used_[at];
    const size_t count = 1 + Random(block.count);
    const StreamTag tag = Random(4);
    map_.Give(block.first * kGranule, count * kGranule, tag);
    model_.Set(block.first, count, tag);
    block = {block.first + count, block.count - count};
    if (block.count == 0) used_.erase(used_.begin() + at);
  }

  std::mt19937 random_{GetParam()};
  FreeMap map_{kGranules * kGranule};
  GranuleModel model_{kGranules};
  std::vector<Used> used_;
};

TEST_P(FreeMapAgainstModelTest, SaysWhatEveryGranuleSays) {
  for (int i = 0; i < 5000 && !HasFatalFailure(); ++i) {
    switch (Random(8)) {
      case 0:
      case 1:
        TakeAt();
        break;
      case 2:
      case 3:
        TakeBestFit();
        break;
      case 4:
        if (Random(20) == 0) {
          map_.SetAllIdle();
          model_.SetAllIdle();
        }
        break;
      default:
        Give();
    }
    ASSERT_EQ(map_.free_bytes(), model_.free_bytes());
    const size_t first = Random(kGranules), count = 1 + Random(kGranules - first + 1);
    ASSERT_EQ(map_.IsFree(first * kGranule, count * kGranule), model_.IsFree(first, count));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, FreeMapAgainstModelTest, ::testing::Range(1u, 21u));

}  // namespace
}  // namespace ebt::memory
