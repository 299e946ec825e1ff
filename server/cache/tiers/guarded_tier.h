// Wraps a cache tier so that it cannot hold up the server, however long it hangs.
#ifndef STOWAGE_SERVER_CACHE_TIERS_GUARDED_TIER_H_
#define STOWAGE_SERVER_CACHE_TIERS_GUARDED_TIER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/cache/cache_tier.h"
#include "server/cache/tiers/circuit_breaker.h"
#include "server/cache/tiers/read_times.h"
#include "server/events/observer.h"
#include "solver/base/mutex.h"

namespace stowage {

struct GuardOptions {
  std::string name = {};                   // of the tier, in errors
  std::chrono::milliseconds timeout{500};  // of a Get()
  CircuitBreaker::Options breaker = {.failures = 2, .pause = std::chrono::seconds(5)};
  size_t max_writes = 1024;  // that wait
};

struct GuardStats {
  bool is_open = false;        // the tier is left alone
  int64_t opened = 0;          // how often that began
  int64_t skipped_reads = 0;   // meanwhile, as if the tier were empty
  int64_t dropped_writes = 0;  // likewise, or because too many waited
  size_t waiting_writes = 0;
  ReadTimes read_times = {};  // of Get(), as its caller waited, but for skipped reads
};

// Calls the tier on threads of its own. A Get() that takes longer than the time-out is
// UNAVAILABLE, and its thread is lost until the tier lets it go. A tier that keeps failing is left
// alone for a while, and so is one in which all reading threads hang; DATA_LOSS is no failure.
//
// Put() returns at once, and the answer is written afterwards: failures are reported to the
// observer. stats() are those after the last write. Thread-safe.
class GuardedTier final : public CacheTier {
 public:
  // Borrows the observer.
  GuardedTier(std::unique_ptr<CacheTier> tier, GuardOptions options, Observer& observer);
  // Writes what waits, unless the tier is left alone, and waits for the calls under way.
  ~GuardedTier() override;

  absl::StatusOr<CachedAnswerPtr> Get(const Fingerprint& key) override;
  // Errors: UNAVAILABLE where too many wait.
  absl::Status Put(CachedAnswerPtr cached) override;
  // For operators, who can wait for seconds: tried even where the tier is left alone.
  absl::StatusOr<int64_t> Remove(const Fingerprint& rounded) override;
  CacheStats stats() const override;

  // Another call of the tier's store, guarded as a Get() is.
  template <typename Result>
  absl::StatusOr<Result> Guarded(std::function<absl::StatusOr<Result>()> call);

  GuardStats guard_stats() const;
  // Waits until nothing waits to be written.
  void Flush();

 private:
  using Clock = std::chrono::steady_clock;
  // A call of the tier, shared by the thread that makes it and the caller, who may give up first.
  // But for `make` guarded by `mutex_`.
  struct Call {
    std::function<void()> make;
    bool has_begun = false;
    bool has_ended = false;
    bool is_abandoned = false;
  };

  template <typename Result>
  absl::StatusOr<Result> Ask(Clock::time_point deadline,
                             std::function<absl::StatusOr<Result>()> question);
  bool Make(const std::shared_ptr<Call>& call, Clock::time_point deadline);
  bool MayRead();
  void Report(const absl::Status& status);
  void CountRead(Clock::duration time);
  void Refresh();
  std::shared_ptr<Call> NextCall();
  void MakeCalls();
  CachedAnswerPtr NextWrite();
  void WriteBehind();
  absl::Status TooSlow() const;
  absl::Status LeftAlone() const;

  const GuardOptions options_;
  const std::unique_ptr<CacheTier> tier_;
  Observer& observer_;
  Mutex refresh_mutex_;  // held while the tier counts, before mutex_
  mutable Mutex mutex_;
  CondVar added_;  // a call or a write, or stopping_
  CondVar ended_;  // a call or a write
  CircuitBreaker breaker_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::shared_ptr<Call>> calls_ ABSL_GUARDED_BY(mutex_);  // that have not begun
  size_t hung_ ABSL_GUARDED_BY(mutex_) = 0;                          // threads of abandoned calls
  std::deque<CachedAnswerPtr> writes_ ABSL_GUARDED_BY(mutex_);
  bool is_writing_ ABSL_GUARDED_BY(mutex_) = false;
  CacheStats stats_ ABSL_GUARDED_BY(mutex_);
  GuardStats guard_ ABSL_GUARDED_BY(mutex_);  // but for what is read from the other members
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // last: they use all of the above
};

// The answer is written by the thread that makes the call, and read once that has ended.
template <typename Result>
absl::StatusOr<Result> GuardedTier::Ask(Clock::time_point deadline,
                                        std::function<absl::StatusOr<Result>()> question) {
  const auto answer = std::make_shared<absl::StatusOr<Result>>(TooSlow());
  const auto call = std::make_shared<Call>();
  call->make = [answer, question = std::move(question)] { *answer = question(); };
  if (!Make(call, deadline)) return TooSlow();
  return std::move(*answer);
}

template <typename Result>
absl::StatusOr<Result> GuardedTier::Guarded(std::function<absl::StatusOr<Result>()> call) {
  if (!MayRead()) return LeftAlone();
  absl::StatusOr<Result> result = Ask<Result>(Clock::now() + options_.timeout, std::move(call));
  Report(result.status());
  return result;
}

}  // namespace stowage

#endif  // STOWAGE_SERVER_CACHE_TIERS_GUARDED_TIER_H_
