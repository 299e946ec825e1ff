#include "client/lib/retry.h"

#include <algorithm>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace stowage {
namespace {

// The key of the status payload: the pause in seconds, as decimal text.
constexpr char kAdvice[] = "stowage/retry_after_seconds";
// The same of the cause: one of these.
constexpr char kCause[] = "stowage/failure_cause";
constexpr char kBrokenConnection[] = "broken_connection";
constexpr char kCallersLimit[] = "callers_limit";

}  // namespace

bool IsRetryable(const absl::Status& status) {
  return absl::IsUnavailable(status) ||
         (absl::IsResourceExhausted(status) && AdvisedPause(status).has_value());
}

std::optional<double> AdvisedPause(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kAdvice);
  double seconds = 0;
  if (!payload.has_value() || !absl::SimpleAtod(std::string(*payload), &seconds)) {
    return std::nullopt;
  }
  return seconds;
}

void SetAdvisedPause(double seconds, absl::Status* status) {
  status->SetPayload(kAdvice, absl::Cord(absl::StrCat(seconds)));
}

FailureCause CauseOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kCause);
  if (payload == kBrokenConnection) return FailureCause::kBrokenConnection;
  if (payload == kCallersLimit) return FailureCause::kCallersLimit;
  return FailureCause::kOther;
}

void SetCause(FailureCause cause, absl::Status* status) {
  switch (cause) {
    case FailureCause::kOther:
      status->ErasePayload(kCause);
      return;
    case FailureCause::kBrokenConnection:
      return status->SetPayload(kCause, absl::Cord(kBrokenConnection));
    case FailureCause::kCallersLimit:
      return status->SetPayload(kCause, absl::Cord(kCallersLimit));
  }
}

// `share` is uniform in [1/2, 1): 32 random bits times 2^-33, plus 1/2. The advised pause gets
// jitter upwards only, so that no caller comes back before it.
double Backoff::NextSeconds(const absl::Status& failure) {
  constexpr double kMostPause = 2;
  const double share = 0.5 + static_cast<double>(random_()) * 0x1p-33;
  const double pause = most_seconds_ * share;
  most_seconds_ = std::min(kMostPause, 2 * most_seconds_);
  return std::max(pause, AdvisedPause(failure).value_or(0) * (0.5 + share));
}

}  // namespace stowage
