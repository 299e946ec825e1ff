#include "client/lib/credential_flags.h"

namespace stowage {

void AddCredentials(CLI::App& command, CredentialFiles* files) {
  const auto add = [&command](const char* name, const char* variable, std::string& path,
                              const char* help) {
    command.add_option(name, path, help)->envname(variable)->type_name("FILE")->group("Server");
  };
  command
      .add_flag("--tls", files->tls,
                "use TLS, and verify the server with the system's root certificates")
      ->envname("STOWAGE_TLS")
      ->group("Server");
  add("--tls-ca", "STOWAGE_TLS_CA", files->authorities,
      "use TLS, and verify the server with the root certificates in this PEM file");
  add("--tls-cert", "STOWAGE_TLS_CERT", files->certificate,
      "client certificate, PEM, where the server requires one");
  add("--tls-key", "STOWAGE_TLS_KEY", files->key, "private key of --tls-cert, PEM");
  add("--token-file", "STOWAGE_TOKEN_FILE", files->token, "file with the bearer token to send");
}

}  // namespace stowage
