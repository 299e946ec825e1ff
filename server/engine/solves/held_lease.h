// The lease of a solve that this server runs, as long as it runs.
#ifndef STOWAGE_SERVER_ENGINE_SOLVES_HELD_LEASE_H_
#define STOWAGE_SERVER_ENGINE_SOLVES_HELD_LEASE_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "server/cache/cache_keys.h"
#include "server/cache/solve_leases.h"
#include "server/engine/queue/work_queue.h"
#include "solver/base/time/timers.h"

namespace stowage {

// Renews a lease at every third of its duration until it is ended, or was lost. Thread-safe.
class HeldLease : public std::enable_shared_from_this<HeldLease> {
 public:
  // Where leases are kept, and who asks for them: `calls` may wait for a network.
  struct Parts {
    SolveLeases& leases;
    Timers& timers;
    WorkQueue& calls;
  };
  // A lease that was taken. Borrows the parts.
  static std::shared_ptr<HeldLease> Hold(const Parts& parts, const Fingerprint& key, int64_t token);

  int64_t token() const { return token_; }
  // What others learn at the next renewal, of the solve: 0..1.
  void Progressed(double fraction) { fraction_ = fraction; }
  // Once, instead of End(): the answer is about to be stored, which ends the lease.
  void LeaveToAnswer() { has_ended_ = true; }
  // As SolveLeases::End(), some time later.
  void End(bool is_done);

 private:
  HeldLease(const Parts& parts, const Fingerprint& key, int64_t token)
      : parts_(parts), key_(key), token_(token) {}
  void RenewLater();
  void Renew();

  const Parts parts_;
  const Fingerprint key_;
  const int64_t token_;
  std::atomic<double> fraction_ = 0;
  std::atomic<bool> has_ended_ = false;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_SOLVES_HELD_LEASE_H_
