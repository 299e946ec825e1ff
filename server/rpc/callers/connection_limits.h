// Limits on what one client may cost the server. Well-behaved clients do not meet them.
#ifndef STOWAGE_SERVER_RPC_CALLERS_CONNECTION_LIMITS_H_
#define STOWAGE_SERVER_RPC_CALLERS_CONNECTION_LIMITS_H_

#include <cstdint>

#include "grpcpp/server_builder.h"

namespace stowage {

// Closes connections that do not complete their handshake, that have no call for ten minutes, or
// whose client no longer answers pings. Bounds the calls of one connection, and the memory of
// requests that are still arriving on all connections together: beyond `arriving_bytes` senders
// have to wait, and the largest calls are ended with RESOURCE_EXHAUSTED.
void LimitConnections(int64_t arriving_bytes, grpc::ServerBuilder& builder);

}  // namespace stowage

#endif  // STOWAGE_SERVER_RPC_CALLERS_CONNECTION_LIMITS_H_
