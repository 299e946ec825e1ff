#include "server/rpc/messages/status.h"

#include <cmath>
#include <cstddef>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/util/time_util.h"
#include "google/rpc/error_details.pb.h"
#include "server/events/rejection.h"
#include "solver/base/quote.h"
#include "stowage/v1/errors.pb.h"

namespace stowage {
namespace {

// Clients accept 8 KiB of trailers by default. The text may be percent-encoded to three times its
// size; the details, which repeat it, are base64, and have the violations twice:
// 3 * 800 + 4/3 * (800 + 2 * 900 + names of types and fields) < 7000. The other trailers, of which
// the id is the longest, take less than 1000.
constexpr size_t kMessageBytes = 800;
constexpr size_t kDetailBytes = 900;

// Payload of an absl::Status: a serialized v1::Violations.
constexpr char kViolationsPayload[] = "stowage.v1.Violations";

// While draining the next try is for another server.
constexpr double kRetryElsewhereSeconds = 1;

google::rpc::BadRequest BadRequestFor(const v1::Violations& violations) {
  google::rpc::BadRequest bad;
  for (const v1::FieldViolation& violation : violations.violations()) {
    google::rpc::BadRequest::FieldViolation& out = *bad.add_field_violations();
    out.set_field(violation.field());
    out.set_description(violation.problem());
  }
  return bad;
}

// The word of the rejection, or else the code's name: "QUEUE_FULL", "DEADLINE_EXCEEDED".
google::rpc::ErrorInfo InfoFor(const absl::Status& status) {
  google::rpc::ErrorInfo info;
  const std::string reason = RejectionOf(status);
  info.set_reason(reason.empty() ? absl::StatusCodeToString(status.code())
                                 : absl::AsciiStrToUpper(reason));
  info.set_domain("stowage");
  return info;
}

// 0: trying again does not help.
double RetrySeconds(const absl::Status& status) {
  if (absl::IsUnavailable(status)) return kRetryElsewhereSeconds;
  const auto payload = status.GetPayload(kRetryPayload);
  double seconds = 0;
  return payload.has_value() && absl::SimpleAtod(std::string(*payload), &seconds) ? seconds : 0;
}

void AddRetry(double seconds, v1::ErrorStatus* status) {
  v1::RetryAdvice advice;
  advice.set_retry_after_seconds(seconds);
  status->add_details()->PackFrom(advice);
  google::rpc::RetryInfo info;
  *info.mutable_retry_delay() =
      google::protobuf::util::TimeUtil::MillisecondsToDuration(std::llround(1e3 * seconds));
  status->add_details()->PackFrom(info);
}

// Retry policies tell refusals apart by their codes alone, and RESOURCE_EXHAUSTED has both kinds.
void PushBack(double seconds, const absl::Status& status, grpc::ServerContextBase* context) {
  constexpr const char* kPushback = "grpc-retry-pushback-ms";
  if (seconds > 0) {
    context->AddTrailingMetadata(kPushback, absl::StrCat(std::llround(1e3 * seconds)));
  } else if (absl::IsResourceExhausted(status)) {
    context->AddTrailingMetadata(kPushback, "-1");
  }
}

}  // namespace

// At least one violation is sent, however long it is; `more` counts those that are left out.
absl::Status InvalidRequest(const std::vector<FieldViolation>& violations) {
  if (violations.empty()) return absl::OkStatus();
  v1::Violations detail;
  size_t bytes = 0;
  for (const FieldViolation& violation : violations) {
    bytes += violation.field.size() + violation.problem.size() + 8;
    if (bytes > kDetailBytes && detail.violations_size() > 0) break;
    v1::FieldViolation& out = *detail.add_violations();
    out.set_field(violation.field);
    out.set_problem(violation.problem);
  }
  detail.set_more(static_cast<int64_t>(violations.size()) - detail.violations_size());
  constexpr size_t kCountBytes = 60;  // of what tells how many are left out
  absl::Status status = ViolationsStatus(violations, kMessageBytes - kCountBytes);
  status.SetPayload(kViolationsPayload, absl::Cord(detail.SerializeAsString()));
  return status;
}

// The helpers of gRPC's client libraries require that the details repeat code and message.
grpc::Status ToGrpc(const absl::Status& status, grpc::ServerContextBase* context) {
  if (status.ok()) return grpc::Status::OK;
  const auto code = static_cast<grpc::StatusCode>(status.code());  // the numbers are the same
  const std::string message = Shortened(status.message(), kMessageBytes);
  v1::ErrorStatus details;
  details.set_code(code);
  details.set_message(message);
  details.add_details()->PackFrom(InfoFor(status));
  v1::Violations violations;
  const auto payload = status.GetPayload(kViolationsPayload);
  if (payload.has_value() && violations.ParseFromString(std::string(*payload))) {
    details.add_details()->PackFrom(violations);
    details.add_details()->PackFrom(BadRequestFor(violations));
  }
  const double retry_seconds = RetrySeconds(status);
  if (retry_seconds > 0) AddRetry(retry_seconds, &details);
  PushBack(retry_seconds, status, context);
  return {code, message, details.SerializeAsString()};
}

}  // namespace stowage
