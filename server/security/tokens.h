// Authentication by bearer tokens from a file.
#ifndef STOWAGE_SERVER_SECURITY_TOKENS_H_
#define STOWAGE_SERVER_SECURITY_TOKENS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/engine/limits/client_limits.h"
#include "solver/base/mutex.h"

namespace stowage {

// The holder of a token: callers with one name are one client.
struct TokenHolder {
  std::string name = {};
  ClientLimits limits = {};
};

// A line of the file is "NAME TOKEN", and may go on with limits of this client: "calls=100" a
// second, "solves=8" that wait or run. Empty lines, and the rest of a line after a # at the
// beginning of a word, are ignored. Several tokens may have one name, so that a new token can be
// valid before the old one is removed. Thread-safe.
class Tokens {
 public:
  static constexpr size_t kMinCharacters = 16;  // of a token: fewer can be guessed

  // Errors: INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED with the file, the line and the remedy;
  // never with a token.
  static absl::StatusOr<std::unique_ptr<Tokens>> Load(const std::string& path);

  // Errors: those of Load(), and the tokens stay as they were.
  absl::Status Reload();

  // Whether a token is among these and among the others.
  bool SharesATokenWith(const Tokens& other) const;

  // The holder of the token in "Bearer TOKEN".
  // Errors: UNAUTHENTICATED, with the remedy.
  absl::StatusOr<TokenHolder> HolderOf(absl::string_view authorization) const;

 private:
  // By the SHA-256 of the token, so that the time of a lookup reveals nothing about the tokens.
  using Holders = absl::flat_hash_map<std::array<uint8_t, 32>, TokenHolder>;

  explicit Tokens(const std::string& path) : path_(path) {}
  absl::StatusOr<Holders> Read() const;
  std::shared_ptr<const Holders> Current() const {
    MutexLock lock(mutex_);
    return holders_;
  }

  const std::string path_;
  mutable Mutex mutex_;
  std::shared_ptr<const Holders> holders_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_SECURITY_TOKENS_H_
