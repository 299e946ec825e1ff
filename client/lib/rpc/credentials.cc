#include "client/lib/rpc/credentials.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "solver/base/file.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

// The text of a file of at most a mebibyte; empty for an empty path.
absl::StatusOr<std::string> Read(const std::string& path) {
  if (path.empty()) return std::string();
  ASSIGN_OR_RETURN(std::string text, ReadSmallFile(path, FileKind::kAny));
  if (text.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": is empty"));
  return text;
}

}  // namespace

absl::StatusOr<Credentials> ReadCredentials(const CredentialFiles& files) {
  if (files.certificate.empty() != files.key.empty()) {
    return absl::InvalidArgumentError("--tls-cert, --tls-key: give both, or neither");
  }
  Credentials credentials;
  credentials.tls = files.tls || !files.authorities.empty() || !files.certificate.empty();
  ASSIGN_OR_RETURN(credentials.authorities, Read(files.authorities));
  ASSIGN_OR_RETURN(credentials.certificate, Read(files.certificate));
  ASSIGN_OR_RETURN(credentials.key, Read(files.key));
  ASSIGN_OR_RETURN(std::string token, Read(files.token));
  absl::StripAsciiWhitespace(&token);
  // Printable ASCII without spaces: what an HTTP header can carry. The file may end with a newline.
  const bool is_plain = std::all_of(token.begin(), token.end(), [](char c) {
    return absl::ascii_isgraph(static_cast<unsigned char>(c));
  });
  if (!is_plain || (token.empty() && !files.token.empty())) {
    return absl::InvalidArgumentError(
        absl::StrCat(files.token, ": is not a token: one word without spaces"));
  }
  credentials.token = std::move(token);
  return credentials;
}

}  // namespace stowage
