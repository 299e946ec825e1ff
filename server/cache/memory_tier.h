// The cache in memory: the least recently used answers go when the bytes are used up.
#ifndef STOWAGE_SERVER_CACHE_MEMORY_TIER_H_
#define STOWAGE_SERVER_CACHE_MEMORY_TIER_H_

#include <cstdint>
#include <deque>

#include "server/cache/cache_tier.h"
#include "server/cache/lru.h"

namespace stowage {

// What an answer takes in memory, about.
int64_t BytesOf(const KnownAnswer& known);

class MemoryTier final : public CacheTier {
 public:
  // An answer that takes more than a shard's share of `most_bytes` is not kept; 0 keeps none.
  explicit MemoryTier(int64_t most_bytes);

  absl::StatusOr<KnownAnswerPtr> Get(const Fingerprint& key) override;
  absl::Status Put(KnownAnswerPtr known) override;
  CacheTierStats stats() const override;

 private:
  static constexpr size_t kShards = 8;

  // A part of the keys, so that callers rarely wait for each other.
  using Shard = Lru<Fingerprint, KnownAnswer>;

  Shard& ShardOf(const Fingerprint& key) { return shards_[key.low % kShards]; }

  std::deque<Shard> shards_;  // which can neither be copied nor moved
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_CACHE_MEMORY_TIER_H_
