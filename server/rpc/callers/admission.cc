#include "server/rpc/callers/admission.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "grpcpp/security/auth_context.h"
#include "server/events/rejection.h"

namespace stowage {
namespace {

// A job of many processes that starts at once is within its burst.
constexpr double kBurstSeconds = 2;
constexpr double kDelaySeconds = 1;
// Reading so many takes as long as the rest of a call that the cache answers: 0.1 ms.
constexpr double kBytesInACall = 16 << 10;
// Reading so many, checking and hashing them takes as long.
constexpr double kMessagesInACall = 200;
// Simulating so many takes as long.
constexpr double kOperationsInACall = 100;

absl::string_view ViewOf(const grpc::string_ref& text) { return {text.data(), text.size()}; }

// The common name in the caller's verified certificate; empty: it has none.
std::string NameInCertificate(const grpc::CallbackServerContext& context) {
  const auto who = context.auth_context();
  if (who == nullptr || !who->IsPeerAuthenticated()) return "";
  const std::vector<grpc::string_ref> names = who->FindPropertyValues("x509_common_name");
  return names.empty() ? "" : std::string(ViewOf(names[0]));
}

absl::Status AboveItsRate(const std::string& client, double wait_seconds) {
  const double wait_at_least_seconds = std::max(1.0, wait_seconds);
  return Rejected(
      "client_rate",
      absl::StrFormat("client %s sends more calls than it may, of which every 16 KiB or 200 "
                      "stages of a request and every 100 operations to simulate count as one "
                      "more; try again in %.0f s",
                      client, wait_at_least_seconds),
      wait_at_least_seconds);
}

}  // namespace

Admission::Admission(Options options)
    : options_(std::move(options)), rate_(options_.calls_per_second, kBurstSeconds) {}

std::string Admission::AddressOf(const std::string& peer,
                                 const grpc::CallbackServerContext& context) const {
  if (options_.proxies == nullptr) return TrustedProxies().CallerOf(peer, {});
  std::vector<absl::string_view> forwarded_for;
  const auto given = context.client_metadata().equal_range("x-forwarded-for");
  for (auto value = given.first; value != given.second; ++value) {
    forwarded_for.push_back(ViewOf(value->second));
  }
  return options_.proxies->Get()->CallerOf(peer, forwarded_for);
}

CountedCall Admission::Count(const std::string& peer, std::optional<size_t> request_bytes) const {
  if (options_.accounts == nullptr || !request_bytes.has_value()) return {};
  // Copies only what is encoded, as IPv6 addresses are.
  std::shared_ptr<ConnectionAccount> account = absl::StrContains(peer, '%')
                                                   ? options_.accounts->Of(PeerText(peer))
                                                   : options_.accounts->Of(peer);
  return {std::move(account), static_cast<int64_t>(*request_bytes)};
}

// A caller whose token is refused is its address, so that guesses are limited, too.
AdmittedCaller Admission::Identify(const grpc::CallbackServerContext& context,
                                   std::optional<size_t> request_bytes) const {
  std::string peer = context.peer();
  CountedCall counted = Count(peer, request_bytes);
  AdmittedCaller caller{.peer = std::move(peer), .counted = std::move(counted)};
  if (options_.authenticate) {
    const auto given = context.client_metadata().find("authorization");
    absl::StatusOr<NamedClient> named = options_.authenticate(
        given == context.client_metadata().end() ? absl::string_view() : ViewOf(given->second));
    caller.status = named.status();
    if (named.ok()) {
      caller.client = std::move(named->name);
      caller.limits = named->limits;
    }
  } else {
    caller.client = NameInCertificate(context);
  }
  if (caller.client.empty()) caller.client = AddressOf(caller.peer, context);
  return caller;
}

AdmittedCaller Admission::Admit(const grpc::CallbackServerContext& context,
                                std::optional<size_t> request_bytes) {
  AdmittedCaller caller = Identify(context, request_bytes);
  const std::optional<double> wait =
      rate_.Refuses(caller.client, RateLimit::Clock::now(), caller.limits.calls_per_second,
                    1 + static_cast<double>(request_bytes.value_or(0)) / kBytesInACall);
  if (!wait.has_value()) return caller;
  caller.status = AboveItsRate(caller.client, *wait);
  caller.delay_seconds = kDelaySeconds;
  return caller;
}

void Admission::ChargeMessages(const AdmittedCaller& caller, size_t request_bytes, int messages) {
  const double paid = static_cast<double>(request_bytes) / kBytesInACall;
  const double weight = messages / kMessagesInACall - paid;
  if (weight <= 0) return;
  rate_.Charge(caller.client, RateLimit::Clock::now(), caller.limits.calls_per_second, weight);
}

void Admission::ChargeOperations(const AdmittedCaller& caller, size_t operations) {
  rate_.Charge(caller.client, RateLimit::Clock::now(), caller.limits.calls_per_second,
               static_cast<double>(operations) / kOperationsInACall);
}

}  // namespace stowage
