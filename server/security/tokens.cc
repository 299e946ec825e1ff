#include "server/security/tokens.h"

#include <openssl/sha.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/security/small_file.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

std::array<uint8_t, 32> Digest(absl::string_view token) {
  std::array<uint8_t, 32> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), digest.data());
  return digest;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokens>> Tokens::Load(const std::string& path) {
  std::unique_ptr<Tokens> tokens(new Tokens(path));
  RETURN_IF_ERROR(tokens->Reload());
  return tokens;
}

// Replaces the table as a whole. NameOf() copies the pointer under the lock and searches without
// it, so that calls never wait for a file, nor for each other's lookups.
absl::Status Tokens::Reload() {
  ASSIGN_OR_RETURN(Names names, Read());
  auto shared = std::make_shared<const Names>(std::move(names));
  MutexLock lock(mutex_);
  names_ = std::move(shared);
  return absl::OkStatus();
}

// One bad line makes the whole file unusable: a table without some of its tokens would lock callers
// out. Errors name the line and never contain a token, since they are logged.
absl::StatusOr<Tokens::Names> Tokens::Read() const {
  ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(path_));
  Names names;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const auto wrong = [&](absl::string_view what) {
      return absl::InvalidArgumentError(absl::StrCat(path_, ":", number, ": ", what));
    };
    std::vector<absl::string_view> fields =
        absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    fields.erase(std::find_if(fields.begin(), fields.end(),
                              [](absl::string_view field) { return field.front() == '#'; }),
                 fields.end());
    if (fields.empty()) continue;
    if (fields.size() != 2) {
      return wrong(
          "is not a name and a token with a space between, as in: trainer 9f86d081884c7d65");
    }
    if (fields[1].size() < kLeastCharacters) {
      return wrong(absl::StrCat("the token has fewer than ", kLeastCharacters,
                                " characters; make one with: openssl rand -hex 32"));
    }
    if (!names.emplace(Digest(fields[1]), std::string(fields[0])).second) {
      return wrong("the token is in the file twice");
    }
  }
  if (!names.empty()) return names;
  return absl::InvalidArgumentError(absl::StrCat(
      path_, ": has no token, so every call would be refused; add a line: NAME TOKEN"));
}

absl::StatusOr<std::string> Tokens::NameOf(absl::string_view authorization) const {
  constexpr absl::string_view kBearer = "Bearer ";
  if (authorization.empty()) {
    return absl::UnauthenticatedError(
        "authorization: is missing; send \"authorization: Bearer TOKEN\" with a token that this "
        "server knows (--token-file of stowage)");
  }
  if (!absl::StartsWithIgnoreCase(authorization, kBearer)) {
    return absl::UnauthenticatedError("authorization: is not of the form \"Bearer TOKEN\"");
  }
  const absl::string_view token = absl::StripAsciiWhitespace(authorization.substr(kBearer.size()));
  std::shared_ptr<const Names> names;
  {
    MutexLock lock(mutex_);
    names = names_;
  }
  const auto found = names->find(Digest(token));
  if (found != names->end()) return found->second;
  return absl::UnauthenticatedError(
      "authorization: this server does not know the token; it may have been replaced");
}

}  // namespace stowage
