// The longest time that one solve may take.
#ifndef STOWAGE_SERVER_ENGINE_TIME_LIMIT_H_
#define STOWAGE_SERVER_ENGINE_TIME_LIMIT_H_

#include <memory>
#include <stop_token>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/engine/clock.h"
#include "server/engine/plain_job.h"
#include "server/engine/timers.h"

namespace stowage {

// A stop token that is set when another one is, or after so many seconds. Borrows the timers.
class TimeLimit {
 public:
  TimeLimit(double seconds, std::stop_token other, Timers* timers)
      : seconds_(seconds),
        timers_(*timers),
        either_(std::move(other), over_->get_token()),
        timer_(timers_.At(After(Timers::Clock::now(), seconds),
                          [over = over_] { over->request_stop(); })) {}
  ~TimeLimit() { timers_.Cancel(timer_); }
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

  std::stop_token token() const { return either_.token(); }
  bool is_over() const { return over_->stop_requested(); }
  // For callers of a solve without a schedule.
  absl::Status Exceeded() const {
    return absl::DeadlineExceededError(
        absl::StrCat("no schedule was found within ", seconds_,
                     " s, the longest time that this server spends on a solve; ask for less, or "
                     "for more memory"));
  }
  absl::Status ExceededBySimulation() const {
    return absl::DeadlineExceededError(
        absl::StrCat("the simulation did not end within ", seconds_,
                     " s, the longest time that this server spends on one; send a shorter "
                     "schedule"));
  }

 private:
  const double seconds_;
  Timers& timers_;
  // Shared with the timer, which may run while the limit is destroyed.
  const std::shared_ptr<std::stop_source> over_ = std::make_shared<std::stop_source>();
  const EitherStop either_;
  const Timers::Id timer_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_TIME_LIMIT_H_
