// TLS: the server's certificate and key, and the authorities of its callers' certificates.
#ifndef STOWAGE_SERVER_SECURITY_TLS_H_
#define STOWAGE_SERVER_SECURITY_TLS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/security/server_credentials.h"
#include "solver/base/mutex.h"

struct ssl_ctx_st;

namespace stowage {

// PEM files. `client_authorities` is optional; without the other two there is no TLS.
struct TlsFiles {
  std::string certificate = {};  // the chain, the server's own certificate first
  std::string key = {};          // without a passphrase
  std::string client_authorities =
      {};  // not empty: callers need a certificate signed by one of these
};

// The contents of a PEM file of authorities. Errors: those of ReadTrustedFile(); INVALID_ARGUMENT
// where it has no certificate. Thread-safe.
absl::StatusOr<std::string> ReadAuthorities(const std::string& path);

// Serves the contents of the files, and after Reload() their new contents. gRPC can watch files by
// itself, but uses whatever it finds; here it watches copies in memory, which are written only
// after certificate and key have been checked to belong together. Thread-safe.
class Tls {
 public:
  // Errors: INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED with the file and what is wrong with it.
  static absl::StatusOr<std::unique_ptr<Tls>> Load(const TlsFiles& files);
  ~Tls();
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;

  // New connections use the new contents within two seconds. Errors: those of Load(), and nothing
  // changes.
  absl::Status Reload();

  // For AddListeningPort(); this object outlives the server.
  std::shared_ptr<grpc::ServerCredentials> Credentials() const;

  // The same certificate for a server that uses OpenSSL itself (an SSL_CTX); callers need none.
  std::shared_ptr<ssl_ctx_st> Context() const;

  // The end of the certificate's validity, in seconds since 1970.
  int64_t not_after_seconds() const { return not_after_seconds_; }

 private:
  // A file in memory that gRPC reads by name.
  class Copy;

  explicit Tls(const TlsFiles& files);

  const TlsFiles files_;
  const std::unique_ptr<Copy> certificate_;
  const std::unique_ptr<Copy> key_;
  const std::unique_ptr<Copy> client_authorities_;
  std::atomic<int64_t> not_after_seconds_{0};
  mutable Mutex mutex_;
  std::shared_ptr<ssl_ctx_st> context_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_SECURITY_TLS_H_
