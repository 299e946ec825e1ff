// Limits how often each client may do something: calls, log lines.
#ifndef STOWAGE_SOLVER_BASE_TIME_RATE_LIMIT_H_
#define STOWAGE_SOLVER_BASE_TIME_RATE_LIMIT_H_

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "solver/base/mutex.h"

namespace stowage {

// The generic cell rate algorithm (ITU-T I.371): each event moves a client's due time by
// its weight / `per_second`, and an event is refused where that time is more than `burst_seconds`
// ahead. A client is forgotten once its due time has passed. Thread-safe. O(1), amortized.
class RateLimit {
 public:
  using Clock = std::chrono::steady_clock;

  // `per_second`: 0 for no limit.
  RateLimit(double per_second, double burst_seconds)
      : per_second_(per_second), burst_seconds_(burst_seconds) {}

  // Counts an event of `client`, as `weight` ordinary ones. nullopt: it is within the limit.
  // Otherwise it does not count, and the result is the number of seconds until one would be.
  // `own_rate` replaces the limit for this client.
  std::optional<double> Refuses(absl::string_view client, Clock::time_point now,
                                std::optional<double> own_rate = std::nullopt, double weight = 1);

  // Counts an event of `client` that cannot be refused any more, as `weight` ordinary ones, but not
  // as more than fit into `burst_seconds`: one event delays the next ones by no more than that.
  void Charge(absl::string_view client, Clock::time_point now, std::optional<double> own_rate,
              double weight);

  void SetRate(double per_second);

 private:
  // When the events of `client` so far are paid for: now, or later.
  Clock::time_point& DueOf(absl::string_view client, Clock::time_point now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetPassed(Clock::time_point now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  double per_second_ ABSL_GUARDED_BY(mutex_);
  const double burst_seconds_;
  absl::flat_hash_map<std::string, Clock::time_point> due_ ABSL_GUARDED_BY(mutex_);
  size_t max_clients_ ABSL_GUARDED_BY(mutex_) = 1024;  // then those that are due are forgotten
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_BASE_TIME_RATE_LIMIT_H_
