// Who calls, and whether the call is let in: names, tokens, calls a second.
#ifndef STOWAGE_SERVER_RPC_CALLERS_ADMISSION_H_
#define STOWAGE_SERVER_RPC_CALLERS_ADMISSION_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/engine/limits/client_limits.h"
#include "server/engine/limits/connection_accounts.h"
#include "server/rpc/callers/current_proxies.h"
#include "solver/base/time/rate_limit.h"

namespace stowage {

// A client with a name that it proved.
struct NamedClient {
  std::string name = {};
  ClientLimits limits = {};
};

// The caller of one call.
struct AdmittedCaller {
  // The name of the client: its token's, else that in its verified certificate, else its address.
  // Callers with one name share its limits.
  std::string client = {};
  std::string peer = {};  // gRPC's name of the other end of the connection
  ClientLimits limits = {};
  absl::Status status = {};  // not OK: the call is refused
  double delay_seconds = 0;  // before the refusal is sent
  CountedCall counted = {};  // on its connection, as long as this lives
};

// Nullopt: its caller has ended the call without a request, or has left before one came.
inline std::optional<size_t> RequestLength(const grpc::ByteBuffer& request) {
  return request.Valid() ? std::optional(request.Length()) : std::nullopt;
}

// Decides for every call. Thread-safe.
class Admission {
 public:
  struct Options {
    // The client with this "authorization" metadata, or UNAUTHENTICATED; from any thread. Empty: no
    // token is required.
    std::function<absl::StatusOr<NamedClient>(absl::string_view)> authenticate = {};
    const CurrentProxies* proxies = nullptr;  // null: none are trusted. It outlives this.
    double calls_per_second = 0;              // of one client; 0: no limit
    // Of the connections that calls are counted on; null: they are not. It outlives this.
    const ConnectionAccounts* accounts = nullptr;
  };
  explicit Admission(Options options);

  // Status: UNAUTHENTICATED without a valid token; RESOURCE_EXHAUSTED above the client's rate. The
  // latter is sent after `delay_seconds`: a client that calls again and again, whatever it is
  // answered, would take the processor from the others.
  // Counts the call on its connection, but one without a request: there it is a stream that was
  // begun for nothing. `request_bytes`: a large request costs as much as several small ones, and
  // counts as such.
  AdmittedCaller Admit(const grpc::CallbackServerContext& context,
                       std::optional<size_t> request_bytes);

  // Counts the messages in the request of an admitted call, such as stages, beyond what its bytes
  // count already: small ones cost as much to read as others.
  void ChargeMessages(const AdmittedCaller& caller, size_t request_bytes, int messages);

  // Counts a schedule of an admitted call, which is known only after the call has been read: its
  // operations take longer to simulate than to read.
  void ChargeOperations(const AdmittedCaller& caller, size_t operations);

  // For all clients without a limit of their own.
  void SetCallsPerSecond(double calls_per_second) { rate_.SetRate(calls_per_second); }

 private:
  // The host of the caller at `peer`, or its proxy's word for it.
  std::string AddressOf(const std::string& peer, const grpc::CallbackServerContext& context) const;
  CountedCall Count(const std::string& peer, std::optional<size_t> request_bytes) const;
  AdmittedCaller Identify(const grpc::CallbackServerContext& context,
                          std::optional<size_t> request_bytes) const;

  const Options options_;
  RateLimit rate_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_RPC_CALLERS_ADMISSION_H_
