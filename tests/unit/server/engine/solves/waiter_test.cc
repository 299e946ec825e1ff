#include "server/engine/solves/waiter.h"

#include <gtest/gtest.h>

#include <chrono>

#include "solver/base/time/clock.h"

namespace stowage {
namespace {

using Clock = Timers::Clock;
using std::chrono::seconds;

constexpr Clock::time_point kArrived = Clock::time_point() + seconds(1000);

double SecondsUntilDue(double time_budget_seconds, double allowed_seconds) {
  const Caller caller = {.deadline = After(kArrived, allowed_seconds)};
  return SecondsBetween(kArrived, DueFor(time_budget_seconds, caller, kArrived));
}

TEST(DueFor, WithoutABudgetOrADeadlineIsNever) {
  EXPECT_EQ(DueFor(0, {}, kArrived), Clock::time_point::max());
  EXPECT_EQ(DueFor(2, {}, kArrived), kArrived + seconds(2));
}

TEST(DueFor, LeavesTimeForTheResponseBeforeADeadline) {
  EXPECT_NEAR(SecondsUntilDue(0, 20), 19, 1e-6) << "a twentieth";
  EXPECT_NEAR(SecondsUntilDue(0, 0.5), 0.45, 1e-6) << "at least 50 ms";
  EXPECT_NEAR(SecondsUntilDue(0, 0.1), 0.075, 1e-6) << "at most a quarter";
}

TEST(DueFor, IsTheEarlierOfBoth) {
  EXPECT_NEAR(SecondsUntilDue(2, 20), 2, 1e-6);
  EXPECT_NEAR(SecondsUntilDue(30, 20), 19, 1e-6);
}

TEST(DueFor, ADeadlineThatHasPassedIsDueAtOnce) {
  EXPECT_EQ(DueFor(0, {.deadline = kArrived - seconds(1)}, kArrived), kArrived);
}

}  // namespace
}  // namespace stowage
