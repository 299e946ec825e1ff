#include "server/security.h"

#include <vector>

#include "solver/base/status_macros.h"

namespace stowage {

absl::StatusOr<std::unique_ptr<Security>> Security::Load(const SecurityOptions& options) {
  std::unique_ptr<Security> security(new Security(options));
  if (!options.tls.certificate.empty()) {
    ASSIGN_OR_RETURN(security->tls_, Tls::Load(options.tls));
  }
  if (!options.token_file.empty()) {
    ASSIGN_OR_RETURN(security->tokens_, Tokens::Load(options.token_file));
  }
  return security;
}

void Security::Watch(Observer& observer) {
  if (tls_ != nullptr) {
    std::vector<std::string> paths = {options_.tls.certificate, options_.tls.key};
    if (!options_.tls.client_authorities.empty()) paths.push_back(options_.tls.client_authorities);
    tls_watch_.emplace(
        paths, [this, &observer] { observer.CredentialsReplaced("certificate", tls_->Reload()); });
  }
  if (tokens_ != nullptr) {
    token_watch_.emplace(std::vector<std::string>{options_.token_file}, [this, &observer] {
      observer.CredentialsReplaced("tokens", tokens_->Reload());
    });
  }
}

std::shared_ptr<grpc::ServerCredentials> Security::Credentials() const {
  return tls_ != nullptr ? tls_->Credentials() : grpc::InsecureServerCredentials();
}

std::optional<int64_t> Security::certificate_end_seconds() const {
  if (tls_ == nullptr) return std::nullopt;
  return tls_->not_after_seconds();
}

}  // namespace stowage
