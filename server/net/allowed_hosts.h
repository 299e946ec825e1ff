// The names by which the HTTP port may be called, against DNS rebinding: a page of another site
// whose name resolves to this server's address for a moment, so that a browser lets it read the
// answers.
#ifndef STOWAGE_SERVER_NET_ALLOWED_HOSTS_H_
#define STOWAGE_SERVER_NET_ALLOWED_HOSTS_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace stowage {

// The host of "Host", "host:port" or "[::1]:port": without brackets, in lower case, without the dot
// at the end. Empty where there is none.
std::string HostIn(absl::string_view host_and_port);

// This machine's own name; empty where it has none.
std::string OwnHostName();

// Immutable and thread-safe.
class AllowedHosts {
 public:
  // `names`: as HostIn() reads them. Always allowed are all addresses and names without a dot,
  // which no other site can have, and a request without a host, which no browser sends.
  explicit AllowedHosts(const std::vector<std::string>& names);

  // Of a request's header "host". Errors: PERMISSION_DENIED with the name and the remedies.
  absl::Status Check(absl::string_view host) const;

 private:
  absl::flat_hash_set<std::string> names_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_NET_ALLOWED_HOSTS_H_
