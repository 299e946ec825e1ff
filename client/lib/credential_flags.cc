#include "client/lib/credential_flags.h"

namespace stowage {

void AddCredentials(CLI::App& command, CredentialFiles* files) {
  const auto add = [&command](const char* name, const char* variable, std::string& path,
                              const char* help) {
    command.add_option(name, path, help)->envname(variable)->type_name("FILE")->group("Server");
  };
  command.add_flag("--tls", files->tls, "encrypt, and believe the system's authorities")
      ->envname("STOWAGE_TLS")
      ->group("Server");
  add("--tls-ca", "STOWAGE_TLS_CA", files->authorities,
      "encrypt, and believe the authorities in this PEM file");
  add("--tls-cert", "STOWAGE_TLS_CERT", files->certificate,
      "our certificate, PEM, where the server asks for one");
  add("--tls-key", "STOWAGE_TLS_KEY", files->key, "its key, PEM");
  add("--token-file", "STOWAGE_TOKEN_FILE", files->token, "bearer token to send, alone in a file");
}

}  // namespace stowage
