// A cache tier for tests, in memory.
#ifndef STOWAGE_TESTS_SUPPORT_FAKE_TIER_H_
#define STOWAGE_TESTS_SUPPORT_FAKE_TIER_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/cache/cache_tier.h"
#include "solver/base/mutex.h"

namespace stowage {

// Without bounds; can be made to fail, and its reads to wait.
class FakeTier final : public CacheTier, public AnswerTarget {
 public:
  absl::StatusOr<CachedAnswerPtr> Get(const Fingerprint& key) override {
    MutexLock lock(mutex_);
    ++blocked_;
    while (paused_) resumed_.Wait(mutex_);
    --blocked_;
    ++reads_;
    read_.push_back(ToHex(key));
    if (broken_) return absl::UnavailableError("broken");
    const auto found = entries_.find(ToHex(key));
    return found != entries_.end() ? found->second : nullptr;
  }
  absl::Status Put(CachedAnswerPtr cached) override {
    MutexLock lock(mutex_);
    if (broken_) return absl::UnavailableError("broken");
    CachedAnswerPtr& entry = entries_[ToHex(KeyOf(*cached))];
    if (entry == nullptr || entry->owner == cached->owner) entry = std::move(cached);
    return absl::OkStatus();
  }
  absl::StatusOr<bool> PutIfAbsent(CachedAnswerPtr cached) override {
    MutexLock lock(mutex_);
    if (broken_) return absl::UnavailableError("broken");
    return entries_.try_emplace(ToHex(KeyOf(*cached)), cached).second;
  }
  absl::StatusOr<int64_t> Remove(const Fingerprint& rounded) override {
    MutexLock lock(mutex_);
    return static_cast<int64_t>(std::erase_if(
        entries_, [&](const auto& entry) { return entry.second->keys.rounded == rounded; }));
  }
  CacheStats stats() const override {
    MutexLock lock(mutex_);
    CacheStats stats = {.entries = static_cast<int64_t>(entries_.size())};
    for (const auto& [key, cached] : entries_) {
      stats.bytes += static_cast<int64_t>(cached->answer.schedule.operations.size());
    }
    return stats;
  }
  void Break() {
    MutexLock lock(mutex_);
    broken_ = true;
  }
  void Repair() {
    MutexLock lock(mutex_);
    broken_ = false;
  }
  int reads() const {
    MutexLock lock(mutex_);
    return reads_;
  }
  std::vector<std::string> read_keys() const {
    MutexLock lock(mutex_);
    return read_;
  }
  // Reads wait from here on until Resume().
  void Pause() {
    MutexLock lock(mutex_);
    paused_ = true;
  }
  void Resume() {
    MutexLock lock(mutex_);
    paused_ = false;
    resumed_.SignalAll();
  }
  // Waits until Resume(), as a read does.
  void AwaitResume() {
    MutexLock lock(mutex_);
    ++blocked_;
    while (paused_) resumed_.Wait(mutex_);
    --blocked_;
  }
  int blocked() const {
    MutexLock lock(mutex_);
    return blocked_;
  }

 private:
  mutable Mutex mutex_;
  CondVar resumed_;
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;
  int blocked_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> read_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, CachedAnswerPtr> entries_ ABSL_GUARDED_BY(mutex_);
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  int reads_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_FAKE_TIER_H_
