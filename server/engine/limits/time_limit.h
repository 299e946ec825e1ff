// The longest time that one solve may take.
#ifndef STOWAGE_SERVER_ENGINE_LIMITS_TIME_LIMIT_H_
#define STOWAGE_SERVER_ENGINE_LIMITS_TIME_LIMIT_H_

#include <stop_token>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "solver/base/time/stop.h"

namespace stowage {

// A TimedStop, with what callers are told where it is over.
class TimeLimit : public TimedStop {
 public:
  TimeLimit(double seconds, std::stop_token other, Timers* timers)
      : TimedStop(seconds, std::move(other), timers), seconds_(seconds) {}

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
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_LIMITS_TIME_LIMIT_H_
