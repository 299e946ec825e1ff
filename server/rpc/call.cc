#include "server/rpc/call.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
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

}  // namespace

CallState::CallState(const char* method, grpc::CallbackServerContext& context, Observer& observer)
    : observer_(observer), deadline_(context.deadline()) {
  record_.method = method;
  record_.id = IdOf(context);
  record_.peer = context.peer();
  observer_.CallBegan(record_.method);
}

Caller CallState::caller() const {
  using Steady = std::chrono::steady_clock;
  constexpr std::chrono::hours kForEver{24 * 365};
  Caller caller{.client = HostOf(record_.peer), .stop = stop_.get_token()};
  const auto left = deadline_ - std::chrono::system_clock::now();
  if (left < kForEver) {
    caller.deadline = Steady::now() + std::chrono::duration_cast<Steady::duration>(left);
  }
  return caller;
}

grpc::Status CallState::Ended(const absl::Status& status) {
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
