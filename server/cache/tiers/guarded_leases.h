// Wraps the leases of a cache tier so that they cannot hold up the server.
#ifndef STOWAGE_SERVER_CACHE_TIERS_GUARDED_LEASES_H_
#define STOWAGE_SERVER_CACHE_TIERS_GUARDED_LEASES_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

#include "server/cache/solve_leases.h"
#include "server/cache/tiers/guarded_tier.h"

namespace stowage {

// Calls the leases on the threads of the tier's guard, with its time-out and its breaker: they have
// one store, which works or does not. Thread-safe.
class GuardedLeases final : public SolveLeases {
 public:
  // Borrows both. The leases live as long as the guard's threads.
  GuardedLeases(GuardedTier& guard, SolveLeases& leases) : guard_(guard), leases_(leases) {}

  std::chrono::milliseconds duration() const override { return leases_.duration(); }
  absl::StatusOr<SolveLease> Take(const Fingerprint& key) override;
  absl::StatusOr<SolveLease> Look(const Fingerprint& key) override;
  absl::StatusOr<bool> Renew(const Fingerprint& key, int64_t token, double fraction) override;
  absl::Status End(const Fingerprint& key, int64_t token, bool is_done) override;
  LeaseStats lease_stats() const override;

 private:
  template <typename Result>
  absl::StatusOr<Result> Guarded(std::function<absl::StatusOr<Result>()> call);

  GuardedTier& guard_;
  SolveLeases& leases_;
  std::atomic<int64_t> failures_ = 0;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_CACHE_TIERS_GUARDED_LEASES_H_
