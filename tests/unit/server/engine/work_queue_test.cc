#include "server/engine/work_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <vector>

#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kLong{60};

TEST(WorkQueue, RunsEverythingOnce) {
  std::atomic<int> runs{0};
  {
    WorkQueue queue({.threads = 4, .most_waiting = 1000});
    for (int i = 0; i < 500; ++i) ASSERT_THAT(queue.Add([&runs] { ++runs; }), IsOk());
  }  // the destructor runs what is queued
  EXPECT_EQ(runs, 500);
}

TEST(WorkQueue, RefusesWhatDoesNotFitAndSaysWhen) {
  std::promise<void> go;
  std::shared_future<void> gone = go.get_future().share();
  WorkQueue queue({.threads = 1, .most_waiting = 2});
  // One runs (or is about to), two wait.
  for (int i = 0; i < 3; ++i) ASSERT_THAT(queue.Add([gone] { gone.wait(); }), IsOk());
  EXPECT_THAT(queue.Add([] {}),
              Fails(absl::StatusCode::kResourceExhausted, testing::HasSubstr("try again")));
  go.set_value();
  EXPECT_TRUE(queue.WaitUntilIdle(Clock::now() + kLong));
  EXPECT_THAT(queue.Add([] {}), IsOk());
}

TEST(WorkQueue, TakesWorkForAFreeThreadEvenWithNoRoomToWait) {
  WorkQueue queue({.threads = 2, .most_waiting = 0});
  for (int i = 0; i < 100; ++i) {
    ASSERT_THAT(queue.Add([] {}), IsOk());
    ASSERT_TRUE(queue.WaitUntilIdle(Clock::now() + kLong));
  }
}

TEST(WorkQueue, FinishesWhatItHasAfterClose) {
  std::atomic<int> runs{0};
  WorkQueue queue({.threads = 2, .most_waiting = 100});
  for (int i = 0; i < 50; ++i) ASSERT_THAT(queue.Add([&runs] { ++runs; }), IsOk());
  queue.Close();
  EXPECT_THAT(queue.Add([] {}),
              Fails(absl::StatusCode::kUnavailable, testing::HasSubstr("draining")));
  EXPECT_TRUE(queue.WaitUntilIdle(Clock::now() + kLong));
  EXPECT_EQ(runs, 50);
}

TEST(WorkQueue, GivesUpWaitingAtTheDeadline) {
  std::promise<void> go;
  WorkQueue queue({.threads = 1, .most_waiting = 0});
  ASSERT_THAT(queue.Add([gone = go.get_future().share()] { gone.wait(); }), IsOk());
  EXPECT_FALSE(queue.WaitUntilIdle(Clock::now() + std::chrono::milliseconds(5)));
  go.set_value();
}

TEST(WorkQueue, FreesWorkBeforeItIsIdle) {
  const auto held = std::make_shared<int>(1);
  WorkQueue queue({.threads = 1, .most_waiting = 0});
  ASSERT_THAT(queue.Add([copy = held] { EXPECT_EQ(*copy, 1); }), IsOk());
  ASSERT_TRUE(queue.WaitUntilIdle(Clock::now() + kLong));
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace stowage
