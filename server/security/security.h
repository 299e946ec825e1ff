// The server's certificate and tokens: read at start, and again when their files change.
#ifndef STOWAGE_SERVER_SECURITY_SECURITY_H_
#define STOWAGE_SERVER_SECURITY_SECURITY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/security/server_credentials.h"
#include "server/events/observer.h"
#include "server/security/file_permissions.h"
#include "server/security/file_watch.h"
#include "server/security/tls.h"
#include "server/security/tokens.h"

namespace stowage {

struct SecurityOptions {
  TlsFiles tls;                     // empty: connections are not encrypted
  std::string token_file;           // empty: callers need no token
  bool http_tls = false;            // on the HTTP port, too; needs `tls`
  std::string http_token_file;      // empty: the metrics are read without a token
  std::string operator_token_file;  // empty: there is no operators' service
};

// Thread-safe.
class Security {
 public:
  // Errors: NOT_FOUND, PERMISSION_DENIED or INVALID_ARGUMENT, naming the file; the last one also
  // for a key, tokens or authorities that other users may write.
  static absl::StatusOr<std::unique_ptr<Security>> Load(const SecurityOptions& options);

  // From now on replaced files are read again, and each replacement is reported to `observer`,
  // which outlives this object. An unusable file changes nothing: the old contents stay in force.
  void Watch(Observer& observer);

  // Reads all files again now and reports each reading to the observer of Watch(), which was called
  // before. Returns once new calls use new tokens; new connections use a new certificate within two
  // seconds.
  void ReadNow();

  // Files of secrets that other users may read, and operators' tokens that others have, as of now.
  std::vector<SecurityWarning> Warnings() const;

  // This object outlives the server that uses them.
  std::shared_ptr<grpc::ServerCredentials> Credentials() const;
  // Null: callers need no token.
  const Tokens* tokens() const { return tokens_.get(); }
  // The same for the HTTP port.
  const Tokens* http_tokens() const { return http_tokens_.get(); }
  // What the HTTP port uses for TLS, OpenSSL's SSL_CTX: for each connection the newest. Requires:
  // there is a certificate.
  std::shared_ptr<ssl_ctx_st> HttpContext() const { return tls_->Context(); }
  // Null: there is no operators' service.
  const Tokens* operator_tokens() const { return operator_tokens_.get(); }
  // When the server's certificate ends, in seconds since 1970; unset without one.
  std::optional<int64_t> certificate_end_seconds() const;

 private:
  explicit Security(const SecurityOptions& options) : options_(options) {}

  // Files that are read again together when one of them changes.
  struct WatchedFiles {
    std::vector<std::string> paths;
    std::vector<FileVersion> versions;  // from before they were read
  };
  // Calls `reload` and reports each success to the observer, and each failure but those of retries
  // that fail as before. Returns whether it succeeded: FileWatch repeats what failed.
  static std::function<bool(ReadCause)> Reload(const char* which, Observer& observer,
                                               std::function<absl::Status()> reload);

  const SecurityOptions options_;
  WatchedFiles tls_files_;  // set by Load()
  WatchedFiles token_files_;
  WatchedFiles http_token_files_;
  WatchedFiles operator_token_files_;
  std::unique_ptr<Tls> tls_;
  std::unique_ptr<Tokens> tokens_;
  std::unique_ptr<Tokens> http_tokens_;
  std::unique_ptr<Tokens> operator_tokens_;
  std::optional<FileWatch> tls_watch_;  // last: their threads use all of the above
  std::optional<FileWatch> token_watch_;
  std::optional<FileWatch> http_token_watch_;
  std::optional<FileWatch> operator_token_watch_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_SECURITY_SECURITY_H_
