#include "server/engine/solves/waiter.h"

#include <algorithm>

#include "solver/base/time/clock.h"

namespace stowage {

// The margin before a deadline is a twentieth of the time that the caller allows, at least 50 ms,
// but never more than a quarter of it.
Timers::Clock::time_point DueFor(double time_budget_seconds, const Caller& caller,
                                 Timers::Clock::time_point arrived) {
  Timers::Clock::time_point due = Timers::Clock::time_point::max();
  if (time_budget_seconds > 0) due = After(arrived, time_budget_seconds);
  if (caller.deadline == Timers::Clock::time_point::max()) return due;
  const double left = SecondsBetween(arrived, caller.deadline);
  const double margin = std::min(left / 4, std::max(0.05, left / 20));
  return std::min(due, After(arrived, left - margin));
}

}  // namespace stowage
