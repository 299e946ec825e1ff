#include "client/lib/rpc/connection.h"

#include <chrono>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/lib/rpc/failure.h"
#include "client/lib/rpc/grpc_text.h"
#include "client/lib/rpc/trace_parent.h"
#include "google/rpc/error_details.pb.h"
#include "stowage/v1/errors.pb.h"

namespace stowage {
namespace {

// Between attempts to connect; gRPC's own are 1 s to 2 minutes.
constexpr int kFirstReconnectMilliseconds = 100;
constexpr int kMaxReconnectMilliseconds = 1000;
// The server allows pings so often (server/rpc/callers/connection_limits.cc).
constexpr int kKeepaliveMilliseconds = 30'000;
constexpr int kKeepaliveAnswerMilliseconds = 10'000;

// The token is not part of them: each call sends it as metadata.
std::shared_ptr<grpc::ChannelCredentials> ChannelCredentialsOf(const Credentials& credentials) {
  if (!credentials.tls) return grpc::InsecureChannelCredentials();
  return grpc::SslCredentials({.pem_root_certs = credentials.authorities,
                               .pem_private_key = credentials.key,
                               .pem_cert_chain = credentials.certificate});
}

std::shared_ptr<grpc::Channel> Connect(const std::string& server, const Credentials& credentials,
                                       bool through_proxy, double connect_seconds) {
  const int milliseconds = static_cast<int>(std::ceil(connect_seconds * 1000));
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);  // a schedule may have a million operations
  // How long connecting and looking up a name may take; gRPC's own limits are 20 s and 2 minutes.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, milliseconds);
  arguments.SetInt(GRPC_ARG_DNS_ARES_QUERY_TIMEOUT_MS, milliseconds);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstReconnectMilliseconds);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectMilliseconds);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMilliseconds);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveAnswerMilliseconds);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // while a solve runs none is sent
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, through_proxy ? 1 : 0);
  return grpc::CreateCustomChannel(server, ChannelCredentialsOf(credentials), arguments);
}

// The details of an error of a Stowage server; nullopt: something else made the error.
std::optional<v1::ErrorStatus> DetailsOf(const grpc::Status& status) {
  v1::ErrorStatus details;
  if (!details.ParseFromString(status.error_details())) return std::nullopt;
  for (const google::protobuf::Any& detail : details.details()) {
    google::rpc::ErrorInfo info;
    if (detail.UnpackTo(&info) && info.domain() == "stowage") return details;
  }
  return std::nullopt;
}

void AddViolations(const v1::Violations& message, absl::Status* status) {
  if (message.more() > 0) return;
  std::vector<FieldViolation> violations;
  for (const v1::FieldViolation& violation : message.violations()) {
    violations.push_back({violation.field(), violation.problem()});
  }
  SetViolations(violations, status);
}

void AddDetails(const v1::ErrorStatus& details, absl::Status* status) {
  for (const google::protobuf::Any& detail : details.details()) {
    v1::RetryAdvice advice;
    if (detail.UnpackTo(&advice)) SetAdvisedPause(advice.retry_after_seconds(), status);
    v1::Violations violations;
    if (detail.UnpackTo(&violations)) AddViolations(violations, status);
    google::rpc::ErrorInfo info;
    if (!detail.UnpackTo(&info)) continue;
    SetReason(info.reason(), status);
    if (info.reason() == "CLIENT_RATE" || info.reason() == "CLIENT_LIMIT") {
      SetCause(FailureCause::kCallersLimit, status);
    }
  }
}

// A proxy ends a call whose server has died without a status, to which gRPC gives one of its own.
bool EndedWithoutStatus(const grpc::Status& status) {
  const bool is_grpcs = status.error_code() == grpc::StatusCode::UNKNOWN ||
                        status.error_code() == grpc::StatusCode::INTERNAL;
  return is_grpcs && GrpcText::Read(status.error_message()).broken;
}

// The id under which the server's log has a call that failed: in its trailers or, where these never
// came, in its initial metadata. Empty: no server sent one.
absl::string_view RequestIdOf(const grpc::ClientContext& context) {
  constexpr size_t kLongestId = 128;  // that a server takes over from its caller
  for (const auto* metadata :
       {&context.GetServerTrailingMetadata(), &context.GetServerInitialMetadata()}) {
    const auto id = metadata->find("x-request-id");
    if (id != metadata->end() && id->second.size() <= kLongestId) {
      return {id->second.data(), id->second.size()};
    }
  }
  return "";
}

