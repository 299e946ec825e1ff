// The HTTP proxy between a client and its server.
#ifndef STOWAGE_CLIENT_LIB_RPC_PROXY_H_
#define STOWAGE_CLIENT_LIB_RPC_PROXY_H_

#include <cstdlib>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"

namespace stowage {

struct Proxy {
  std::string variable;  // of the environment, that names it: "http_proxy"
  std::string address;   // "proxy.example:3128": without the user and the password
};

// The proxy through which gRPC connects to `server`, by its own rules: that of the first of
// grpc_proxy, https_proxy and http_proxy that is set, which takes http:// alone. Nullopt: none, as
// where the host ends with an entry of no_grpc_proxy or, where that is not set, no_proxy. Nor is
// there one to this machine, though gRPC would use it: a proxy does not get there.
std::optional<Proxy> ProxyOf(
    const std::string& server,
    absl::FunctionRef<const char*(const char* variable)> environment = std::getenv);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_LIB_RPC_PROXY_H_
