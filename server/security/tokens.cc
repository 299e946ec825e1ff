#include "server/security/tokens.h"

#include <openssl/sha.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/security/file_permissions.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

std::array<uint8_t, 32> Digest(absl::string_view token) {
  std::array<uint8_t, 32> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), digest.data());
  return digest;
}

constexpr int kMaxOfALimit = 1'000'000;

// Reads "calls=100" or "solves=8". False: it is neither, or is set already.
bool ReadLimit(absl::string_view text, ClientLimits* limits) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('=', 1));
  int number = 0;
  if (!absl::SimpleAtoi(parts.second, &number) || number < 1 || number > kMaxOfALimit) {
    return false;
  }
  if (parts.first == "calls" && !limits->calls_per_second.has_value()) {
    limits->calls_per_second = number;
    return true;
  }
  if (parts.first == "solves" && !limits->solves.has_value()) {
    limits->solves = static_cast<size_t>(number);
    return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokens>> Tokens::Load(const std::string& path) {
  std::unique_ptr<Tokens> tokens(new Tokens(path));
  RETURN_IF_ERROR(tokens->Reload());
  return tokens;
}

// Replaces the table as a whole. HolderOf() copies the pointer under the lock and searches without
// it, so that calls never wait for a file, nor for each other's lookups.
absl::Status Tokens::Reload() {
  ASSIGN_OR_RETURN(Holders holders, Read());
  auto shared = std::make_shared<const Holders>(std::move(holders));
  MutexLock lock(mutex_);
  holders_ = std::move(shared);
  return absl::OkStatus();
}

// One bad line makes the whole file unusable: a table without some of its tokens would lock callers
// out. Errors name the line and never contain a token, since they are logged.
absl::StatusOr<Tokens::Holders> Tokens::Read() const {
  ASSIGN_OR_RETURN(const std::string text, ReadTrustedFile(path_));
  Holders holders;
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
    if (fields.size() < 2) {
      return wrong(
          "is not a name and a token with a space between, as in: trainer 9f86d081884c7d65");
    }
    TokenHolder holder = {.name = std::string(fields[0])};
    for (size_t i = 2; i < fields.size(); ++i) {
      if (!ReadLimit(fields[i], &holder.limits)) {
        return wrong(absl::StrCat("word ", i + 1,
                                  " is no limit; after the token write calls=N, a second, or "
                                  "solves=N, that wait or run, N from 1 to ",
                                  kMaxOfALimit));
      }
    }
    if (fields[1].size() < kMinCharacters) {
      return wrong(absl::StrCat("the token has fewer than ", kMinCharacters,
                                " characters; make one with: openssl rand -hex 32"));
    }
    if (!holders.emplace(Digest(fields[1]), std::move(holder)).second) {
      return wrong("the token is in the file twice");
    }
  }
  if (!holders.empty()) return holders;
  return absl::InvalidArgumentError(absl::StrCat(
      path_, ": has no token, so every call would be refused; add a line: NAME TOKEN"));
}

bool Tokens::SharesATokenWith(const Tokens& other) const {
  const std::shared_ptr<const Holders> mine = Current();
  const std::shared_ptr<const Holders> others = other.Current();
  return absl::c_any_of(*mine,
                        [&others](const auto& holder) { return others->contains(holder.first); });
}

absl::StatusOr<TokenHolder> Tokens::HolderOf(absl::string_view authorization) const {
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
  const std::shared_ptr<const Holders> holders = Current();
  const auto found = holders->find(Digest(token));
  if (found != holders->end()) return found->second;
  return absl::UnauthenticatedError(
      "authorization: this server does not know the token; it may have been replaced");
}

}  // namespace stowage
