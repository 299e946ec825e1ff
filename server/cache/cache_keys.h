// Cache keys: hashes of a request that are equal where requests have one answer.
#ifndef STOWAGE_SERVER_CACHE_CACHE_KEYS_H_
#define STOWAGE_SERVER_CACHE_CACHE_KEYS_H_

#include <cstdint>
#include <string>
#include <utility>

#include "solver/model/instance.h"
#include "solver/model/request.h"

namespace stowage {

// 128 bits (XXH3), the same in every process and on every machine.
struct Fingerprint {
  uint64_t high = 0;
  uint64_t low = 0;

  bool operator==(const Fingerprint&) const = default;
  template <typename H>
  friend H AbslHashValue(H hash, const Fingerprint& f) {
    return H::combine(std::move(hash), f.high, f.low);
  }
};

// 32 hexadecimal digits.
std::string ToHex(const Fingerprint& fingerprint);

// The keys of one request. All contain the solver, its version and the options that it reads; none
// contains a name. Requests with equal `rounded` keys share a solve and its answer.
struct CacheKeys {
  Fingerprint rounded;      // of the instance in granules, which is solved first
  Fingerprint exact_sizes;  // of the instance with exact sizes
  Fingerprint exact;        // of the request, to the bit
};

// O(stages). Requires: RequestViolations(request) is empty; `rounded` is
// Instance::Rounded(request). Thread-safe.
CacheKeys CacheKeysOf(const SolveRequest& request, const Instance& rounded);

}  // namespace stowage

#endif  // STOWAGE_SERVER_CACHE_CACHE_KEYS_H_
