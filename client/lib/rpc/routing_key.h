// Which server of several answers a request: equal requests go to one, which then solves it once.
#ifndef STOWAGE_CLIENT_LIB_RPC_ROUTING_KEY_H_
#define STOWAGE_CLIENT_LIB_RPC_ROUTING_KEY_H_

#include <string>

#include "stowage/v1/scheduler.pb.h"

namespace stowage {

// The metadata of a call by which a balancer chooses the server. Servers do not read it.
inline constexpr char kRoutingKeyHeader[] = "x-stowage-key";

// 16 hexadecimal digits, a hash of what changes the answer: not of names, and of no options that
// concern the call alone. Requests that round to one instance may have different keys.
std::string RoutingKey(v1::SolveRequest request);
std::string RoutingKey(v1::FrontierRequest request);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_LIB_RPC_ROUTING_KEY_H_
