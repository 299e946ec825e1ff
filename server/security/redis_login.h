// User, password and TLS of the shared cache, from the files that an operator names.
#ifndef STOWAGE_SERVER_SECURITY_REDIS_LOGIN_H_
#define STOWAGE_SERVER_SECURITY_REDIS_LOGIN_H_

#include <string>

#include "absl/status/statusor.h"
#include "server/redis/connection.h"
#include "server/security/tls.h"

namespace stowage {

struct RedisLoginFiles {
  std::string user_file = {};    // "PASSWORD" or "USER PASSWORD" in one line; empty: no login
  bool has_tls = false;          // the rest is read with TLS only
  std::string authorities = {};  // of the nodes' certificates, PEM; empty: the system's
  TlsFiles own = {};             // shown to nodes that ask for a certificate; may be empty
};

// Reads the files, as they are now: called for each connection, it follows their changes.
// Thread-safe. Errors: those of ReadTrustedFile(), and INVALID_ARGUMENT with the file and what is
// wrong with it.
absl::StatusOr<RedisLogin> ReadRedisLogin(const RedisLoginFiles& files);

}  // namespace stowage

#endif  // STOWAGE_SERVER_SECURITY_REDIS_LOGIN_H_
