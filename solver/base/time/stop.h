// Stop tokens that follow other tokens, deadlines and time budgets. None of these classes can be
// moved.
#ifndef STOWAGE_SOLVER_BASE_TIME_STOP_H_
#define STOWAGE_SOLVER_BASE_TIME_STOP_H_

#include <atomic>
#include <functional>
#include <memory>
#include <stop_token>
#include <utility>

#include "solver/base/time/clock.h"
#include "solver/base/time/timers.h"

namespace stowage {

// A stop token that is set when either of two others is.
class EitherStop {
 public:
  EitherStop(std::stop_token first, std::stop_token second)
      : on_first_(std::move(first), [this] { source_.request_stop(); }),
        on_second_(std::move(second), [this] { source_.request_stop(); }) {}

  std::stop_token token() const { return source_.get_token(); }

 private:
  using Callback = std::stop_callback<std::function<void()>>;
  std::stop_source source_;
  Callback on_first_;  // the callbacks hold `this`
  Callback on_second_;
};

// A stop token that is set when another one is, or after so many seconds. Borrows the timers.
class TimedStop {
 public:
  TimedStop(double seconds, std::stop_token other, Timers* timers)
      : timers_(*timers),
        either_(std::move(other), over_->get_token()),
        timer_(timers_.At(After(Timers::Clock::now(), seconds),
                          [over = over_] { over->request_stop(); })) {}
  ~TimedStop() { timers_.Cancel(timer_); }
  TimedStop(const TimedStop&) = delete;
  TimedStop& operator=(const TimedStop&) = delete;

  std::stop_token token() const { return either_.token(); }
  // Whether the time is over.
  bool is_over() const { return over_->stop_requested(); }

 private:
  Timers& timers_;
  // Shared with the timer, which may run while this is destroyed.
  const std::shared_ptr<std::stop_source> over_ = std::make_shared<std::stop_source>();
  const EitherStop either_;
  const Timers::Id timer_;
};

// The time budget of a solve: a stop token that is set when another one is, or once so many seconds
// are over and there is a schedule. Borrows the timers.
class TimeBudget {
 public:
  TimeBudget(double seconds, std::stop_token other, Timers* timers)
      : timers_(*timers),
        either_(std::move(other), state_->enough.get_token()),
        timer_(timers_.At(After(Timers::Clock::now(), seconds), [state = state_] {
          state->is_over = true;
          if (state->has_schedule) state->enough.request_stop();
        })) {}
  ~TimeBudget() { timers_.Cancel(timer_); }
  TimeBudget(const TimeBudget&) = delete;
  TimeBudget& operator=(const TimeBudget&) = delete;

  std::stop_token token() const { return either_.token(); }
  // The solve has its first schedule, or one more.
  void HasSchedule() {
    state_->has_schedule = true;
    if (state_->is_over) state_->enough.request_stop();
  }

 private:
  // Each side sets its own flag before it reads the other's: one of them sees both.
  struct State {
    std::stop_source enough;
    std::atomic<bool> is_over{false};
    std::atomic<bool> has_schedule{false};
  };

  Timers& timers_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();  // as in TimedStop
  const EitherStop either_;
  const Timers::Id timer_;
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_BASE_TIME_STOP_H_
