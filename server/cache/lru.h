// A cache of bounded size that evicts the least recently used values.
#ifndef STOWAGE_SERVER_CACHE_LRU_H_
#define STOWAGE_SERVER_CACHE_LRU_H_

#include <cstdint>
#include <iterator>
#include <list>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "server/cache/cache_tier.h"
#include "solver/base/mutex.h"

namespace stowage {

// Immutable values by key; the least recently used ones are evicted when the bytes are used up.
// Thread-safe. Values are freed outside the lock.
template <typename Key, typename Value>
class Lru {
 public:
  using Pointer = std::shared_ptr<const Value>;

  // A value that takes more than `most_bytes` by itself is not stored; 0 stores none.
  explicit Lru(int64_t most_bytes) : most_bytes_(most_bytes) {}

  // Null: a miss.
  Pointer Get(const Key& key) {
    MutexLock lock(mutex_);
    const auto place = places_.find(key);
    if (place == places_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, place->second);
    return place->second->value;
  }

  // Replaces the value of the same key. `bytes`: what the value takes in memory, bookkeeping
  // included.
  void Put(const Key& key, Pointer value, int64_t bytes) {
    std::list<Entry> evicted;  // freed after the lock is released
    MutexLock lock(mutex_);
    // Keys may point into their values: a key is erased from the map before its value is freed.
    const auto drop = [&](typename std::list<Entry>::iterator entry)
                          ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                            bytes_ -= entry->bytes;
                            places_.erase(entry->key);
                            evicted.splice(evicted.begin(), entries_, entry);
                          };
    if (const auto place = places_.find(key); place != places_.end()) drop(place->second);
    if (bytes > most_bytes_) return;
    while (bytes_ + bytes > most_bytes_) {
      drop(std::prev(entries_.end()));
      ++evictions_;
    }
    entries_.push_front({key, std::move(value), bytes});
    places_[key] = entries_.begin();
    bytes_ += bytes;
  }

  void AddTo(CacheStats* stats) const {
    MutexLock lock(mutex_);
    stats->entries += static_cast<int64_t>(entries_.size());
    stats->bytes += bytes_;
    stats->evictions += evictions_;
  }

 private:
  struct Entry {
    Key key;
    Pointer value;
    int64_t bytes = 0;
  };

  const int64_t most_bytes_;
  mutable Mutex mutex_;
  std::list<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // most recently used first
  absl::flat_hash_map<Key, typename std::list<Entry>::iterator> places_ ABSL_GUARDED_BY(mutex_);
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t evictions_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_CACHE_LRU_H_
