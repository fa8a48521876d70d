#include "src/driver/current_context.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace ebt {
namespace {

CUcontext Context(uintptr_t number) { return reinterpret_cast<CUcontext>(number); }

// What is current, and what the driver refuses.
struct Fake {
  CUcontext current = nullptr;
  int refused_gets = 0;
  CUcontext dead = nullptr;
  int sets = 0;
};
Fake fake;

DriverApi Driver() {
  DriverApi driver;
  driver.fn_cuCtxGetCurrent = [](CUcontext* context) {
    if (fake.refused_gets > 0) {
      --fake.refused_gets;
      return CUDA_ERROR_UNKNOWN;
    }
    *context = fake.current;
    return CUDA_SUCCESS;
  };
  driver.fn_cuCtxSetCurrent = [](CUcontext context) {
    ++fake.sets;
    if (context != nullptr && context == fake.dead) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    fake.current = context;
    return CUDA_SUCCESS;
  };
  return driver;
}

class CurrentContextTest : public testing::Test {
 protected:
  void SetUp() override { fake = {.current = Context(1)}; }

  const DriverApi driver_ = Driver();
};

TEST_F(CurrentContextTest, WhateverIsSetMeanwhileTheFirstOneIsCurrentAgain) {
  {
    const CurrentContext before(driver_);
    EXPECT_EQ(before.context(), Context(1));
    driver_.fn_cuCtxSetCurrent(Context(2));
  }
  EXPECT_EQ(fake.current, Context(1));
}

TEST_F(CurrentContextTest, AnotherContextIsCurrentUntilItsEnd) {
  {
    const CurrentContext before(driver_, Context(2));
    EXPECT_EQ(fake.current, Context(2));
    EXPECT_EQ(before.context(), Context(1));
    EXPECT_EQ(before.result(), CUDA_SUCCESS);
  }
  EXPECT_EQ(fake.current, Context(1));
}

TEST_F(CurrentContextTest, AThreadWithoutAContextHasNoneAgain) {
  fake.current = nullptr;
  {
    const CurrentContext before(driver_, Context(2));
    EXPECT_EQ(fake.current, Context(2));
    EXPECT_EQ(before.context(), nullptr);
  }
  EXPECT_EQ(fake.current, nullptr);
}

TEST_F(CurrentContextTest, ContextThatIsGoneIsToldAndTheThreadKeepsItsOwn) {
  fake.dead = Context(2);
  {
    const CurrentContext before(driver_, Context(2));
    EXPECT_EQ(before.result(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EXPECT_EQ(fake.current, Context(1));
  }
  EXPECT_EQ(fake.current, Context(1));
}

TEST_F(CurrentContextTest, AskingIsTriedAgain) {
  fake.refused_gets = 2;
  { const CurrentContext before(driver_, Context(2)); }
  EXPECT_EQ(fake.current, Context(1));
}

TEST_F(CurrentContextTest, NothingIsSetWhereItCouldNotBePutBack) {
  fake.refused_gets = 100;
  {
    const CurrentContext before(driver_, Context(2));
    EXPECT_NE(before.result(), CUDA_SUCCESS);
    EXPECT_EQ(before.context(), nullptr);
  }
  EXPECT_EQ(fake.sets, 0);
}

}  // namespace
}  // namespace ebt
