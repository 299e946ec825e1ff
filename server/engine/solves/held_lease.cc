#include "server/engine/solves/held_lease.h"

#include "absl/status/statusor.h"

namespace stowage {

std::shared_ptr<HeldLease> HeldLease::Hold(const Parts& parts, const Fingerprint& key,
                                           int64_t token) {
  std::shared_ptr<HeldLease> lease(new HeldLease(parts, key, token));
  lease->RenewLater();
  return lease;
}

void HeldLease::RenewLater() {
  parts_.timers.At(Timers::Clock::now() + parts_.leases.duration() / 3, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Renew();
  });
}

// A renewal that fails is tried again: two more are due before the lease runs out.
void HeldLease::Renew() {
  if (has_ended_) return;
  const auto renew = [self = shared_from_this()] {
    if (self->has_ended_) return;
    const absl::StatusOr<bool> renewed =
        self->parts_.leases.Renew(self->key_, self->token_, self->fraction_);
    if (!renewed.ok() || *renewed) self->RenewLater();
  };
  if (!parts_.calls.Add({.run = renew}).ok()) RenewLater();
}

void HeldLease::End(bool is_done) {
  if (has_ended_.exchange(true)) return;
  const auto end = [self = shared_from_this(), is_done] {
    (void)self->parts_.leases.End(self->key_, self->token_, is_done);
  };
  (void)parts_.calls.Add({.run = end});  // where that is refused it runs out
}

}  // namespace stowage
