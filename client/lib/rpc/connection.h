// A connection to one server: channel, deadline, bearer token, and gRPC's errors as absl::Status.
// RpcClient and OperatorClient make their calls through it.
#ifndef STOWAGE_CLIENT_LIB_RPC_CONNECTION_H_
#define STOWAGE_CLIENT_LIB_RPC_CONNECTION_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/lib/rpc/credentials.h"
#include "client/lib/rpc/proxy.h"
#include "client/lib/rpc/routing_key.h"
#include "grpcpp/grpcpp.h"

namespace stowage {

// Connects when it is first needed, and again after a connection was lost. A server that hangs or
// whose machine is gone is noticed by keepalive pings, after 40 s at most. Thread-safe.
class Connection {
 public:
  static constexpr double kConnectSeconds = 5;

  // `server`: host:port or unix:PATH. `connect_seconds` limits looking up its name, and connecting.
  Connection(const std::string& server, const Credentials& credentials, double connect_seconds);

  const std::string& server() const { return server_; }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

  // Sets the deadline, the token and the trace of a call.
  void Prepare(std::optional<double> timeout_seconds, grpc::ClientContext* context) const;

  // gRPC's error as one that names the server. Causes that a flag or another server remedies have a
  // text of their own; all others pass through with the service's message. What the details of the
  // error say, and what kept the call from a server, becomes payloads (failure.h).
  absl::Status FromGrpc(const grpc::Status& status, std::optional<double> timeout_seconds) const;
  // The same of a call that has ended, with the id under which the server's log has it, where a
  // server sent one: "the queue is full: … (request 1f2e3d4c-17)".
  absl::Status FailureOf(const grpc::ClientContext& context, const grpc::Status& status,
                         std::optional<double> timeout_seconds) const;

  // A call of a generated stub. `routing_key`: as routing_key.h has it; empty: none is sent.
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Call(Stub& stub,
                                grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                             Response*),
                                const Request& request, std::optional<double> timeout_seconds,
                                const std::string& routing_key = "") const {
    grpc::ClientContext context;
    Prepare(timeout_seconds, &context);
    if (!routing_key.empty()) context.AddMetadata(kRoutingKeyHeader, routing_key);
    Response response;
    const grpc::Status status = (stub.*method)(&context, request, &response);
    if (!status.ok()) return FailureOf(context, status, timeout_seconds);
    return response;
  }

 private:
  absl::Status NoAnswer(absl::string_view text) const;

  const std::string server_;
  const std::string token_;         // empty: none is sent
  const std::string trace_parent_;  // likewise
  const std::optional<Proxy> proxy_;
  const std::shared_ptr<grpc::Channel> channel_;
};

// The same UNAVAILABLE, of one or several servers, with advice on its obstacle, as in "start
// stowage-server, or name another with --server"; unchanged where it has none.
absl::Status WithRemedy(const absl::Status& unavailable);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_LIB_RPC_CONNECTION_H_