const char* Remedy(Obstacle obstacle) {
  switch (obstacle) {
    case Obstacle::kTls:
      return "check --tls-ca, and --tls-cert where it asks for one, or leave them out where it "
             "does not speak TLS";
    case Obstacle::kProxy:
      return "check that the proxy runs and lets this server through, or name the server in "
             "no_proxy where it is reached without; else start stowage-server, or name another "
             "with --server";
    // A TLS server closes the connection on a client that speaks plain text, and on one without the
    // client certificate that it requires.
    case Obstacle::kClosed:
      return "if it speaks TLS give --tls-ca, and --tls-cert where it asks for one; else start "
             "stowage-server, or name another with --server";
    case Obstacle::kKey:
      return "check that --tls-key is the key of --tls-cert";
    case Obstacle::kNoServer:
      return "start stowage-server, or name another with --server";
    case Obstacle::kNone:
      return "";
  }
  return "";
}

}  // namespace

Connection::Connection(const std::string& server, const Credentials& credentials,
                       double connect_seconds)
    : server_(server),
      token_(credentials.token),
      trace_parent_(TraceParent()),
      proxy_(ProxyOf(server)),
      channel_(Connect(server, credentials, proxy_.has_value(), connect_seconds)) {}

void Connection::Prepare(std::optional<double> timeout_seconds,
                         grpc::ClientContext* context) const {
  if (!token_.empty()) context->AddMetadata("authorization", "Bearer " + token_);
  if (!trace_parent_.empty()) context->AddMetadata(kTraceParentHeader, trace_parent_);
  if (!timeout_seconds.has_value()) return;
  const std::chrono::duration<double> timeout(*timeout_seconds);
  context->set_deadline(std::chrono::system_clock::now() +
                        std::chrono::duration_cast<std::chrono::system_clock::duration>(timeout));
}

// A call that no Stowage server has answered.
absl::Status Connection::NoAnswer(absl::string_view text) const {
  const GrpcText said = GrpcText::Read(text);
  absl::Status none;
  if (said.tls) {
    none = absl::UnavailableError(absl::StrCat(
        "the server at ", server_, " and this side do not come to terms over TLS (", text, ")"));
    SetObstacle(Obstacle::kTls, &none);
  } else {
    const std::string way =
        proxy_.has_value()
            ? absl::StrCat(" through the proxy ", proxy_->address, ", that of ", proxy_->variable)
            : "";
    none = absl::UnavailableError(
        absl::StrCat("no answer from a server at ", server_, way, " (", text, ")"));
    if (said.broken) SetCause(FailureCause::kBrokenConnection, &none);
    SetObstacle(proxy_.has_value()      ? Obstacle::kProxy
                : said.closed           ? Obstacle::kClosed
                : said.key_does_not_fit ? Obstacle::kKey
                                        : Obstacle::kNoServer,
                &none);
  }
  if (said.never_connected) SetNotSent(&none);
  return none;
}

absl::Status Connection::FromGrpc(const grpc::Status& status,
                                  std::optional<double> timeout_seconds) const {
  const auto code = static_cast<absl::StatusCode>(status.error_code());  // same numbers
  const std::optional<v1::ErrorStatus> details = DetailsOf(status);
  // gRPC cancels calls that a stopping server has not begun; this client never cancels a call.
  if (code == absl::StatusCode::kCancelled) {
    return absl::UnavailableError(absl::StrCat(
        "the server at ", server_, " ended the call as it stopped; ask another server"));
  }
  if (!details.has_value() && EndedWithoutStatus(status)) return NoAnswer(status.error_message());
  if (code == absl::StatusCode::kUnavailable) {
    if (!details.has_value()) return NoAnswer(status.error_message());
    return absl::UnavailableError(absl::StrCat(server_, ": ", status.error_message()));
  }
  if (!details.has_value() && GrpcText::Read(status.error_message()).too_large) {
    return {code, absl::StrCat("the request is larger than the server at ", server_, " reads (",
                               status.error_message(), "); raise its --max-message")};
  }
  // Without a timeout it was the server's own limit, and the server says which.
  if (code == absl::StatusCode::kDeadlineExceeded && timeout_seconds.has_value()) {
    return absl::DeadlineExceededError(
        absl::StrCat("the server at ", server_, " did not answer within ", *timeout_seconds,
                     " s; give it more time, or ask for a coarser answer (fewer memory slots)"));
  }
  absl::Status result(code, status.error_message());
  if (details.has_value()) AddDetails(*details, &result);
  return result;
}

absl::Status Connection::FailureOf(const grpc::ClientContext& context, const grpc::Status& status,
                                   std::optional<double> timeout_seconds) const {
  const absl::Status failure = FromGrpc(status, timeout_seconds);
  const absl::string_view id = RequestIdOf(context);
  return id.empty() ? failure : WithRequestId(failure, id);
}

absl::Status WithRemedy(const absl::Status& unavailable) {
  const absl::string_view remedy = Remedy(ObstacleOf(unavailable));
  if (remedy.empty()) return unavailable;
  return absl::UnavailableError(absl::StrCat(unavailable.message(), "; ", remedy));
}

}  // namespace stowage
