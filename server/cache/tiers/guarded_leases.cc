#include "server/cache/tiers/guarded_leases.h"

#include <memory>
#include <utility>

namespace stowage {

template <typename Result>
absl::StatusOr<Result> GuardedLeases::Guarded(std::function<absl::StatusOr<Result>()> call) {
  absl::StatusOr<Result> result = guard_.Guarded<Result>(std::move(call));
  if (!result.ok()) ++failures_;
  return result;
}

// One that is taken after the time-out would be nobody's until it runs out.
absl::StatusOr<SolveLease> GuardedLeases::Take(const Fingerprint& key) {
  const auto is_wanted = std::make_shared<std::atomic<bool>>(true);
  absl::StatusOr<SolveLease> lease = Guarded<SolveLease>([&leases = leases_, key, is_wanted] {
    absl::StatusOr<SolveLease> taken = leases.Take(key);
    const bool is_ours = taken.ok() && taken->token > 0;
    if (is_ours && !*is_wanted) (void)leases.End(key, taken->token, /*is_done=*/false);
    return taken;
  });
  if (!lease.ok()) *is_wanted = false;
  return lease;
}

absl::StatusOr<SolveLease> GuardedLeases::Look(const Fingerprint& key) {
  return Guarded<SolveLease>([&leases = leases_, key] { return leases.Look(key); });
}

absl::StatusOr<bool> GuardedLeases::Renew(const Fingerprint& key, int64_t token, double fraction) {
  return Guarded<bool>(
      [&leases = leases_, key, token, fraction] { return leases.Renew(key, token, fraction); });
}

absl::Status GuardedLeases::End(const Fingerprint& key, int64_t token, bool is_done) {
  return Guarded<bool>([&leases = leases_, key, token, is_done]() -> absl::StatusOr<bool> {
           const absl::Status ended = leases.End(key, token, is_done);
           if (!ended.ok()) return ended;
           return true;
         })
      .status();
}

LeaseStats GuardedLeases::lease_stats() const {
  LeaseStats stats = leases_.lease_stats();
  stats.failures = failures_;
  return stats;
}

}  // namespace stowage
