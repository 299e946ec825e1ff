// Which failed calls to retry, and after which pause.
#ifndef STOWAGE_CLIENT_LIB_RPC_RETRY_H_
#define STOWAGE_CLIENT_LIB_RPC_RETRY_H_

#include <cstdint>
#include <random>

#include "absl/status/status.h"

namespace stowage {

// Whether the same request may succeed later: UNAVAILABLE (no server listens, it drains, or it
// ended before it answered) and RESOURCE_EXHAUSTED with advice (its queue is full).
bool IsRetryable(const absl::Status& status);

// Exponential backoff with jitter: pause n is uniform in [1/2, 1] * min(2, 0.1 * 2^n) seconds, so
// that the ranks of a job spread their retries, and at least [1, 3/2] times the advised pause.
// Thread-compatible.
class Backoff {
 public:
  explicit Backoff(uint32_t seed) : random_(seed) {}

  double NextSeconds(const absl::Status& failure);

 private:
  std::mt19937 random_;
  double max_seconds_ = 0.1;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_LIB_RPC_RETRY_H_
