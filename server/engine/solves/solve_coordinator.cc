#include "server/engine/solves/solve_coordinator.h"

#include <memory>

#include "absl/status/status.h"
#include "proto/service/origin.h"

namespace stowage {

SolveCoordinator::SolveCoordinator(EngineResources& resources, PendingRequests& pending)
    : delivery_(resources, pending,
                [this](const std::vector<WaiterPtr>& waiters) { SolveAgain(waiters); }),
      course_(resources, in_flight_, delivery_) {}

void SolveCoordinator::Join(const WaiterPtr& waiter) { Begin(in_flight_.Join(waiter), waiter); }

// The first waiter begins the solve. The others' clients share what is queued of it, so that it
// starts at the turn of whichever comes first.
void SolveCoordinator::Begin(const SolvePtr& solve, const WaiterPtr& waiter) {
  delivery_.Watch(solve, waiter);
  if (waiter->source == Origin::Source::kSolved) {
    course_.Begin(solve);
  } else {
    delivery_.UpdateLine(solve, waiter->caller.client);
  }
}

// Takes over the requests' count in PendingRequests.
void SolveCoordinator::SolveAgain(const std::vector<WaiterPtr>& waiters) {
  std::vector<WaiterPtr> again;
  again.reserve(waiters.size());
  for (const WaiterPtr& waiter : waiters) {
    again.push_back(std::make_shared<Waiter>(waiter->keyed, waiter->caller, waiter->listener,
                                             waiter->arrived, waiter->due));
  }
  const std::vector<SolvePtr> solves = in_flight_.JoinExact(again);
  for (size_t i = 0; i < again.size(); ++i) Begin(solves[i], again[i]);
}

SolveCoordinator::Cancelled SolveCoordinator::Cancel(const Fingerprint& fingerprint) {
  Cancelled cancelled;
  for (const SolvePtr& solve : in_flight_.WithFingerprint(fingerprint)) {
    const std::vector<WaiterPtr> waiters = solve->Abort();
    if (waiters.empty()) continue;  // it has just ended
    ++cancelled.solves;
    cancelled.callers += static_cast<int64_t>(waiters.size());
    for (const WaiterPtr& waiter : waiters) {
      delivery_.End(waiter, absl::AbortedError("an operator of the server stopped this solve"));
    }
  }
  return cancelled;
}

}  // namespace stowage
