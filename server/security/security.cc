#include "server/security/security.h"

#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "solver/base/status_macros.h"

namespace stowage {

// Takes the versions of all files before it reads any: a file that changes in between differs from
// its version at the first comparison of Watch() and is read again.
absl::StatusOr<std::unique_ptr<Security>> Security::Load(const SecurityOptions& options) {
  std::unique_ptr<Security> security(new Security(options));
  const TlsFiles& tls = options.tls;
  for (const std::string& path : {tls.certificate, tls.key, tls.client_authorities}) {
    if (!path.empty()) security->tls_files_.paths.push_back(path);
  }
  if (!options.token_file.empty()) security->token_files_.paths = {options.token_file};
  if (!options.http_token_file.empty()) {
    security->http_token_files_.paths = {options.http_token_file};
  }
  if (!options.operator_token_file.empty()) {
    security->operator_token_files_.paths = {options.operator_token_file};
  }
  for (WatchedFiles* const files :
       {&security->tls_files_, &security->token_files_, &security->http_token_files_,
        &security->operator_token_files_}) {
    files->versions = VersionsOf(files->paths);
  }
  if (!tls.certificate.empty()) {
    ASSIGN_OR_RETURN(security->tls_, Tls::Load(tls));
  }
  if (!options.token_file.empty()) {
    ASSIGN_OR_RETURN(security->tokens_, Tokens::Load(options.token_file));
  }
  if (!options.http_token_file.empty()) {
    ASSIGN_OR_RETURN(security->http_tokens_, Tokens::Load(options.http_token_file));
  }
  if (!options.operator_token_file.empty()) {
    ASSIGN_OR_RETURN(security->operator_tokens_, Tokens::Load(options.operator_token_file));
  }
  return security;
}

std::function<bool(ReadCause)> Security::Reload(const char* which, Observer& observer,
                                                std::function<absl::Status()> reload) {
  // A failure that repeats every second is reported once; files that are as they were, never.
  return [which, &observer, reload = std::move(reload),
          last = absl::OkStatus()](ReadCause cause) mutable {
    absl::Status status = reload();
    if (cause == ReadCause::kNew || status != last) observer.CredentialsReplaced(which, status);
    last = std::move(status);
    return last.ok();
  };
}

void Security::Watch(Observer& observer) {
  if (tls_ != nullptr) {
    tls_watch_.emplace(tls_files_.paths, tls_files_.versions,
                       Reload("certificate", observer, [this] { return tls_->Reload(); }));
  }
  if (tokens_ != nullptr) {
    token_watch_.emplace(token_files_.paths, token_files_.versions,
                         Reload("tokens", observer, [this] { return tokens_->Reload(); }));
  }
  if (http_tokens_ != nullptr) {
    http_token_watch_.emplace(
        http_token_files_.paths, http_token_files_.versions,
        Reload("http_tokens", observer, [this] { return http_tokens_->Reload(); }));
  }
  if (operator_tokens_ != nullptr) {
    operator_token_watch_.emplace(
        operator_token_files_.paths, operator_token_files_.versions,
        Reload("operator_tokens", observer, [this] { return operator_tokens_->Reload(); }));
  }
}

void Security::ReadNow() {
  for (std::optional<FileWatch>* const watch :
       {&tls_watch_, &token_watch_, &http_token_watch_, &operator_token_watch_}) {
    if (watch->has_value()) (*watch)->ReadNow();
  }
}

std::vector<SecurityWarning> Security::Warnings() const {
  std::vector<SecurityWarning> warnings;
  const auto add = [&warnings](const std::optional<SecurityWarning>& warning) {
    // Several files may be in one folder.
    if (!warning.has_value() || absl::c_linear_search(warnings, *warning)) return;
    warnings.push_back(*warning);
  };
  for (const std::string& path : {options_.tls.key, options_.token_file, options_.http_token_file,
                                  options_.operator_token_file}) {
    struct stat file {};
    if (path.empty() || stat(path.c_str(), &file) != 0) continue;
    add(WarnOfReaders(path, file, geteuid()));
    add(WarnOfFolder(path, "the tokens and keys in it"));
  }
  if (operator_tokens_ == nullptr) return warnings;
  if (tokens_ != nullptr && operator_tokens_->SharesATokenWith(*tokens_)) {
    add(SecurityWarning{options_.operator_token_file,
                        absl::StrCat("has a token that is also in ", options_.token_file,
                                     ": whoever runs a job with it may act as an operator"),
                        "give operators tokens of their own"});
  }
  if (http_tokens_ != nullptr && operator_tokens_->SharesATokenWith(*http_tokens_)) {
    add(SecurityWarning{options_.operator_token_file,
                        absl::StrCat("has a token that is also in ", options_.http_token_file,
                                     ": whoever reads the metrics with it may act as an operator"),
                        "give operators tokens of their own"});
  }
  return warnings;
}

std::shared_ptr<grpc::ServerCredentials> Security::Credentials() const {
  return tls_ != nullptr ? tls_->Credentials() : grpc::InsecureServerCredentials();
}

std::optional<int64_t> Security::certificate_end_seconds() const {
  if (tls_ == nullptr) return std::nullopt;
  return tls_->not_after_seconds();
}

}  // namespace stowage
