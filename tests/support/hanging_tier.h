// A cache tier for tests that hangs until it is let go.
#ifndef STOWAGE_TESTS_SUPPORT_HANGING_TIER_H_
#define STOWAGE_TESTS_SUPPORT_HANGING_TIER_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/cache/cache_tier.h"
#include "solver/base/mutex.h"
#include "tests/support/fake_tier.h"

namespace stowage {

// Its calls go to a FakeTier, which the test keeps, and wait while it hangs, stats() as well.
class HangingTier final : public CacheTier {
 public:
  // Shared by the test and the tier, which a guard owns.
  class Gate {
   public:
    void Close() {
      MutexLock lock(mutex_);
      is_closed_ = true;
    }
    void Open() {
      MutexLock lock(mutex_);
      is_closed_ = false;
      changed_.SignalAll();
    }
    void Pass() {
      MutexLock lock(mutex_);
      ++waiting_;
      changed_.SignalAll();
      while (is_closed_) changed_.Wait(mutex_);
      --waiting_;
    }
    void AwaitWaiting(int calls) {
      MutexLock lock(mutex_);
      while (waiting_ < calls) changed_.Wait(mutex_);
    }

   private:
    Mutex mutex_;
    CondVar changed_;
    bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
    int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  };

  HangingTier(FakeTier& tier, Gate& gate) : tier_(tier), gate_(gate) {}

  absl::StatusOr<CachedAnswerPtr> Get(const Fingerprint& key) override {
    gate_.Pass();
    return tier_.Get(key);
  }
  absl::Status Put(CachedAnswerPtr cached) override {
    gate_.Pass();
    return tier_.Put(std::move(cached));
  }
  absl::StatusOr<int64_t> Remove(const Fingerprint& rounded) override {
    gate_.Pass();
    return tier_.Remove(rounded);
  }
  CacheStats stats() const override {
    gate_.Pass();
    return tier_.stats();
  }

 private:
  FakeTier& tier_;
  Gate& gate_;
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_HANGING_TIER_H_
