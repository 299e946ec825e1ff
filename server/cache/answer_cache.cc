#include "server/cache/answer_cache.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"

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

}  // namespace

AnswerCache::AnswerCache(const CacheLimits& memory, std::vector<NamedTier> tiers,
                         Observer& observer)
    : responses_(CacheLimits{0, memory.client_share}), observer_(observer) {
  for (size_t i = 0; i < kShards; ++i) answers_.emplace_back(CacheLimits{0, memory.client_share});
  for (NamedTier& tier : tiers) tiers_.emplace_back(std::move(tier));
  SetMemoryBytes(memory.bytes);
}

void AnswerCache::SetMemoryBytes(int64_t bytes) {
  memory_bytes_ = bytes;
  responses_.SetBytes(bytes / 2);
  const int64_t answer_bytes = bytes - bytes / 2;
  for (Shard& shard : answers_) shard.SetBytes(answer_bytes / int64_t{kShards});
}

// Tries both keys under which KeyOf() may have put the answer. The lock of a shard is held for the
// lookup only, not for the proof.
AnswerPtr AnswerCache::FindInMemory(const CacheKeys& keys, absl::FunctionRef<ProveInMemory> prove) {
  for (const Fingerprint* key : {&keys.rounded, &keys.exact_sizes}) {
    const CachedAnswerPtr cached = ShardOf(*key).Get(*key);
    if (cached == nullptr) continue;
    if (AnswerPtr answer = prove(cached)) return answer;
  }
  return nullptr;
}

TierHit AnswerCache::FindInTiers(const CacheKeys& keys, absl::FunctionRef<ProveInTier> prove) {
  for (size_t i = 0; i < tiers_.size(); ++i) {
    CachedAnswerPtr cached = FindIn(tiers_[i], keys, prove);
    if (cached == nullptr) continue;
    for (size_t above = 0; above < i; ++above) PutIn(tiers_[above], cached);
    return {std::move(cached), tiers_[i].named.source};
  }
  return {};
}

// Tries both keys, as FindInMemory() does; a tier that does not work is not asked twice.
CachedAnswerPtr AnswerCache::FindIn(Tier& tier, const CacheKeys& keys,
                                    absl::FunctionRef<ProveInTier> prove) {
  std::atomic<int64_t>* outcome = &tier.misses;
  for (const Fingerprint* key : {&keys.rounded, &keys.exact_sizes}) {
    absl::StatusOr<CachedAnswerPtr> cached = tier.named.tier->Get(*key);
    if (cached.ok() && *cached == nullptr) continue;
    if (cached.ok() && !(KeyOf(**cached) == *key)) {
      cached = absl::DataLossError(
          "the cache tier returned the answer to another request; it is not used");
    }
    if (!cached.ok()) {
      observer_.StoreFailed(cached.status());
      outcome = &tier.failures;
      if (absl::IsDataLoss(cached.status())) continue;
      break;
    }
    if (CachedAnswerPtr proved = prove((*cached)->answer)) {
      ++tier.hits;
      return proved;
    }
  }
  ++*outcome;
  return nullptr;
}

void AnswerCache::PutIn(Tier& tier, const CachedAnswerPtr& cached) {
  if (const absl::Status put = tier.named.tier->Put(cached); !put.ok()) observer_.StoreFailed(put);
}

void AnswerCache::PutInMemory(const CachedAnswerPtr& cached) {
  const Fingerprint key = KeyOf(*cached);
  ShardOf(key).Put(key, cached, BytesOf(*cached), cached->owner);
}

void AnswerCache::PutInTiers(const CachedAnswerPtr& cached) {
  if (!BelongsInTiers(*cached)) return;
  for (Tier& tier : tiers_) PutIn(tier, cached);
}

absl::StatusOr<int64_t> AnswerCache::Remove(const Fingerprint& fingerprint) {
  int64_t answers = 0;
  for (Tier& tier : tiers_) {
    const absl::StatusOr<int64_t> removed = tier.named.tier->Remove(fingerprint);
    if (!removed.ok()) return removed.status();
    answers = std::max(answers, *removed);
  }
  int64_t from_memory = 0;
  for (Shard& shard : answers_) {
    from_memory += shard.RemoveIf(
        [&fingerprint](const CachedAnswer& cached) { return cached.keys.rounded == fingerprint; });
  }
  const std::string hex = ToHex(fingerprint);
  const int64_t responses = responses_.RemoveIf(
      [&hex](const CachedResponse& cached) { return cached.answer.origin.fingerprint == hex; });
  answers = std::max(answers, from_memory);  // what is in a tier is, or was, in memory
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

std::vector<TierStats> AnswerCache::tier_stats() const {
  std::vector<TierStats> stats;
  stats.reserve(tiers_.size());
  for (const Tier& tier : tiers_) {
    stats.push_back({.name = tier.named.name,
                     .stored = tier.named.tier->stats(),
                     .hits = tier.hits,
                     .misses = tier.misses,
                     .failures = tier.failures});
  }
  return stats;
}

CacheStats AnswerCache::response_stats() const {
  CacheStats stats;
  responses_.AddTo(&stats);
  return stats;
}

}  // namespace stowage
