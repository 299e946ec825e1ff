// When to ask a server again, and when not to.
#ifndef STOWAGE_CLIENT_LIB_RETRY_H_
#define STOWAGE_CLIENT_LIB_RETRY_H_

#include <cstdint>
#include <optional>
#include <random>

#include "absl/status/status.h"

namespace stowage {

// Whether the same request may succeed a little later: UNAVAILABLE (nobody listens, it drains, it
// died before it answered) and RESOURCE_EXHAUSTED with advice (its queue is full).
bool IsRetryable(const absl::Status& status);

// The server's advice with a RESOURCE_EXHAUSTED, seconds.
std::optional<double> AdvisedPause(const absl::Status& status);
void SetAdvisedPause(double seconds, absl::Status* status);

// Pauses between attempts: 0.1 s at first, doubled up to 2 s, each drawn from its upper half so
// that a thousand ranks do not come back at the same moment; never less than advised.
class Backoff {
 public:
  explicit Backoff(uint32_t seed) : random_(seed) {}

  double NextSeconds(const absl::Status& failure);

 private:
  std::mt19937 random_;
  double most_seconds_ = 0.1;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_LIB_RETRY_H_
