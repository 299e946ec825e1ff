// The server's cache: answers in memory, the serialized responses in which they were sent, and
// tiers below that outlive the process. Storage alone: engine/solves/reuse.h proves what is found.
#ifndef STOWAGE_SERVER_CACHE_ANSWER_CACHE_H_
#define STOWAGE_SERVER_CACHE_ANSWER_CACHE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/service/origin.h"
#include "server/cache/cache_keys.h"
#include "server/cache/cache_tier.h"
#include "server/cache/lru.h"
#include "server/events/observer.h"
#include "solver/model/answer.h"

namespace stowage {

using AnswerPtr = std::shared_ptr<const Answer>;

// A serialized response, found by the text of the request that it answers. Equal texts are equal
// requests, for which the response was simulated before it left the first time.
struct CachedResponse {
  std::string request_text = {};  // compared whole: a hash alone could be forged
  std::string response = {};      // bytes that the cache does not interpret
  std::string owner = {};         // the client that it was sent to first
  // For log and metrics: the request's stages and solver, and its answer.
  int stages = 0;
  std::string solver = {};
  AnswerRecord answer = {};
};
using CachedResponsePtr = std::shared_ptr<const CachedResponse>;

// A tier, and how it is known. Borrows it.
struct NamedTier {
  std::string name;       // "disk", in the metrics
  Origin::Source source;  // of the answers that are found in it
  CacheTier* tier;
};

struct TierStats {
  std::string name = {};
  CacheStats stored = {};
  // Look-ups since the start; one of a request counts once.
  int64_t hits = 0;
  int64_t misses = 0;
  int64_t failures = 0;  // the tier did not work, or what it had was damaged
};

// Null: a miss.
struct TierHit {
  CachedAnswerPtr cached = {};
  Origin::Source source = Origin::Source::kSolved;  // of the tier that had it
};

// Finds answers by their keys. Whether one does for a request is proved by the caller, who gets it
// as a candidate. Errors of tiers are reported to the observer and count as misses. Thread-safe.
class AnswerCache {
 public:
  // A half of the memory is for answers, a half for responses. The tiers are in the order in which
  // they are asked, the quickest first. Borrows the observer.
  AnswerCache(const CacheLimits& memory, std::vector<NamedTier> tiers, Observer& observer);

  // What a candidate proves to be; null: it does not do for the request.
  using ProveInMemory = AnswerPtr(const CachedAnswerPtr& candidate);
  using ProveInTier = CachedAnswerPtr(const Answer& candidate);

  // The answer in memory under these keys; null: a miss. Never blocks.
  AnswerPtr FindInMemory(const CacheKeys& keys, absl::FunctionRef<ProveInMemory> prove);
  // The same from the first tier that has one, which is then written to the tiers above that one,
  // as it was proved. Blocks on the tiers.
  TierHit FindInTiers(const CacheKeys& keys, absl::FunctionRef<ProveInTier> prove);

  // Keeps the answer, in place of its owner's own of the same key; does nothing where there is one
  // of another owner.
  void PutInMemory(const CachedAnswerPtr& cached);
  bool has_tiers() const { return !tiers_.empty(); }
  // Tiers are not given answers that they would not be believed: that nothing fits, or what
  // rounding loses.
  static bool BelongsInTiers(const CachedAnswer& cached) {
    return cached.answer.outcome != Outcome::kInfeasible && !cached.has_more_than_schedule;
  }
  // The same in all tiers, where it belongs there. Blocks on them.
  void PutInTiers(const CachedAnswerPtr& cached);

  // Removes the answers with that CacheKeys::rounded from memory and from the tiers, and the
  // responses whose origin has the fingerprint: those of the answers, or of a Frontier. Returns how
  // many answers there were; where there were none, how many responses. O(entries), blocks on the
  // tiers. Errors: those of the tiers.
  absl::StatusOr<int64_t> Remove(const Fingerprint& fingerprint);

  // Null: a miss.
  CachedResponsePtr FindResponse(absl::string_view request_text) {
    return responses_.Get(request_text);
  }
  // As PutInMemory().
  void PutResponse(CachedResponse response);

  // How much memory it may take from now on; what no longer fits is evicted.
  void SetMemoryBytes(int64_t bytes);
  int64_t memory_bytes() const { return memory_bytes_; }

  CacheStats memory_stats() const;
  CacheStats response_stats() const;
  std::vector<TierStats> tier_stats() const;  // in their order

 private:
  static constexpr size_t kShards = 8;

  // Keys are distributed over shards, so that callers rarely wait for each other's lock.
  using Shard = Lru<Fingerprint, CachedAnswer>;
  Shard& ShardOf(const Fingerprint& key) { return answers_[key.bytes[0] % kShards]; }

  struct Tier {
    explicit Tier(NamedTier its) : named(std::move(its)) {}
    const NamedTier named;
    std::atomic<int64_t> hits = 0;
    std::atomic<int64_t> misses = 0;
    std::atomic<int64_t> failures = 0;
  };
  CachedAnswerPtr FindIn(Tier& tier, const CacheKeys& keys, absl::FunctionRef<ProveInTier> prove);
  void PutIn(Tier& tier, const CachedAnswerPtr& cached);

  std::atomic<int64_t> memory_bytes_;
  std::deque<Shard> answers_;                         // not movable, hence no vector
  Lru<absl::string_view, CachedResponse> responses_;  // keys point into the values
  std::deque<Tier> tiers_;                            // likewise
  Observer& observer_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_CACHE_ANSWER_CACHE_H_
