// Where the shared cache is: the nodes of a Redis, or of a Redis Cluster, to begin with.
#ifndef STOWAGE_SERVER_REDIS_REDIS_URL_H_
#define STOWAGE_SERVER_REDIS_REDIS_URL_H_

#include <compare>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stowage {

// One node. An IPv6 address is without brackets.
struct RedisNode {
  std::string host;
  int port = 6379;

  auto operator<=>(const RedisNode&) const = default;
};
// "192.0.2.7:6379", "[2001:db8::1]:6379".
std::string ToText(const RedisNode& node);

struct RedisUrl {
  bool has_tls = false;
  std::vector<RedisNode> seeds;  // any of them knows the others; never empty
};

// Parses "redis://HOST[:PORT][,HOST[:PORT]…]", or "rediss://…" for TLS. Errors: INVALID_ARGUMENT
// with what is accepted. A user or a password is refused: a command line is no place for them.
absl::StatusOr<RedisUrl> ParseRedisUrl(absl::string_view text);

// The same for one node, as a redirection names it.
absl::StatusOr<RedisNode> ParseRedisNode(absl::string_view text);

}  // namespace stowage

#endif  // STOWAGE_SERVER_REDIS_REDIS_URL_H_
