#include "client/lib/rpc/retry.h"

#include <algorithm>

#include "client/lib/rpc/failure.h"

namespace stowage {

bool IsRetryable(const absl::Status& status) {
  return absl::IsUnavailable(status) ||
         (absl::IsResourceExhausted(status) && AdvisedPause(status).has_value());
}

// `share` is uniform in [1/2, 1): 32 random bits times 2^-33, plus 1/2. The advised pause gets
// jitter upwards only, so that no caller comes back before it.
double Backoff::NextSeconds(const absl::Status& failure) {
  constexpr double kMaxPause = 2;
  const double share = 0.5 + static_cast<double>(random_()) * 0x1p-33;
  const double pause = max_seconds_ * share;
  max_seconds_ = std::min(kMaxPause, 2 * max_seconds_);
  return std::max(pause, AdvisedPause(failure).value_or(0) * (0.5 + share));
}

}  // namespace stowage
