#include "solver/base/time/timers.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>

namespace stowage {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

TEST(Timers, CallInTheOrderInWhichTheyAreDue) {
  std::string order;
  std::promise<void> done;
  Timers timers;
  const auto now = Timers::Clock::now();
  timers.At(now + milliseconds(30), [&] {
    order += "c";
    done.set_value();
  });
  timers.At(now + milliseconds(10), [&] { order += "a"; });
  timers.At(now + milliseconds(20), [&] { order += "b"; });
  done.get_future().wait();
  EXPECT_EQ(order, "abc");
}

TEST(Timers, DropWhatIsCancelled) {
  const auto held = std::make_shared<int>(1);
  Timers timers;
  const Timers::Id id = timers.At(Timers::Clock::now() + hours(1), [held] {});
  EXPECT_EQ(held.use_count(), 2);
  timers.Cancel(id);
  EXPECT_EQ(held.use_count(), 1);
  timers.Cancel(id);
  timers.Cancel({});
}

TEST(Timers, WakeUpForWhatIsDueBeforeTheOthers) {
  std::promise<void> done;
  Timers timers;
  timers.At(Timers::Clock::now() + hours(1), [] {});
  timers.At(Timers::Clock::now(), [&] { done.set_value(); });
  EXPECT_EQ(done.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
}

}  // namespace
}  // namespace stowage
