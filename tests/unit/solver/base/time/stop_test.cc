#include "solver/base/time/stop.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <thread>

namespace stowage {
namespace {

constexpr double kShort = 0.005;
constexpr double kLong = 3600;

// Returns once the token is set.
void Await(const std::stop_token& token) {
  std::promise<void> stopped;
  const std::stop_callback on_stop(token, [&stopped] { stopped.set_value(); });
  stopped.get_future().wait();
}

// Returns once the timers have called all that was due before.
void AwaitSeconds(Timers& timers, double seconds) {
  std::promise<void> passed;
  timers.At(After(Timers::Clock::now(), seconds), [&passed] { passed.set_value(); });
  passed.get_future().wait();
}

TEST(EitherStop, FollowsBoth) {
  for (const bool is_first : {true, false}) {
    std::stop_source first;
    std::stop_source second;
    const EitherStop either(first.get_token(), second.get_token());
    EXPECT_FALSE(either.token().stop_requested());
    (is_first ? first : second).request_stop();
    EXPECT_TRUE(either.token().stop_requested());
  }
}

TEST(EitherStop, IsSetAtOnceByATokenThatIsSet) {
  std::stop_source set;
  set.request_stop();
  EXPECT_TRUE(EitherStop(set.get_token(), {}).token().stop_requested());
}

TEST(TimedStop, IsSetAfterItsTime) {
  Timers timers;
  const TimedStop stop(kShort, {}, &timers);
  Await(stop.token());
  EXPECT_TRUE(stop.is_over());
}

TEST(TimedStop, TellsTheOtherTokenFromItsTime) {
  Timers timers;
  std::stop_source other;
  const TimedStop stop(kLong, other.get_token(), &timers);
  EXPECT_FALSE(stop.token().stop_requested());
  other.request_stop();
  EXPECT_TRUE(stop.token().stop_requested());
  EXPECT_FALSE(stop.is_over());
}

TEST(TimeBudget, EndsWithTheFirstScheduleAfterItsTime) {
  Timers timers;
  TimeBudget budget(kShort, {}, &timers);
  AwaitSeconds(timers, 2 * kShort);
  EXPECT_FALSE(budget.token().stop_requested()) << "there is no schedule yet";
  budget.HasSchedule();
  EXPECT_TRUE(budget.token().stop_requested());
}

TEST(TimeBudget, EndsAfterItsTimeWhereThereIsASchedule) {
  Timers timers;
  TimeBudget budget(kShort, {}, &timers);
  budget.HasSchedule();
  Await(budget.token());
}

TEST(TimeBudget, IsNotOverBefore) {
  Timers timers;
  std::stop_source caller;
  TimeBudget budget(kLong, caller.get_token(), &timers);
  budget.HasSchedule();
  EXPECT_FALSE(budget.token().stop_requested());
  caller.request_stop();
  EXPECT_TRUE(budget.token().stop_requested());
}

// What is destroyed at the moment when it is due is neither used nor waited for.
TEST(TimeBudget, MayBeDestroyedWhenItIsDue) {
  Timers timers;
  for (int i = 0; i < 200; ++i) {
    TimeBudget budget(1e-4, {}, &timers);
    const TimedStop stop(1e-4, budget.token(), &timers);
    budget.HasSchedule();
    std::this_thread::sleep_for(std::chrono::microseconds(i));
  }
}

}  // namespace
}  // namespace stowage
