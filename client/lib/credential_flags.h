// The command-line flags of credentials.h.
#ifndef STOWAGE_CLIENT_LIB_CREDENTIAL_FLAGS_H_
#define STOWAGE_CLIENT_LIB_CREDENTIAL_FLAGS_H_

#include "CLI/CLI.hpp"
#include "client/lib/rpc/credentials.h"

namespace stowage {

// Adds --tls, --tls-ca, --tls-cert, --tls-key and --token-file to the group "Server". Each has an
// environment variable, as STOWAGE_TLS_CA, that the flag overrides.
void AddCredentials(CLI::App& command, CredentialFiles* files);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_LIB_CREDENTIAL_FLAGS_H_
