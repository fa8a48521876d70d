#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "src/callsite/id_cache.h"

namespace ebt::callsite {
namespace {

TEST(IdCache, FindsWhatWasInsertedAndNothingElse) {
  IdCache cache(4, 1024);
  uint64_t value = 99;
  EXPECT_FALSE(cache.Find(7, &value));
  cache.Insert(7, 70);
  cache.Insert(8, 0);
  ASSERT_TRUE(cache.Find(7, &value));
  EXPECT_EQ(value, 70u);
  ASSERT_TRUE(cache.Find(8, &value));
  EXPECT_EQ(value, 0u);
  EXPECT_FALSE(cache.Find(11, &value));  // probes from the slot of 7 in a table of four
}

TEST(IdCache, ASecondInsertReplacesTheValue) {
  IdCache cache(4, 4);
  uint64_t value = 0;
  for (uint64_t i = 1; i <= 100; ++i) cache.Insert(5, i);
  ASSERT_TRUE(cache.Find(5, &value));
  EXPECT_EQ(value, 100u);
}

TEST(IdCache, KeepsEverythingWhileItMayGrow) {
  IdCache cache(4, 4096);
  for (uint64_t key = 1; key <= 2000; ++key) cache.Insert(key << 20, key);
  for (uint64_t key = 1; key <= 2000; ++key) {
    uint64_t value = 0;
    ASSERT_TRUE(cache.Find(key << 20, &value)) << key;
    EXPECT_EQ(value, key);
  }
}

TEST(IdCache, StartsAfreshWhenItMayNotGrow) {
  IdCache cache(8, 8);  // holds four
  for (uint64_t key = 1; key <= 5; ++key) cache.Insert(key, key);
  uint64_t value = 0;
  EXPECT_FALSE(cache.Find(1, &value));
  EXPECT_TRUE(cache.Find(5, &value));
}

TEST(IdCache, AReaderNeverSeesAnotherKeysValue) {
  IdCache cache(4, 64);
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> wrong{0};
  std::thread reader([&] {
    for (uint64_t key = 1; !stop; key = key % 500 + 1) {
      uint64_t value = 0;
      if (cache.Find(key, &value) && value != 3 * key) ++wrong;
    }
  });
  for (int round = 0; round < 200; ++round) {
    for (uint64_t key = 1; key <= 500; ++key) cache.Insert(key, 3 * key);
  }
  stop = true;
  reader.join();
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace ebt::callsite
