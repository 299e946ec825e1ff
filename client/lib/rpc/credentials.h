// Client TLS and bearer-token credentials.
#ifndef STOWAGE_CLIENT_LIB_RPC_CREDENTIALS_H_
#define STOWAGE_CLIENT_LIB_RPC_CREDENTIALS_H_

#include <string>

#include "absl/status/statusor.h"

namespace stowage {

// Paths; an empty one is unset. TLS is used where `tls` or any path but the token's is set.
struct CredentialFiles {
  bool tls = false;         // with the system's root certificates unless `authorities` is set
  std::string authorities;  // PEM: root certificates to verify the server with
  std::string certificate;  // PEM: the client certificate, where the server requires one
  std::string key;          // PEM: the private key of `certificate`
  std::string token;        // one line: the bearer token
};

// The contents of those files.
struct Credentials {
  bool tls = false;
  std::string authorities;
  std::string certificate;
  std::string key;
  std::string token;  // empty: none is sent
};

// Errors: NOT_FOUND, PERMISSION_DENIED and the like, with the file; INVALID_ARGUMENT for a
// certificate without a key or the reverse, and for a token that an HTTP header cannot carry.
absl::StatusOr<Credentials> ReadCredentials(const CredentialFiles& files);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_LIB_RPC_CREDENTIALS_H_
