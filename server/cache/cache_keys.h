// Cache keys: hashes of a request that are equal where requests have one answer, and only there.
//
// Callers share the cache without trusting each other, so a key is a collision-resistant hash of a
// canonical encoding: nobody can construct a request that has the key of another one. An answer
// found under a key is therefore one to the same request.
#ifndef STOWAGE_SERVER_CACHE_CACHE_KEYS_H_
#define STOWAGE_SERVER_CACHE_CACHE_KEYS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "solver/model/instance.h"
#include "solver/model/request.h"

namespace stowage {

// SHA-256, the same in every process and on every machine.
struct Fingerprint {
  std::array<uint8_t, 32> bytes = {};

  bool operator==(const Fingerprint&) const = default;
  template <typename H>
  friend H AbslHashValue(H hash, const Fingerprint& fingerprint) {
    return H::combine(std::move(hash), fingerprint.bytes);
  }
};

// 64 hexadecimal digits.
std::string ToHex(const Fingerprint& fingerprint);

// Of any bytes. Throws std::bad_alloc without enough memory.
Fingerprint FingerprintOf(absl::string_view bytes);

// nullopt: the text is not 64 hexadecimal digits.
std::optional<Fingerprint> FingerprintFromHex(absl::string_view text);

// The keys of one request. All contain the solver, its version and the options that it reads; none
// contains a name. Requests with equal `rounded` keys share a solve and its answer.
struct CacheKeys {
  Fingerprint rounded;      // of the instance in granules, which is solved first
  Fingerprint exact_sizes;  // of the instance with exact sizes
  Fingerprint exact;        // of the request, to the bit
};

// O(stages). Requires: RequestViolations(request) is empty; `rounded` is
// Instance::Rounded(request). Throws std::bad_alloc without enough memory. Thread-safe.
CacheKeys CacheKeysOf(const SolveRequest& request, const Instance& rounded);

}  // namespace stowage

#endif  // STOWAGE_SERVER_CACHE_CACHE_KEYS_H_
