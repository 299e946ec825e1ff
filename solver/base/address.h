// Addresses of servers, to listen on or to connect to: "host:port", "[::1]:port" or "unix:PATH".
#ifndef STOWAGE_SOLVER_BASE_ADDRESS_H_
#define STOWAGE_SOLVER_BASE_ADDRESS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace stowage {

// OK, or INVALID_ARGUMENT with what is accepted. gRPC checks little: it reads a missing port as 443
// and takes any port modulo 2^16. Pure: resolves no name.
absl::Status CheckAddress(absl::string_view address);

// Whether only processes of this machine can connect to the address: a Unix socket, "localhost",
// 127.0.0.0/8 or ::1. Other names count as reachable from elsewhere. Pure.
bool IsLocal(absl::string_view address);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_BASE_ADDRESS_H_
