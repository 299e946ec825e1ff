// How a server is made sure of, and how it is made sure of us.
#ifndef STOWAGE_CLIENT_LIB_CREDENTIALS_H_
#define STOWAGE_CLIENT_LIB_CREDENTIALS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace grpc {
class ChannelCredentials;
}

namespace stowage {

// Files; empty: none. Naming any but the token's means TLS.
struct CredentialFiles {
  bool tls = false;  // even without any of those below
  std::string
      authorities;  // PEM: whom the server's certificate may come from; default: the system's
  std::string certificate;  // PEM: ours, where the server asks for one
  std::string key;          // PEM: its key
  std::string token;        // a line: the bearer token
};

// What is in them.
struct Credentials {
  bool tls = false;
  std::string authorities;
  std::string certificate;
  std::string key;
  std::string token;  // empty: none is sent
};

// Errors: NOT_FOUND, PERMISSION_DENIED and the like, with the file; INVALID_ARGUMENT for half a
// pair of certificate and key, and for a token that no header can carry.
absl::StatusOr<Credentials> ReadCredentials(const CredentialFiles& files);

// For a channel. The token travels with each call.
std::shared_ptr<grpc::ChannelCredentials> ChannelCredentialsOf(const Credentials& credentials);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_LIB_CREDENTIALS_H_
