#include "solver/base/time/rate_limit.h"

#include <algorithm>

#include "solver/base/time/clock.h"

namespace stowage {

RateLimit::Clock::time_point& RateLimit::DueOf(absl::string_view client, Clock::time_point now) {
  auto place = due_.find(client);
  if (place == due_.end()) {
    if (due_.size() >= max_clients_) ForgetPassed(now);
    place = due_.emplace(std::string(client), now).first;
  }
  place->second = std::max(place->second, now);
  return place->second;
}

std::optional<double> RateLimit::Refuses(absl::string_view client, Clock::time_point now,
                                         std::optional<double> own_rate, double weight) {
  MutexLock lock(mutex_);
  const double rate = own_rate.value_or(per_second_);
  if (rate <= 0) return std::nullopt;
  Clock::time_point& due = DueOf(client, now);
  const double ahead_seconds = SecondsBetween(now, due);
  if (ahead_seconds > burst_seconds_) return ahead_seconds - burst_seconds_;
  due = After(due, weight / rate);
  return std::nullopt;
}

void RateLimit::Charge(absl::string_view client, Clock::time_point now,
                       std::optional<double> own_rate, double weight) {
  MutexLock lock(mutex_);
  const double rate = own_rate.value_or(per_second_);
  if (rate <= 0) return;
  Clock::time_point& due = DueOf(client, now);
  due = After(due, std::min(weight / rate, burst_seconds_));
}

void RateLimit::SetRate(double per_second) {
  MutexLock lock(mutex_);
  per_second_ = per_second;
}

// Doubling the bound keeps the cost of a client at O(1), however many are active at once.
void RateLimit::ForgetPassed(Clock::time_point now) {
  constexpr size_t kMinBound = 1024;
  for (auto place = due_.begin(); place != due_.end();) {
    const auto each = place++;
    if (each->second <= now) due_.erase(each);
  }
  max_clients_ = std::max(kMinBound, 2 * due_.size());
}

}  // namespace stowage
