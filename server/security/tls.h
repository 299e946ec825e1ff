// The server's certificate, and which certificates of callers it believes.
#ifndef STOWAGE_SERVER_SECURITY_TLS_H_
#define STOWAGE_SERVER_SECURITY_TLS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/security/server_credentials.h"

namespace stowage {

// PEM files. All of them, but for `client_authorities`, or none.
struct TlsFiles {
  std::string certificate;         // with what leads to its authority, the server's own first
  std::string key;                 // without a passphrase
  std::string client_authorities;  // not empty: callers need a certificate that one of these signed
};

// Serves what the files say, and after Reload() what they say then. gRPC watches files by itself
// but takes whatever it finds; here it watches copies in memory, which are written only once
// certificate and key are known to belong together. What was served before is served until then.
// Thread-safe.
class Tls {
 public:
  // Errors: INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED with the file and what is wrong with it.
  static absl::StatusOr<std::unique_ptr<Tls>> Load(const TlsFiles& files);
  ~Tls();
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;

  // New connections see what is new within two seconds. Errors as of Load(): nothing has changed.
  absl::Status Reload();

  // For AddListeningPort(); this object outlives the server.
  std::shared_ptr<grpc::ServerCredentials> Credentials() const;

  // When the certificate ends, in seconds since 1970.
  int64_t not_after_seconds() const { return not_after_seconds_; }

 private:
  // A file in memory that others read by name.
  class Copy;

  explicit Tls(const TlsFiles& files);

  const TlsFiles files_;
  const std::unique_ptr<Copy> certificate_;
  const std::unique_ptr<Copy> key_;
  const std::unique_ptr<Copy> client_authorities_;
  std::atomic<int64_t> not_after_seconds_{0};
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_SECURITY_TLS_H_
