#include "server/engine/solves/solves_in_flight.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "solver/base/time/timers.h"

namespace stowage {

// The maps are searched and changed under one lock, so that equal requests that arrive together
// start one solve.
SolvePtr SolvesInFlight::Join(const WaiterPtr& waiter) {
  // Freed, after the lock is released, where another waiter of the solve has the same request.
  const KeyedRequestPtr own = waiter->keyed;
  MutexLock lock(mutex_);
  if (!own->request.options.use_cache) return Begun(waiter);
  const auto exact = exact_solves_.find(own->keys.exact);
  if (exact != exact_solves_.end() && exact->second->Join(waiter)) return exact->second;
  return JoinUnder(own->keys.rounded, solves_, waiter);
}

std::vector<SolvePtr> SolvesInFlight::JoinExact(const std::vector<WaiterPtr>& waiters) {
  std::vector<SolvePtr> joined;
  joined.reserve(waiters.size());
  MutexLock lock(mutex_);
  for (const WaiterPtr& waiter : waiters) {
    joined.push_back(JoinUnder(waiter->keys().exact, exact_solves_, waiter));
  }
  return joined;
}

// A solve that has ended and is not forgotten yet refuses the waiter and is replaced.
SolvePtr SolvesInFlight::JoinUnder(const Fingerprint& key, SolveMap& solves,
                                   const WaiterPtr& waiter) {
  SolvePtr& shared = solves[key];
  if (shared == nullptr || !shared->Join(waiter)) shared = Begun(waiter);
  return shared;
}

SolvePtr SolvesInFlight::Begun(const WaiterPtr& first) {
  const auto solve = std::make_shared<SharedSolve>(*first);
  solve->Join(first);
  in_flight_.insert(solve);
  return solve;
}

// The entry may be that of a later solve, and a solve that was never shared has none.
void SolvesInFlight::Forget(const SolvePtr& solve) {
  MutexLock lock(mutex_);
  in_flight_.erase(solve);
  const auto forget = [&solve](const Fingerprint& key, SolveMap& solves) {
    const auto shared = solves.find(key);
    if (shared != solves.end() && shared->second == solve) solves.erase(shared);
  };
  forget(solve->keys().rounded, solves_);
  forget(solve->keys().exact, exact_solves_);
}

size_t SolvesInFlight::size() const {
  MutexLock lock(mutex_);
  return solves_.size() + exact_solves_.size();
}

std::vector<SolveInFlight> SolvesInFlight::List() const {
  std::vector<SolvePtr> in_flight;
  {
    MutexLock lock(mutex_);
    in_flight.assign(in_flight_.begin(), in_flight_.end());
  }
  const Timers::Clock::time_point now = Timers::Clock::now();
  std::vector<SolveInFlight> list;
  list.reserve(in_flight.size());
  for (const SolvePtr& solve : in_flight) list.push_back(solve->Describe(now));
  std::sort(list.begin(), list.end(), [](const SolveInFlight& a, const SolveInFlight& b) {
    return std::pair(a.running_seconds, a.waiting_seconds) >
           std::pair(b.running_seconds, b.waiting_seconds);
  });
  return list;
}

std::vector<SolvePtr> SolvesInFlight::WithFingerprint(const Fingerprint& fingerprint) const {
  std::vector<SolvePtr> found;
  MutexLock lock(mutex_);
  for (const SolvePtr& solve : in_flight_) {
    if (solve->keys().rounded == fingerprint) found.push_back(solve);
  }
  return found;
}

}  // namespace stowage
