// The flags that say how a server is made sure of, and how it is made sure of us.
#ifndef STOWAGE_CLIENT_LIB_CREDENTIAL_FLAGS_H_
#define STOWAGE_CLIENT_LIB_CREDENTIAL_FLAGS_H_

#include "CLI/CLI.hpp"
#include "client/lib/credentials.h"

namespace stowage {

// In the group "Server". Each can come from the environment, too: STOWAGE_TLS_CA and so on.
void AddCredentials(CLI::App& command, CredentialFiles* files);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_LIB_CREDENTIAL_FLAGS_H_
