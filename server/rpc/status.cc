#include "server/rpc/status.h"

#include <cstddef>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "google/protobuf/message.h"
#include "solver/base/quote.h"
#include "stowage/v1/errors.pb.h"

namespace stowage {
namespace {

// Clients accept 8 KiB of trailers by default. The text may be percent-encoded to three times its
// size; the details, which repeat it, are base64: 3 * 1000 + 4/3 * (1000 + 1800 + names) < 7000.
constexpr size_t kMessageBytes = 1000;
constexpr size_t kDetailBytes = 1800;

// Payload of an absl::Status: a serialized v1::Violations.
constexpr char kViolationsPayload[] = "stowage.v1.Violations";

// The helpers of gRPC's client libraries require that the details repeat code and message.
grpc::Status WithDetail(grpc::StatusCode code, const std::string& message,
                        const google::protobuf::Message& detail) {
  v1::ErrorStatus status;
  status.set_code(code);
  status.set_message(message);
  status.add_details()->PackFrom(detail);
  return {code, message, status.SerializeAsString()};
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
  absl::Status status = ViolationsStatus(violations, kMessageBytes);
  status.SetPayload(kViolationsPayload, absl::Cord(detail.SerializeAsString()));
  return status;
}

grpc::Status ToGrpc(const absl::Status& status) {
  const auto code = static_cast<grpc::StatusCode>(status.code());  // the numbers are the same
  const std::string message = Shortened(status.message(), kMessageBytes);
  if (const auto payload = status.GetPayload(kViolationsPayload)) {
    v1::Violations detail;
    if (detail.ParseFromString(std::string(*payload))) return WithDetail(code, message, detail);
  }
  if (absl::IsResourceExhausted(status) && absl::StrContains(message, "try again")) {
    v1::RetryAdvice advice;
    advice.set_retry_after_seconds(1);
    return WithDetail(code, message, advice);
  }
  return {code, message};
}

}  // namespace stowage
