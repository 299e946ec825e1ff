// Proof and reuse of answers: one that was given to an earlier request, or that a cache tier kept,
// becomes the answer to a request once its schedule has been simulated on that request's own chain.
#ifndef STOWAGE_SERVER_ENGINE_SOLVES_REUSE_H_
#define STOWAGE_SERVER_ENGINE_SOLVES_REUSE_H_

#include <stop_token>
#include <string>

#include "server/cache/answer_cache.h"
#include "server/cache/cache_keys.h"
#include "server/cache/cache_tier.h"
#include "server/engine/solves/keyed_request.h"
#include "solver/model/answer.h"
#include "solver/model/request.h"

namespace stowage {

// All are thread-safe.

// `cached` as an answer to the request; null: it does not fit there, or memory runs out. Requires:
// cached->is_explained, as it is of all answers in memory.
AnswerPtr AnswerFromCached(const KeyedRequest& keyed, const CachedAnswerPtr& cached);

// The same for the best schedule so far of a solve that is under way. Without a rounding loss.
// `best_keys` are those of the request that is being solved, whose own callers take `best` itself.
AnswerPtr AnswerFromBest(const KeyedRequest& keyed, const Answer& best, const CacheKeys& best_keys);

// The answer in memory to the request; null: a miss. Never blocks.
AnswerPtr FindInMemory(AnswerCache& cache, const KeyedRequest& keyed);

// The same from the tiers below, complete with prediction and explanation, for `client`, who asks:
// copies count as that client's, whoever had it solved, so that nobody fills another's share by
// asking for its answers. Blocks on the tiers.
//
// A tier's answer is believed in nothing but what its schedule shows on the request's chain: it is
// optimal where it meets the lower bound, else feasible; it has no least memory, and the notes are
// made anew. The bound is the quick one. A miss for requests that ask for the rounding loss.
TierHit FindInTiers(AnswerCache& cache, const KeyedRequest& keyed, const std::string& client);

// An answer of FindInTiers() under a closer lower bound, which takes some 10 ms, with a link up to
// 100; null: `stop` is set, or memory runs out.
CachedAnswerPtr WithCloserBound(const SolveRequest& request, const CachedAnswer& from_tier,
                                const std::stop_token& stop);

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_SOLVES_REUSE_H_
