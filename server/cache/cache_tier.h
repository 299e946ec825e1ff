// The interface of caches below the memory cache, which outlive the process.
#ifndef STOWAGE_SERVER_CACHE_CACHE_TIER_H_
#define STOWAGE_SERVER_CACHE_CACHE_TIER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/cache/cache_keys.h"
#include "solver/model/answer.h"

namespace stowage {

// An answer and the keys of the request that it answers. Immutable, shared.
struct CachedAnswer {
  Answer answer;
  CacheKeys keys;
  // Whose share of the cache it takes: the client whose request was solved, or found it in a tier.
  std::string owner = {};
  // Whether prediction and explanation are set, for the request of keys.exact. A tier stores the
  // schedule alone, and whose it is.
  bool is_explained = false;
  // Of the lease under which it was solved (solve_leases.h); 0: without one.
  int64_t lease_token = 0;
  // Whether its request asked for the rounding loss, which the schedule does not show.
  bool has_more_than_schedule = false;
};
using CachedAnswerPtr = std::shared_ptr<const CachedAnswer>;

// The key under which an answer is cached. Whether a budget is feasible, and what was solved with
// exact sizes, depends on the exact sizes; all else on the rounded instance alone.
inline const Fingerprint& KeyOf(const CachedAnswer& cached) {
  const bool exact =
      cached.answer.outcome == Outcome::kInfeasible || cached.answer.from_exact_sizes;
  return exact ? cached.keys.exact_sizes : cached.keys.rounded;
}

// How much a cache may hold.
struct CacheLimits {
  int64_t bytes = 0;
  // Of the bytes, for the answers that one client had solved. A client that has more gives up its
  // own answers when it needs room; others do not lose theirs.
  double client_share = 1;

  bool ExceedsShare(int64_t client_bytes) const {
    return static_cast<double>(client_bytes) > client_share * static_cast<double>(bytes);
  }
};

struct CacheStats {
  int64_t entries = 0;
  int64_t bytes = 0;
  int64_t evictions = 0;  // since the start
};

// What it returns is not trusted: AnswerCache compares the keys, and engine/solves/reuse.h believes
// what the schedule shows on the chain of the request. Thread-safe. Calls may block, on a disk or a
// network.
class CacheTier {
 public:
  virtual ~CacheTier() = default;
  // Null: a miss. Errors: DATA_LOSS for an entry that was corrupted, which is removed; UNAVAILABLE
  // when the tier does not work.
  virtual absl::StatusOr<CachedAnswerPtr> Get(const Fingerprint& key) = 0;
  // Replaces its owner's entry of the same key, or stores nothing where the entry is another
  // owner's; may drop it, or evict others. Errors: UNAVAILABLE.
  virtual absl::Status Put(CachedAnswerPtr cached) = 0;
  // Removes the answers whose CacheKeys::rounded it is, and returns how many. Errors: UNAVAILABLE.
  virtual absl::StatusOr<int64_t> Remove(const Fingerprint& rounded) = 0;
  virtual CacheStats stats() const = 0;
};

// A tier that lists its answers, to be copied elsewhere. Thread-safe.
class AnswerSource {
 public:
  virtual ~AnswerSource() = default;
  // Calls `visit` with each answer until it returns false; those used last come first where the
  // tier knows. Now and then also with null, where it reads something else, such as a damaged one.
  // Errors: UNAVAILABLE.
  virtual absl::Status Visit(absl::FunctionRef<bool(CachedAnswerPtr)> visit) = 0;
};

// A tier that answers are copied into. Thread-safe.
class AnswerTarget {
 public:
  virtual ~AnswerTarget() = default;
  // Stores an answer for whose key there is none, of whatever owner, and no lease. False: there is
  // one, perhaps a newer one, or there will be. Errors: UNAVAILABLE.
  virtual absl::StatusOr<bool> PutIfAbsent(CachedAnswerPtr cached) = 0;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_CACHE_CACHE_TIER_H_
