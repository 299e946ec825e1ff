// Which failed calls to retry, and after which pause.
#ifndef STOWAGE_CLIENT_LIB_RETRY_H_
#define STOWAGE_CLIENT_LIB_RETRY_H_

#include <cstdint>
#include <optional>
#include <random>

#include "absl/status/status.h"

namespace stowage {

// Whether the same request may succeed later: UNAVAILABLE (no server listens, it drains, or it
// ended before it answered) and RESOURCE_EXHAUSTED with advice (its queue is full).
bool IsRetryable(const absl::Status& status);

// The pause that the server advises with a RESOURCE_EXHAUSTED, in seconds; a payload of the status.
std::optional<double> AdvisedPause(const absl::Status& status);
void SetAdvisedPause(double seconds, absl::Status* status);

// Why a call failed, as far as that decides where it is repeated.
enum class FailureCause {
  kOther,             // no server listens, it drains, its queue is full: another one may answer
  kBrokenConnection,  // while the server had the call: the request may be what ended it
  kCallersLimit,      // the caller itself sends more than it may: not a matter of the server
};

// A payload of the status.
FailureCause CauseOf(const absl::Status& status);
void SetCause(FailureCause cause, absl::Status* status);

// Exponential backoff with jitter: pause n is uniform in [1/2, 1] * min(2, 0.1 * 2^n) seconds, so
// that the ranks of a job spread their retries, and at least [1, 3/2] times the advised pause.
// Thread-compatible.
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
