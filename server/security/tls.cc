#include "server/security/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"
#include "server/security/file_permissions.h"
#include "solver/base/file.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

constexpr unsigned kSecondsBetweenReads = 1;  // by gRPC, of the copies in memory

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

// Reads from `text`, which it borrows.
Bio ReaderOf(const std::string& text) {
  return {BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free};
}

// Also empties OpenSSL's queue of errors, which belongs to the thread: a later failure would report
// one of these instead of its own.
absl::Status Wrong(const std::string& path, absl::string_view what) {
  ERR_clear_error();
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

// Without it OpenSSL prompts for the passphrase of an encrypted key on the terminal.
int NoPassphrase(char*, int, int, void*) { return 0; }

using Context = std::shared_ptr<SSL_CTX>;

struct Contents {
  std::string certificate;
  std::string key;
  std::string client_authorities;
  Context context;  // with certificate and key
  int64_t not_after_seconds = 0;
};

// OpenSSL's text for the last error of this thread.
std::string Reason() {
  const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
  return reason != nullptr ? reason : "no reason given";
}

// Loads certificate, key and the rest of the chain into a TLS context, as gRPC will: OpenSSL
// refuses some there that can be parsed, such as keys that are too short for its security level.
// `chain` is positioned behind the server's own certificate.
absl::StatusOr<Context> MakeContext(const TlsFiles& files, X509* certificate, EVP_PKEY* key,
                                    BIO* chain) {
  Context context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  if (context == nullptr) return absl::ResourceExhaustedError("out of memory");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);  // gRPC's least
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION);
  if (SSL_CTX_use_certificate(context.get(), certificate) != 1) {
    return Wrong(files.certificate, absl::StrCat("cannot be served: ", Reason()));
  }
  while (X509* const more = PEM_read_bio_X509(chain, nullptr, NoPassphrase, nullptr)) {
    if (SSL_CTX_add0_chain_cert(context.get(), more) == 1) continue;
    X509_free(more);
    return Wrong(files.certificate,
                 absl::StrCat("what follows the certificate cannot be served: ", Reason()));
  }
  if (SSL_CTX_use_PrivateKey(context.get(), key) != 1 ||
      SSL_CTX_check_private_key(context.get()) != 1) {
    return Wrong(files.key, absl::StrCat("cannot be used: ", Reason()));
  }
  ERR_clear_error();
  return context;
}

// Checks certificate and key, by themselves and together, and sets `not_after_seconds` and
// `context`.
absl::Status CheckPair(const TlsFiles& files, Contents* contents) {
  const Bio certificate_text = ReaderOf(contents->certificate);
  const Certificate certificate(
      PEM_read_bio_X509(certificate_text.get(), nullptr, NoPassphrase, nullptr), X509_free);
  if (certificate == nullptr) {
    return Wrong(files.certificate,
                 "has no certificate in PEM; it begins with -----BEGIN CERTIFICATE-----");
  }
  const Bio key_text = ReaderOf(contents->key);
  const Key key(PEM_read_bio_PrivateKey(key_text.get(), nullptr, NoPassphrase, nullptr),
                EVP_PKEY_free);
  if (key == nullptr) return Wrong(files.key, "has no private key in PEM without a passphrase");
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    return Wrong(files.key,
                 absl::StrCat("is not the key of the certificate in ", files.certificate));
  }
  std::tm end{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &end) != 1) {
    return Wrong(files.certificate, "does not say when it ends");
  }
  contents->not_after_seconds = timegm(&end);
  ASSIGN_OR_RETURN(contents->context,
                   MakeContext(files, certificate.get(), key.get(), certificate_text.get()));
  return absl::OkStatus();
}

absl::StatusOr<Contents> Read(const TlsFiles& files) {
  Contents contents;
  ASSIGN_OR_RETURN(contents.certificate, ReadSmallFile(files.certificate, FileKind::kRegular));
  ASSIGN_OR_RETURN(contents.key, ReadTrustedFile(files.key));
  RETURN_IF_ERROR(CheckPair(files, &contents));
  if (files.client_authorities.empty()) return contents;
  ASSIGN_OR_RETURN(contents.client_authorities, ReadAuthorities(files.client_authorities));
  return contents;
}

}  // namespace

absl::StatusOr<std::string> ReadAuthorities(const std::string& path) {
  ASSIGN_OR_RETURN(std::string authorities, ReadTrustedFile(path));
  const Bio text = ReaderOf(authorities);
  const Certificate first(PEM_read_bio_X509(text.get(), nullptr, NoPassphrase, nullptr), X509_free);
  if (first == nullptr) return Wrong(path, "has no certificate in PEM");
  return authorities;
}

// Opening path() opens the file in memory anew: it is read from the start, and its modification
// time is that of the last Write().
class Tls::Copy {
 public:
  Copy() : fd_(memfd_create("stowage-tls", MFD_CLOEXEC)) {}
  ~Copy() {
    if (fd_ >= 0) close(fd_);
  }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;

  std::string path() const { return absl::StrCat("/proc/self/fd/", fd_); }

  // gRPC may read while this writes, or between key and certificate; it reads again a second later.
  // Handshakes that begin within that second may fail; clients retry them.
  absl::Status Write(const std::string& text) {
    const auto size = static_cast<ssize_t>(text.size());
    if (fd_ >= 0 && ftruncate(fd_, 0) == 0 && pwrite(fd_, text.data(), text.size(), 0) == size) {
      return absl::OkStatus();
    }
    return absl::ErrnoToStatus(errno, "cannot keep the certificate in memory");
  }

 private:
  const int fd_;
};

Tls::Tls(const TlsFiles& files)
    : files_(files),
      certificate_(std::make_unique<Copy>()),
      key_(std::make_unique<Copy>()),
      client_authorities_(std::make_unique<Copy>()) {}

Tls::~Tls() = default;

absl::StatusOr<std::unique_ptr<Tls>> Tls::Load(const TlsFiles& files) {
  std::unique_ptr<Tls> tls(new Tls(files));
  RETURN_IF_ERROR(tls->Reload());
  return tls;
}

// Reads and checks everything before it writes anything: unusable files change nothing.
absl::Status Tls::Reload() {
  ASSIGN_OR_RETURN(const Contents contents, Read(files_));
  RETURN_IF_ERROR(key_->Write(contents.key));
  RETURN_IF_ERROR(certificate_->Write(contents.certificate));
  RETURN_IF_ERROR(client_authorities_->Write(contents.client_authorities));
  not_after_seconds_ = contents.not_after_seconds;
  MutexLock lock(mutex_);
  context_ = contents.context;
  return absl::OkStatus();
}

std::shared_ptr<SSL_CTX> Tls::Context() const {
  MutexLock lock(mutex_);
  return context_;
}

std::shared_ptr<grpc::ServerCredentials> Tls::Credentials() const {
  namespace tls = grpc::experimental;
  const bool is_mutual = !files_.client_authorities.empty();
  tls::TlsServerCredentialsOptions options(std::make_shared<tls::FileWatcherCertificateProvider>(
      key_->path(), certificate_->path(), is_mutual ? client_authorities_->path() : "",
      kSecondsBetweenReads));
  options.watch_identity_key_cert_pairs();
  if (is_mutual) {
    options.watch_root_certs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return tls::TlsServerCredentials(options);
}

}  // namespace stowage
