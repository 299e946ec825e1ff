#include "server/security/redis_login.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/security/file_permissions.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

using Context = std::shared_ptr<SSL_CTX>;

absl::Status WrongForReason(const std::string& path, absl::string_view what) {
  const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", what, reason != nullptr ? absl::StrCat(": ", reason) : ""));
}

// OpenSSL says little of a file that is not there: it is read here first.
absl::Status CheckReadable(const std::string& path) { return ReadTrustedFile(path).status(); }

absl::StatusOr<Context> MakeContext(const RedisLoginFiles& files) {
  Context context(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  if (context == nullptr) return absl::ResourceExhaustedError("out of memory");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  if (files.authorities.empty()) {
    SSL_CTX_set_default_verify_paths(context.get());
  } else {
    RETURN_IF_ERROR(CheckReadable(files.authorities));
    if (SSL_CTX_load_verify_locations(context.get(), files.authorities.c_str(), nullptr) != 1) {
      return WrongForReason(files.authorities, "has no certificate in PEM");
    }
  }
  if (files.own.certificate.empty()) return context;
  RETURN_IF_ERROR(CheckReadable(files.own.certificate));
  if (SSL_CTX_use_certificate_chain_file(context.get(), files.own.certificate.c_str()) != 1) {
    return WrongForReason(files.own.certificate, "has no certificate in PEM");
  }
  RETURN_IF_ERROR(CheckReadable(files.own.key));
  if (SSL_CTX_use_PrivateKey_file(context.get(), files.own.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return WrongForReason(files.own.key, "is not the key of the certificate");
  }
  return context;
}

}  // namespace

absl::StatusOr<RedisLogin> ReadRedisLogin(const RedisLoginFiles& files) {
  RedisLogin login;
  if (!files.user_file.empty()) {
    ASSIGN_OR_RETURN(const std::string text, ReadTrustedFile(files.user_file));
    const std::vector<std::string> words =
        absl::StrSplit(text, absl::ByAnyChar(" \t\r\n"), absl::SkipEmpty());
    if (words.empty() || words.size() > 2) {
      return absl::InvalidArgumentError(absl::StrCat(
          files.user_file, ": has to be one line, with a password, or with a user and a password"));
    }
    if (words.size() == 2) login.user = words.front();
    login.password = words.back();
  }
  if (files.has_tls) {
    ASSIGN_OR_RETURN(login.tls, MakeContext(files));
  }
  return login;
}

}  // namespace stowage
