#include "server/engine/rate_limit.h"

#include <algorithm>

#include "server/engine/clock.h"

namespace stowage {

std::optional<double> RateLimit::Refuses(absl::string_view client, Clock::time_point now,
                                         std::optional<double> own_rate, double weight) {
  MutexLock lock(mutex_);
  const double rate = own_rate.value_or(per_second_);
  if (rate <= 0) return std::nullopt;
  auto place = due_.find(client);
  if (place == due_.end()) {
    if (due_.size() >= most_clients_) ForgetPassed(now);
    place = due_.emplace(std::string(client), now).first;
  }
  const Clock::time_point due = std::max(place->second, now);
  const double ahead_seconds = SecondsBetween(now, due);
  if (ahead_seconds > burst_seconds_) return ahead_seconds - burst_seconds_;
  place->second = After(due, weight / rate);
  return std::nullopt;
}

void RateLimit::SetRate(double per_second) {
  MutexLock lock(mutex_);
  per_second_ = per_second;
}

// Doubling the bound keeps the cost of a client at O(1), however many are active at once.
void RateLimit::ForgetPassed(Clock::time_point now) {
  constexpr size_t kLeastBound = 1024;
  for (auto place = due_.begin(); place != due_.end();) {
    const auto each = place++;
    if (each->second <= now) due_.erase(each);
  }
  most_clients_ = std::max(kLeastBound, 2 * due_.size());
}

}  // namespace stowage
