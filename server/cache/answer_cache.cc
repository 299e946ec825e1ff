#include "server/cache/answer_cache.h"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "solver/simulator/simulator.h"
#include "solver/solve/answer_request.h"

namespace stowage {
namespace {

template <typename T>
int64_t HeapBytes(const std::vector<T>& values) {
  return static_cast<int64_t>(values.capacity() * sizeof(T));
}

// What an answer takes in memory, approximately.
int64_t BytesOf(const CachedAnswer& cached) {
  constexpr int64_t kBookkeeping = 256;  // of the LRU list and the allocator
  const Answer& answer = cached.answer;
  const Explanation& explanation = answer.explanation;
  int64_t bytes = kBookkeeping + static_cast<int64_t>(sizeof(CachedAnswer));
  bytes += HeapBytes(answer.schedule.operations);
  bytes += HeapBytes(explanation.peaks) + HeapBytes(explanation.idles);
  bytes += HeapBytes(explanation.stages);
  for (const Peak& peak : explanation.peaks) bytes += HeapBytes(peak.holdings);
  for (const std::string& note : explanation.notes) {
    bytes += static_cast<int64_t>(sizeof(std::string) + note.capacity());
  }
  return bytes;
}

int64_t BytesOf(const CachedResponse& cached) {
  constexpr size_t kBookkeeping = 1024;  // with the strings of the record
  return static_cast<int64_t>(kBookkeeping + sizeof(CachedResponse) +
                              cached.request_text.capacity() + cached.response.capacity());
}

// An answer and the keys of the request that it was solved for.
struct Earlier {
  const Answer& answer;
  const CacheKeys& keys;
};

// The earlier answer for `request`, with prediction and explanation from a simulation of its
// schedule on the request's own chain; nullopt: it does not fit there. That a budget is infeasible
// holds for equal sizes only.
std::optional<Answer> Reuse(const SolveRequest& request, const CacheKeys& keys,
                            const Earlier& earlier) {
  const bool same_sizes = earlier.keys.exact_sizes == keys.exact_sizes;
  if (earlier.answer.outcome == Outcome::kInfeasible && !same_sizes) return std::nullopt;
  const bool same = earlier.keys.exact == keys.exact;
  std::optional<Answer> answer =
      ReuseAnswer(request, earlier.answer, same ? SameInstance::kExactly : SameInstance::kRounded);
  // Sizes that differ by less than a granule may need a little more, or less.
  if (answer.has_value() && !same_sizes) answer->minimum_memory_bytes.reset();
  return answer;
}

// What the notes say of a tier's answer that the lower bound does not prove optimal.
constexpr const char* kNotProvedAgain =
    "kept from an earlier solve: its schedule was checked again, not whether a faster one exists";

bool Fits(const SolveRequest& request, const Answer& answer) {
  if (answer.outcome == Outcome::kInfeasible) return true;
  const absl::StatusOr<Simulation> simulation =
      Simulate(request.chain, request.platform, answer.schedule);
  return simulation.ok() && simulation->feasible();
}

AnswerPtr Shared(std::optional<Answer> answer) {
  return answer.has_value() ? std::make_shared<const Answer>(*std::move(answer)) : nullptr;
}

}  // namespace

AnswerPtr AnswerFromCached(const SolveRequest& request, const CacheKeys& keys,
                           const CachedAnswerPtr& cached) try {
  if (cached->is_explained && cached->keys.exact == keys.exact) {
    // Prediction and explanation are this request's. The schedule is simulated all the same: no
    // schedule leaves the server unchecked.
    return Fits(request, cached->answer) ? AnswerPtr(cached, &cached->answer) : nullptr;
  }
  return Shared(Reuse(request, keys, {cached->answer, cached->keys}));
} catch (const std::bad_alloc&) {
  return nullptr;
}

// Without a rounding loss, since that takes a solve of its own, for which there is no time.
AnswerPtr AnswerFromBest(const SolveRequest& request, const CacheKeys& keys, const Answer& best,
                         const CacheKeys& best_keys) try {
  SolveRequest plain = request;
  plain.options.report_rounding_loss = false;
  return Shared(Reuse(plain, keys, {best, best_keys}));
} catch (const std::bad_alloc&) {
  return nullptr;
}

AnswerCache::AnswerCache(const CacheLimits& memory, CacheTier* tier, Observer& observer)
    : responses_(CacheLimits{memory.bytes / 2, memory.client_share}),
      tier_(tier),
      observer_(observer) {
  const int64_t answer_bytes = memory.bytes - memory.bytes / 2;
  const CacheLimits of_a_shard = {answer_bytes / int64_t{kShards}, memory.client_share};
  for (size_t i = 0; i < kShards; ++i) answers_.emplace_back(of_a_shard);
}

// Tries both keys under which KeyOf() may have put the answer. The lock of a shard is held for the
// lookup only, not for the simulation.
AnswerPtr AnswerCache::FindInMemory(const SolveRequest& request, const CacheKeys& keys) {
  for (const Fingerprint* key : {&keys.rounded, &keys.exact_sizes}) {
    const CachedAnswerPtr cached = ShardOf(*key).Get(*key);
    if (cached == nullptr) continue;
    if (AnswerPtr answer = AnswerFromCached(request, keys, cached)) return answer;
  }
  return nullptr;
}

// Tries both keys, as FindInMemory() does. The result carries the keys of this request, for which
// it was simulated, and is ready for PutInMemory().
CachedAnswerPtr AnswerCache::FindInTier(const SolveRequest& request, const CacheKeys& keys,
                                        const std::string& client) {
  if (tier_ == nullptr || request.options.report_rounding_loss) return nullptr;
  for (const Fingerprint* key : {&keys.rounded, &keys.exact_sizes}) {
    const absl::StatusOr<CachedAnswerPtr> cached = tier_->Get(*key);
    if (!cached.ok()) {
      observer_.StoreFailed(cached.status());
      continue;
    }
    if (*cached == nullptr) continue;
    if (!(KeyOf(**cached) == *key)) {
      observer_.StoreFailed(absl::DataLossError(
          "the cache tier returned the answer to another request; it is not used"));
      continue;
    }
    const Answer& kept = (*cached)->answer;
    std::optional<Answer> answer = AnswerWithSchedule(request, kept.schedule, kept.solver);
    if (!answer.has_value()) continue;
    answer->from_exact_sizes = kept.from_exact_sizes;
    if (answer->outcome != Outcome::kOptimal) answer->explanation.notes.push_back(kNotProvedAgain);
    return std::make_shared<const CachedAnswer>(
        CachedAnswer{*std::move(answer), keys, client, /*is_explained=*/true});
  }
  return nullptr;
}

void AnswerCache::PutInMemory(const CachedAnswerPtr& cached) {
  const Fingerprint key = KeyOf(*cached);
  ShardOf(key).Put(key, cached, BytesOf(*cached), cached->owner);
}

void AnswerCache::PutInTier(const CachedAnswerPtr& cached) {
  const Answer& answer = cached->answer;
  if (answer.outcome == Outcome::kInfeasible || answer.rounding_loss.has_value()) return;
  if (const absl::Status put = tier_->Put(cached); !put.ok()) observer_.StoreFailed(put);
}

absl::StatusOr<int64_t> AnswerCache::Remove(const Fingerprint& fingerprint) {
  int64_t from_tier = 0;
  if (tier_ != nullptr) {
    const absl::StatusOr<int64_t> removed = tier_->Remove(fingerprint);
    if (!removed.ok()) return removed.status();
    from_tier = *removed;
  }
  int64_t from_memory = 0;
  for (Shard& shard : answers_) {
    from_memory += shard.RemoveIf(
        [&fingerprint](const CachedAnswer& cached) { return cached.keys.rounded == fingerprint; });
  }
  const std::string hex = ToHex(fingerprint);
  const int64_t responses = responses_.RemoveIf(
      [&hex](const CachedResponse& cached) { return cached.answer.origin.fingerprint == hex; });
  const int64_t answers =
      std::max(from_tier, from_memory);  // what is on disk is, or was, in memory
  return answers > 0 ? answers : responses;
}

// The key points into the value, which the cache holds for as long as the key.
void AnswerCache::PutResponse(CachedResponse response) {
  const auto shared = std::make_shared<const CachedResponse>(std::move(response));
  responses_.Put(shared->request_text, shared, BytesOf(*shared), shared->owner);
}

CacheStats AnswerCache::memory_stats() const {
  CacheStats stats;
  for (const Shard& shard : answers_) shard.AddTo(&stats);
  return stats;
}

CacheStats AnswerCache::response_stats() const {
  CacheStats stats;
  responses_.AddTo(&stats);
  return stats;
}

}  // namespace stowage
