// Leases of solves for tests, in memory, which run out when the test says so.
#ifndef STOWAGE_TESTS_SUPPORT_FAKE_LEASES_H_
#define STOWAGE_TESTS_SUPPORT_FAKE_LEASES_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/cache/cache_tier.h"
#include "server/cache/solve_leases.h"
#include "solver/base/mutex.h"

namespace stowage {

// An answer in the tier, which it borrows, ends the lease. Can be made to fail.
class FakeLeases final : public SolveLeases {
 public:
  explicit FakeLeases(CacheTier& tier) : tier_(tier) {}

  // Renewed, and looked at, every 10 ms or more often.
  std::chrono::milliseconds duration() const override { return std::chrono::milliseconds(30); }
  absl::StatusOr<SolveLease> Take(const Fingerprint& key) override { return Ask(key, true); }
  absl::StatusOr<SolveLease> Look(const Fingerprint& key) override { return Ask(key, false); }
  absl::StatusOr<bool> Renew(const Fingerprint& key, int64_t token, double fraction) override {
    MutexLock lock(mutex_);
    if (broken_) {
      ++failed_renewals_;
      return absl::UnavailableError("broken");
    }
    Held& held = held_[ToHex(key)];
    if (held.token != token) return false;
    held.fraction = fraction;
    ++renewals_;
    return true;
  }
  absl::Status End(const Fingerprint& key, int64_t token, bool is_done) override {
    MutexLock lock(mutex_);
    if (broken_) return absl::UnavailableError("broken");
    Held& held = held_[ToHex(key)];
    if (held.token == token) held = {.is_done = is_done};
    return absl::OkStatus();
  }
  LeaseStats lease_stats() const override {
    MutexLock lock(mutex_);
    return stats_;
  }

  // Whoever holds a lease has lost it.
  void RunOut() {
    MutexLock lock(mutex_);
    for (auto& [key, held] : held_) {
      held.has_run_out = held.token > 0;
      held.token = 0;
    }
  }
  void Break(bool is_broken) {
    MutexLock lock(mutex_);
    broken_ = is_broken;
  }
  int renewals() const {
    MutexLock lock(mutex_);
    return renewals_;
  }
  int failed_renewals() const {
    MutexLock lock(mutex_);
    return failed_renewals_;
  }

 private:
  struct Held {
    int64_t token = 0;  // 0: nobody holds it
    double fraction = 0;
    bool is_done = false;
    bool has_run_out = false;
  };

  absl::StatusOr<SolveLease> Ask(const Fingerprint& key, bool takes) {
    using State = SolveLease::State;
    const auto stored = tier_.Get(key);
    MutexLock lock(mutex_);
    if (broken_) return absl::UnavailableError("broken");
    Held& held = held_[ToHex(key)];
    if (held.is_done || (stored.ok() && *stored != nullptr)) return SolveLease{State::kDone};
    if (held.token > 0) {
      if (takes) ++stats_.waited;
      return SolveLease{.state = State::kHeld, .fraction = held.fraction};
    }
    if (!takes) return SolveLease{State::kFree};
    ++(held.has_run_out ? stats_.taken_over : stats_.taken);
    const State state = held.has_run_out ? State::kTakenOver : State::kTaken;
    held = {.token = ++last_token_};
    return SolveLease{.state = state, .token = last_token_};
  }

  CacheTier& tier_;
  mutable Mutex mutex_;
  std::map<std::string, Held> held_ ABSL_GUARDED_BY(mutex_);
  int64_t last_token_ ABSL_GUARDED_BY(mutex_) = 0;
  int renewals_ ABSL_GUARDED_BY(mutex_) = 0;
  int failed_renewals_ ABSL_GUARDED_BY(mutex_) = 0;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  LeaseStats stats_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_FAKE_LEASES_H_
