// The server's cache: answers in memory, the serialized responses in which they were sent, and a
// tier below that outlives the process.
#ifndef STOWAGE_SERVER_CACHE_ANSWER_CACHE_H_
#define STOWAGE_SERVER_CACHE_ANSWER_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "server/cache/cache_keys.h"
#include "server/cache/cache_tier.h"
#include "server/cache/lru.h"
#include "server/events/observer.h"
#include "solver/model/answer.h"
#include "solver/model/request.h"

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

// Where a cached answer is for exactly these sizes and times, or for others that round to the same
// instance, it is simulated on the request's own chain before it is returned; what does not fit
// there is a miss. Errors of the tier are reported to the observer and count as misses.
// Thread-safe.
class AnswerCache {
 public:
  // A half of the memory is for answers, a half for responses. `tier` may be null. Borrows both.
  AnswerCache(const CacheLimits& memory, CacheTier* tier, Observer& observer);

  // The cached answer to `request`; null: a miss. Never blocks.
  AnswerPtr FindInMemory(const SolveRequest& request, const CacheKeys& keys);
  // The same from the tier below, complete with prediction and explanation, for `client`, who asks:
  // a copy in memory counts as that client's, whoever had it solved, so that nobody fills another's
  // share by asking for its answers. Blocks on the tier.
  //
  // A tier's answer is believed in nothing but what its schedule shows on the request's chain: it
  // is optimal where it meets the lower bound, else feasible; it has no least memory, and the notes
  // are made anew. A miss for requests that ask for the rounding loss.
  CachedAnswerPtr FindInTier(const SolveRequest& request, const CacheKeys& keys,
                             const std::string& client);

  // Keeps the answer, in place of its owner's own of the same key; does nothing where there is one
  // of another owner.
  void PutInMemory(const CachedAnswerPtr& cached);
  bool has_tier() const { return tier_ != nullptr; }
  // The same in the tier, which is not given answers that it would not be believed: that nothing
  // fits, or what rounding loses. Blocks on it. Requires: has_tier().
  void PutInTier(const CachedAnswerPtr& cached);

  // Removes the answers with that CacheKeys::rounded from memory and from the tier, and the
  // responses whose origin has the fingerprint: those of the answers, or of a Frontier. Returns how
  // many answers there were; where there were none, how many responses. O(entries), blocks on the
  // tier. Errors: those of the tier.
  absl::StatusOr<int64_t> Remove(const Fingerprint& fingerprint);

  // Null: a miss.
  CachedResponsePtr FindResponse(const std::string& request_text) {
    return responses_.Get(request_text);
  }
  // As PutInMemory().
  void PutResponse(CachedResponse response);

  CacheStats memory_stats() const;
  CacheStats response_stats() const;

 private:
  static constexpr size_t kShards = 8;

  // Keys are distributed over shards, so that callers rarely wait for each other's lock.
  using Shard = Lru<Fingerprint, CachedAnswer>;
  Shard& ShardOf(const Fingerprint& key) { return answers_[key.bytes[0] % kShards]; }

  std::deque<Shard> answers_;                         // not movable, hence no vector
  Lru<absl::string_view, CachedResponse> responses_;  // keys point into the values
  CacheTier* const tier_;
  Observer& observer_;
};

// `cached` as an answer to `request`, simulated on the request's own chain; null: it does not fit
// there, or memory runs out. Thread-safe.
AnswerPtr AnswerFromCached(const SolveRequest& request, const CacheKeys& keys,
                           const CachedAnswerPtr& cached);

// The same for the best schedule so far of a solve that is under way. Without a rounding loss.
// `best_keys` are those of the request that is being solved.
AnswerPtr AnswerFromBest(const SolveRequest& request, const CacheKeys& keys, const Answer& best,
                         const CacheKeys& best_keys);

}  // namespace stowage

#endif  // STOWAGE_SERVER_CACHE_ANSWER_CACHE_H_
