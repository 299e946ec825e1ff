#include "client/lib/rpc/failure.h"

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "stowage/v1/errors.pb.h"

namespace stowage {
namespace {

// The payloads' keys. Pause, cause and obstacle are decimal text, the violations a v1::Violations,
// the others are text.
constexpr char kAdvice[] = "stowage/retry_after_seconds";
constexpr char kCause[] = "stowage/failure_cause";
constexpr char kNotSent[] = "stowage/not_sent";
constexpr char kObstacle[] = "stowage/obstacle";
constexpr char kReason[] = "stowage/reason";
constexpr char kViolations[] = "stowage/violations";
constexpr char kRequestId[] = "stowage/request_id";

std::optional<std::string> Payload(const absl::Status& status, const char* key) {
  const absl::optional<absl::Cord> payload = status.GetPayload(key);
  if (!payload.has_value()) return std::nullopt;
  return std::string(*payload);
}

template <typename Value>
Value Enumerator(const absl::Status& status, const char* key, Value otherwise) {
  int value = 0;
  const std::optional<std::string> text = Payload(status, key);
  return text.has_value() && absl::SimpleAtoi(*text, &value) ? static_cast<Value>(value)
                                                             : otherwise;
}

template <typename Value>
void SetEnumerator(const char* key, Value value, absl::Status* status) {
  status->SetPayload(key, absl::Cord(absl::StrCat(static_cast<int>(value))));
}

}  // namespace

std::optional<double> AdvisedPause(const absl::Status& status) {
  const std::optional<std::string> text = Payload(status, kAdvice);
  double seconds = 0;
  if (!text.has_value() || !absl::SimpleAtod(*text, &seconds)) return std::nullopt;
  return seconds;
}

void SetAdvisedPause(double seconds, absl::Status* status) {
  status->SetPayload(kAdvice, absl::Cord(absl::StrCat(seconds)));
}

FailureCause CauseOf(const absl::Status& status) {
  return Enumerator(status, kCause, FailureCause::kOther);
}

void SetCause(FailureCause cause, absl::Status* status) { SetEnumerator(kCause, cause, status); }

bool WasNotSent(const absl::Status& status) { return Payload(status, kNotSent).has_value(); }

void SetNotSent(absl::Status* status) { status->SetPayload(kNotSent, absl::Cord()); }

Obstacle ObstacleOf(const absl::Status& status) {
  return Enumerator(status, kObstacle, Obstacle::kNone);
}

void SetObstacle(Obstacle obstacle, absl::Status* status) {
  SetEnumerator(kObstacle, obstacle, status);
}

std::string ReasonOf(const absl::Status& status) { return Payload(status, kReason).value_or(""); }

void SetReason(absl::string_view reason, absl::Status* status) {
  status->SetPayload(kReason, absl::Cord(reason));
}

std::vector<FieldViolation> ViolationsOf(const absl::Status& status) {
  v1::Violations message;
  std::vector<FieldViolation> violations;
  if (!message.ParseFromString(Payload(status, kViolations).value_or(""))) return violations;
  for (const v1::FieldViolation& violation : message.violations()) {
    violations.push_back({violation.field(), violation.problem()});
  }
  return violations;
}

void SetViolations(const std::vector<FieldViolation>& violations, absl::Status* status) {
  v1::Violations message;
  for (const FieldViolation& violation : violations) {
    v1::FieldViolation& out = *message.add_violations();
    out.set_field(violation.field);
    out.set_problem(violation.problem);
  }
  status->SetPayload(kViolations, absl::Cord(message.SerializeAsString()));
}

absl::Status WithRequestId(const absl::Status& status, absl::string_view id) {
  absl::Status identified = status;
  identified.SetPayload(kRequestId, absl::Cord(id));
  return WithMessage(identified, status.message());
}

absl::Status WithMessage(const absl::Status& status, absl::string_view message) {
  const std::optional<std::string> id = Payload(status, kRequestId);
  absl::Status reworded(status.code(), id.has_value()
                                           ? absl::StrCat(message, " (request ", *id, ")")
                                           : std::string(message));
  status.ForEachPayload([&reworded](absl::string_view key, const absl::Cord& payload) {
    reworded.SetPayload(key, payload);
  });
  return reworded;
}

}  // namespace stowage
