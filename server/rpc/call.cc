#include "server/rpc/call.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "grpcpp/security/auth_context.h"
#include "server/rpc/status.h"

namespace stowage {
namespace {

constexpr size_t kLongestId = 128;

// Unique in this process, and among restarts as far as 32 random bits go.
std::string NewId() {
  static const uint32_t process = std::random_device{}();
  static std::atomic<uint64_t> next{1};
  return absl::StrFormat("%08x-%d", process, next.fetch_add(1, std::memory_order_relaxed));
}

std::string IdOf(const grpc::CallbackServerContext& context) {
  const auto& metadata = context.client_metadata();
  const auto given = metadata.find("x-request-id");
  if (given == metadata.end() || given->second.empty()) return NewId();
  return {given->second.data(), std::min<size_t>(given->second.size(), kLongestId)};
}

// "ipv4:127.0.0.1:4711" without the port: the processes of one machine are one client.
std::string HostOf(const std::string& peer) {
  const size_t colon = peer.rfind(':');
  return peer.rfind("ip", 0) == 0 && colon != std::string::npos ? peer.substr(0, colon) : peer;
}

// Of a caller with a certificate that was verified; empty: it has none.
std::string NameInCertificate(const grpc::CallbackServerContext& context) {
  const auto who = context.auth_context();
  if (who == nullptr || !who->IsPeerAuthenticated()) return "";
  const std::vector<grpc::string_ref> names = who->FindPropertyValues("x509_common_name");
  return names.empty() ? "" : std::string(names[0].data(), names[0].size());
}

}  // namespace

CallState::CallState(const char* method, grpc::CallbackServerContext& context,
                     const CallEnvironment& environment)
    : observer_(environment.observer),
      limits_(environment.limits),
      deadline_(context.deadline()),
      admission_(Admit(context, environment)) {
  record_.method = method;
  record_.id = IdOf(context);
  record_.peer = context.peer();
  observer_.CallBegan(record_.method);
}

absl::Status CallState::Admit(const grpc::CallbackServerContext& context,
                              const CallEnvironment& environment) {
  if (!environment.authenticate) {
    record_.client = NameInCertificate(context);
    return absl::OkStatus();
  }
  const auto& metadata = context.client_metadata();
  const auto given = metadata.find("authorization");
  const absl::string_view authorization =
      given == metadata.end() ? absl::string_view()
                              : absl::string_view(given->second.data(), given->second.size());
  absl::StatusOr<std::string> name = environment.authenticate(authorization);
  if (name.ok()) record_.client = *std::move(name);
  return name.status();
}

Caller CallState::caller() const {
  using Steady = std::chrono::steady_clock;
  constexpr std::chrono::hours kForEver{24 * 365};
  Caller caller{.client = record_.client.empty() ? HostOf(record_.peer) : record_.client,
                .stop = stop_.get_token()};
  const auto left = deadline_ - std::chrono::system_clock::now();
  if (left < kForEver) {
    caller.deadline = Steady::now() + std::chrono::duration_cast<Steady::duration>(left);
  }
  return caller;
}

grpc::Status CallState::Ended(absl::Status status, int64_t answer_bytes) {
  if (status.ok()) status = unsent_.Take(answer_bytes);
  // gRPC cancels what is late; whose doing it was matters to those who watch.
  if (absl::IsCancelled(status) && std::chrono::system_clock::now() >= deadline_) {
    status = absl::DeadlineExceededError("the caller's deadline passed");
  }
  Record(status);
  return ToGrpc(status);
}

grpc::Status CallState::Ended(const std::vector<FieldViolation>& violations) {
  grpc::Status wire = ToGrpc(violations);
  Record(absl::InvalidArgumentError(wire.error_message()));
  return wire;
}

void CallState::Record(const absl::Status& status) {
  record_.status = status;
  record_.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  observer_.CallEnded(record_);
}

}  // namespace stowage
