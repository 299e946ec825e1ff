#include "server/cache/memory_tier.h"

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

MemoryTier::MemoryTier(int64_t most_bytes) {
  for (size_t i = 0; i < kShards; ++i) shards_.emplace_back(most_bytes / int64_t{kShards});
}

absl::StatusOr<KnownAnswerPtr> MemoryTier::Get(const Fingerprint& key) {
  return ShardOf(key).Get(key);
}

absl::Status MemoryTier::Put(KnownAnswerPtr known) {
  const Fingerprint key = KeyOf(*known);
  const int64_t bytes = BytesOf(*known);
  ShardOf(key).Put(key, std::move(known), bytes);
  return absl::OkStatus();
}

CacheTierStats MemoryTier::stats() const {
  CacheTierStats stats;
  for (const Shard& shard : shards_) shard.AddTo(&stats);
  return stats;
}

}  // namespace stowage
