#include "server/redis/redis_url.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "solver/base/quote.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

absl::Status Refused(absl::string_view text, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(Quoted(text), " ", what,
                   "; write redis://HOST:PORT, rediss://HOST:PORT for TLS, or several nodes of a "
                   "cluster, as in redis://10.0.0.1:6379,10.0.0.2:6379"));
}

}  // namespace

std::string ToText(const RedisNode& node) {
  const bool is_ipv6 = node.host.find(':') != std::string::npos;
  return is_ipv6 ? absl::StrCat("[", node.host, "]:", node.port)
                 : absl::StrCat(node.host, ":", node.port);
}

// The colon of the port is the last one; an IPv6 address with a port is in brackets.
absl::StatusOr<RedisNode> ParseRedisNode(absl::string_view text) {
  RedisNode node;
  absl::string_view host = text;
  const size_t colon = text.rfind(':');
  const size_t bracket = text.rfind(']');
  const bool has_port =
      colon != absl::string_view::npos && (bracket == absl::string_view::npos || bracket < colon);
  if (has_port) {
    const absl::string_view port = text.substr(colon + 1);
    if (!absl::SimpleAtoi(port, &node.port) || node.port < 1 || node.port > 65535) {
      return Refused(text, "has no port from 1 to 65535");
    }
    host = text.substr(0, colon);
  }
  if (absl::ConsumePrefix(&host, "[") && !absl::ConsumeSuffix(&host, "]")) {
    return Refused(text, "has no closing bracket");
  }
  if (host.empty()) return Refused(text, "has no host");
  if (host.find_first_of("/?#@ ") != absl::string_view::npos) {
    return Refused(text, "is no host");
  }
  node.host = std::string(host);
  return node;
}

absl::StatusOr<RedisUrl> ParseRedisUrl(absl::string_view text) {
  RedisUrl url;
  absl::string_view rest = text;
  if (absl::ConsumePrefix(&rest, "rediss://")) {
    url.has_tls = true;
  } else if (!absl::ConsumePrefix(&rest, "redis://")) {
    return Refused(text, "is no address of a Redis");
  }
  absl::ConsumeSuffix(&rest, "/");
  if (rest.find('@') != absl::string_view::npos) {
    return absl::InvalidArgumentError(
        "has a user or a password, which everybody who lists processes would see; put them into a "
        "file: --shared-cache-user-file");
  }
  for (const absl::string_view part : absl::StrSplit(rest, ',')) {
    ASSIGN_OR_RETURN(RedisNode node, ParseRedisNode(part));
    url.seeds.push_back(std::move(node));
  }
  return url;
}

}  // namespace stowage
