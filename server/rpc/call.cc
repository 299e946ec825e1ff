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

}  // namespace

Call::Call(const char* method, grpc::CallbackServerContext& context, Observer& observer)
    : observer_(observer) {
  record_.method = method;
  record_.id = IdOf(context);
  record_.peer = context.peer();
}

void Call::End(const absl::Status& status) { End(status, ToGrpc(status)); }

void Call::EndWithViolations(const std::vector<FieldViolation>& violations) {
  const grpc::Status wire = ToGrpc(violations);
  End(absl::InvalidArgumentError(wire.error_message()), wire);
}

void Call::End(const absl::Status& status, const grpc::Status& wire) {
  record_.status = status;
  record_.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  observer_.CallEnded(record_);
  Finish(wire);  // `this` may be gone from here on
}

}  // namespace stowage
