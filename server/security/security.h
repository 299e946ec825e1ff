// Certificates and tokens: read at start, and again when the files change.
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
#include "server/observe/observer.h"
#include "server/security/file_watch.h"
#include "server/security/tls.h"
#include "server/security/tokens.h"

namespace stowage {

struct SecurityOptions {
  TlsFiles tls;            // empty: connections are not encrypted
  std::string token_file;  // empty: no token is asked for
};

// Thread-safe.
class Security {
 public:
  // Errors: a file that is missing, unreadable or wrong, by name.
  static absl::StatusOr<std::unique_ptr<Security>> Load(const SecurityOptions& options);

  // From now on replaced files count, and `observer`, which outlives this object, hears of each
  // replacement. What is wrong changes nothing: what was read before stays in force.
  void Watch(Observer& observer);

  // This object outlives the server that uses them.
  std::shared_ptr<grpc::ServerCredentials> Credentials() const;
  // Null: none is asked for.
  const Tokens* tokens() const { return tokens_.get(); }
  // When the server's certificate ends, in seconds since 1970; unset without one.
  std::optional<int64_t> certificate_end_seconds() const;

 private:
  explicit Security(const SecurityOptions& options) : options_(options) {}

  // What is read again when its files change.
  struct Kept {
    std::vector<std::string> paths;
    std::vector<FileLook> seen;  // before they were read
  };
  // Calls `reload`, and tells the observer of each success, and of each failure that is another one
  // than the last.
  static std::function<bool()> Reload(const char* which, Observer& observer,
                                      std::function<absl::Status()> reload);

  const SecurityOptions options_;
  Kept tls_files_;
  Kept token_files_;
  std::unique_ptr<Tls> tls_;
  std::unique_ptr<Tokens> tokens_;
  std::optional<FileWatch> tls_watch_;  // last: their threads use all of the above
  std::optional<FileWatch> token_watch_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_SECURITY_SECURITY_H_
