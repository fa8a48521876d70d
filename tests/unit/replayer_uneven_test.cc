// A job whose steps differ under replay, on the simulated driver.
#include <algorithm>
#include <random>

#include "tests/unit/swapped_program.h"

namespace ebt::replay {
namespace {

// A weight of kWeight bytes; a step makes two blocks that share a room between them and one that
// goes anywhere, adds the weight to each, and reads them.
class UnevenTest : public SwappedProgram {
 protected:
  static constexpr uint64_t kWeight = 512 * 1024, kRoom = 2 * kMiB, kWarmBytes = 4 * kMiB;

  void Start() {
    plan::Plan plan;
    plan.uneven = true;
    plan.warm_bytes = kWarmBytes;
    plan.step_launches = 6;
    plan.prologue = {Warm(kWeight, 0)};
    plan.prologue[0].persistent = true;
    Slot first = Warm(kRoom, kWeight), second = Warm(kRoom, kWeight), anywhere = Warm(kRoom, 0);
    first.site = 2, second.site = 3, anywhere.site = 4;
    first.room_bytes = second.room_bytes = kRoom;
    anywhere.dynamic = true;
    plan.step = {first, second, anywhere};
    replayer_ = std::make_unique<Replayer>(test::SimulatedDriver(), std::move(plan),
                                           Options(ebt::Cold::kOff));
    weight_ = Allocated(kWeight);
    Fill(weight_, 1, kWeight / sizeof(float));
  }

  struct Made {
    CUdeviceptr at = 0;
    uint64_t bytes = 0;
    float value = 0;
  };
  Made Make(uint64_t bytes, float value) {
    const Made made{Allocated(bytes), bytes, value};
    Fill(made.at, value, bytes / sizeof(float));
    const uint64_t shared = std::min(bytes, kWeight);
    Add(made.at, weight_, shared / sizeof(float));
    return made;
  }
  bool InRoom(const Made& made) const {
    return made.at >= weight_ + kWeight && made.at + made.bytes <= weight_ + kWeight + kRoom;
  }
  void ExpectWhole(const std::vector<Made>& blocks) {
    for (const Made& a : blocks) {
      EXPECT_EQ(FloatAt(a.at, 0), a.value + 1);
      EXPECT_EQ(FloatAt(a.at, a.bytes / sizeof(float) - 1), a.value + (a.bytes <= kWeight ? 1 : 0));
      for (const Made& b : blocks) {
        EXPECT_TRUE(&a == &b || a.at + a.bytes <= b.at || b.at + b.bytes <= a.at);
      }
    }
    EXPECT_EQ(FloatAt(weight_, kWeight / sizeof(float) - 1), 1);
  }
  void FreeAll(const std::vector<Made>& blocks) {
    for (const Made& made : blocks) EXPECT_EQ(FreeAsync(made.at, stream_), CUDA_SUCCESS);
  }

  CUdeviceptr weight_ = 0;
};

TEST_F(UnevenTest, BlocksOfEverySizeShareTheirRoomAndKeepTheirContents) {
  Start();
  std::mt19937 random(3);
  for (int step = 0; step < 40; ++step) {
    const uint64_t first = 512 * (1 + random() % (kRoom / 512 - 1));
    const std::vector<Made> blocks = {Make(first, 10), Make(kRoom - first, 20),
                                      Make(512 * (1 + random() % 1000), 30)};
    EXPECT_TRUE(InRoom(blocks[0]));
    EXPECT_TRUE(InRoom(blocks[1]));
    EXPECT_FALSE(InRoom(blocks[2]));
    EXPECT_LT(blocks[2].at, weight_ + kWarmBytes) << "the warm part has room for it";
    ExpectWhole(blocks);
    FreeAll(blocks);
  }
  const ebbtide_statistics statistics = replayer_->Statistics();
  EXPECT_EQ(statistics.allocations_planned, 1 + 3 * 40u);
  EXPECT_EQ(statistics.allocations_dynamic, 0u);
  EXPECT_EQ(statistics.steps, 40u);
}

TEST_F(UnevenTest, AStepLargerThanThePlanIsServedAndTheNextOneIsOnPlanAgain) {
  Start();
  for (uint64_t factor : {1, 4, 1}) {
    const std::vector<Made> blocks = {Make(factor * kRoom / 2, 10), Make(factor * kRoom / 2, 20),
                                      Make(factor * kRoom / 4, 30)};
    EXPECT_EQ(InRoom(blocks[0]), factor == 1);
    EXPECT_EQ(InRoom(blocks[1]), factor == 1);
    ExpectWhole(blocks);
    FreeAll(blocks);
  }
  const ebbtide_statistics statistics = replayer_->Statistics();
  EXPECT_EQ(statistics.allocations_native, 0u);
  // The two that their room does not hold; the sites of this test are not the plan's, so that the
  // order is found again only by what fits.
  EXPECT_GE(statistics.allocations_dynamic, 2u);
  EXPECT_EQ(statistics.allocations_planned + statistics.allocations_dynamic, 1 + 3 * 3u);
}

TEST_F(UnevenTest, BlocksThatThePlanDoesNotKnowTakeFreeWarmMemory) {
  Start();
  const uint64_t before = DeviceBytes();
  std::vector<Made> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(Make(kRoom / 8, 50.f + float(i)));
  ExpectWhole(blocks);
  for (const Made& made : blocks) EXPECT_LT(made.at, weight_ + kWarmBytes);
  EXPECT_EQ(DeviceBytes(), before) << "the chunk behind the weight held all of them";
  FreeAll(blocks);
}

}  // namespace
}  // namespace ebt::replay
