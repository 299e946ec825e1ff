// A cache of bounded size that evicts the least recently used values, and is shared fairly.
#ifndef STOWAGE_SERVER_CACHE_LRU_H_
#define STOWAGE_SERVER_CACHE_LRU_H_

#include <cstdint>
#include <iterator>
#include <list>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "server/cache/cache_tier.h"
#include "solver/base/mutex.h"

namespace stowage {

// Immutable values by key; when the bytes are used up the least recently used ones are evicted: of
// all, or of the owner that needs the room where it has its share already. An owner alone may have
// everything, and cannot evict all that others have. Thread-safe. Values are freed outside the
// lock.
template <typename Key, typename Value>
class Lru {
 public:
  using Pointer = std::shared_ptr<const Value>;

  // A value that takes more than all bytes by itself is not stored; 0 stores none.
  explicit Lru(const CacheLimits& limits) : limits_(limits) {}

  // Evicts the least recently used values that no longer fit.
  void SetBytes(int64_t bytes) {
    std::list<Entry> dropped;  // freed after the lock is released
    MutexLock lock(mutex_);
    limits_.bytes = bytes;
    while (bytes_ > bytes) {
      Drop(std::prev(entries_.end()), &dropped);
      ++evictions_;
    }
  }

  // Null: a miss.
  Pointer Get(const Key& key) {
    MutexLock lock(mutex_);
    const auto place = places_.find(key);
    if (place == places_.end()) return nullptr;
    const Place entry = place->second;
    Owner& owner = owners_.find(entry->owner)->second;
    entries_.splice(entries_.begin(), entries_, entry);
    owner.entries.splice(owner.entries.begin(), owner.entries, entry->of_owner);
    return entry->value;
  }

  // Replaces the owner's value of the same key. Another owner's stays, with its owner, and the new
  // one is not stored: else anybody could take over what others had stored, and then evict it.
  // `bytes`: what the value takes in memory, bookkeeping included.
  void Put(const Key& key, Pointer value, int64_t bytes, absl::string_view owner_name) {
    std::list<Entry> dropped;  // freed after the lock is released
    MutexLock lock(mutex_);
    if (const auto place = places_.find(key); place != places_.end()) {
      if (place->second->owner != owner_name) return;
      Drop(place->second, &dropped);
    }
    if (bytes > limits_.bytes) return;
    while (bytes_ + bytes > limits_.bytes) {
      Drop(Victim(owner_name, bytes), &dropped);
      ++evictions_;
    }
    Owner& owner = owners_[owner_name];
    entries_.push_front({key, std::move(value), bytes, std::string(owner_name)});
    owner.entries.push_front(entries_.begin());
    entries_.front().of_owner = owner.entries.begin();
    places_[key] = entries_.begin();
    owner.bytes += bytes;
    bytes_ += bytes;
  }

  // Removes the values of which `is_one` is true, and returns how many. O(entries).
  template <typename Predicate>
  int64_t RemoveIf(Predicate is_one) {
    std::list<Entry> dropped;
    MutexLock lock(mutex_);
    for (auto entry = entries_.begin(); entry != entries_.end();) {
      const auto each = entry++;
      if (is_one(*each->value)) Drop(each, &dropped);
    }
    return static_cast<int64_t>(dropped.size());
  }

  void AddTo(CacheStats* stats) const {
    MutexLock lock(mutex_);
    stats->entries += static_cast<int64_t>(entries_.size());
    stats->bytes += bytes_;
    stats->evictions += evictions_;
  }

 private:
  struct Entry;
  using Place = typename std::list<Entry>::iterator;
  struct Entry {
    Key key;
    Pointer value;
    int64_t bytes = 0;
    std::string owner;
    typename std::list<Place>::iterator of_owner = {};  // in Owner::entries
  };
  struct Owner {
    std::list<Place> entries;  // most recently used first
    int64_t bytes = 0;
  };

  Place Victim(absl::string_view owner_name, int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto owner = owners_.find(owner_name);
    if (owner != owners_.end() && limits_.ExceedsShare(owner->second.bytes + bytes)) {
      return owner->second.entries.back();
    }
    return std::prev(entries_.end());
  }

  // Keys may point into their values: a key is erased from the map before its value is freed.
  void Drop(Place entry, std::list<Entry>* dropped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    bytes_ -= entry->bytes;
    places_.erase(entry->key);
    const auto owner = owners_.find(entry->owner);
    owner->second.bytes -= entry->bytes;
    owner->second.entries.erase(entry->of_owner);
    if (owner->second.entries.empty()) owners_.erase(owner);
    dropped->splice(dropped->begin(), entries_, entry);
  }

  mutable Mutex mutex_;
  CacheLimits limits_ ABSL_GUARDED_BY(mutex_);
  std::list<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // most recently used first
  absl::flat_hash_map<Key, Place> places_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, Owner> owners_ ABSL_GUARDED_BY(mutex_);  // those with entries
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t evictions_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_CACHE_LRU_H_
