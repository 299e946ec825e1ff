// What one client may take of the server.
#ifndef STOWAGE_SERVER_ENGINE_LIMITS_CLIENT_LIMITS_H_
#define STOWAGE_SERVER_ENGINE_LIMITS_CLIENT_LIMITS_H_

#include <cstddef>
#include <optional>

namespace stowage {

// Unset: the server's own limit for all clients.
struct ClientLimits {
  std::optional<double> calls_per_second;  // 0: no limit
  std::optional<size_t> solves;            // that wait or run
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_LIMITS_CLIENT_LIMITS_H_
