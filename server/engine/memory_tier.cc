#include "server/engine/memory_tier.h"

#include <utility>

namespace stowage {
namespace {

template <typename T>
int64_t BytesOf(const std::vector<T>& values) {
  return static_cast<int64_t>(values.capacity() * sizeof(T));
}

}  // namespace

int64_t BytesOf(const KnownAnswer& known) {
  constexpr int64_t kBookkeeping = 256;  // of the tier and the allocator
  const Answer& answer = known.answer;
  const Explanation& explanation = answer.explanation;
  int64_t bytes = kBookkeeping + static_cast<int64_t>(sizeof(KnownAnswer));
  bytes += BytesOf(answer.schedule.operations);
  bytes += BytesOf(explanation.peaks) + BytesOf(explanation.idles) + BytesOf(explanation.stages);
  for (const Peak& peak : explanation.peaks) bytes += BytesOf(peak.holdings);
  for (const std::string& note : explanation.notes) {
    bytes += static_cast<int64_t>(sizeof(note) + note.capacity());
  }
  return bytes;
}

KnownAnswerPtr MemoryTier::Shard::Get(const Fingerprint& key) {
  MutexLock lock(mutex_);
  const auto place = places_.find(key);
  if (place == places_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, place->second);
  return place->second->known;
}

void MemoryTier::Shard::Put(KnownAnswerPtr known, int64_t most_bytes) {
  const int64_t bytes = BytesOf(*known);
  const Fingerprint key = KeyOf(*known);
  std::list<Entry> gone;  // freed without the lock
  MutexLock lock(mutex_);
  const auto drop = [&](std::list<Entry>::iterator entry) {
    bytes_ -= entry->bytes;
    places_.erase(KeyOf(*entry->known));
    gone.splice(gone.begin(), entries_, entry);
  };
  if (const auto place = places_.find(key); place != places_.end()) drop(place->second);
  if (bytes > most_bytes) return;
  while (bytes_ + bytes > most_bytes) {
    drop(std::prev(entries_.end()));
    ++evictions_;
  }
  entries_.push_front({std::move(known), bytes});
  places_[key] = entries_.begin();
  bytes_ += bytes;
}

void MemoryTier::Shard::AddTo(CacheTierStats* stats) const {
  MutexLock lock(mutex_);
  stats->entries += static_cast<int64_t>(entries_.size());
  stats->bytes += bytes_;
  stats->evictions += evictions_;
}

MemoryTier::MemoryTier(int64_t most_bytes) : shard_bytes_(most_bytes / int64_t{kShards}) {}

absl::StatusOr<KnownAnswerPtr> MemoryTier::Get(const Fingerprint& key) {
  return ShardOf(key).Get(key);
}

absl::Status MemoryTier::Put(KnownAnswerPtr known) {
  Shard& shard = ShardOf(KeyOf(*known));
  shard.Put(std::move(known), shard_bytes_);
  return absl::OkStatus();
}

CacheTierStats MemoryTier::stats() const {
  CacheTierStats stats;
  for (const Shard& shard : shards_) shard.AddTo(&stats);
  return stats;
}

}  // namespace stowage
