// The cache in memory: the least recently used answers go when the bytes are used up.
#ifndef STOWAGE_SERVER_ENGINE_MEMORY_TIER_H_
#define STOWAGE_SERVER_ENGINE_MEMORY_TIER_H_

#include <array>
#include <cstdint>
#include <list>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "server/engine/cache_tier.h"
#include "solver/base/mutex.h"

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
  class Shard {
   public:
    KnownAnswerPtr Get(const Fingerprint& key);
    void Put(KnownAnswerPtr known, int64_t most_bytes);
    void AddTo(CacheTierStats* stats) const;

   private:
    struct Entry {
      KnownAnswerPtr known;
      int64_t bytes = 0;
    };

    mutable Mutex mutex_;
    std::list<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // the last used first
    absl::flat_hash_map<Fingerprint, std::list<Entry>::iterator> places_ ABSL_GUARDED_BY(mutex_);
    int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
    int64_t evictions_ ABSL_GUARDED_BY(mutex_) = 0;
  };

  Shard& ShardOf(const Fingerprint& key) { return shards_[key.low % kShards]; }

  const int64_t shard_bytes_;
  std::array<Shard, kShards> shards_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_MEMORY_TIER_H_
