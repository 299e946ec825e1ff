#include "server/engine/shared_solve.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "server/engine/clock.h"

namespace stowage {

SharedSolve::SharedSolve(const Waiter& first)
    : keyed_(first.keyed), first_(first.caller), arrived_(first.arrived) {}

// Once `ended_` is set, no waiter is added: End() and the last Leave() leave an empty list for
// good.
bool SharedSolve::Join(const WaiterPtr& waiter) {
  MutexLock lock(mutex_);
  if (ended_) return false;
  waiter->id = next_id_++;
  places_.push_back({waiter});
  return true;
}

std::vector<SharedSolve::Place>::iterator SharedSolve::Find(uint64_t id) {
  return std::find_if(places_.begin(), places_.end(),
                      [id](const Place& place) { return place.waiter->id == id; });
}

// A solve whose last waiter leaves has ended: nobody can join it any more, and the solver stops.
WaiterPtr SharedSolve::Remove(std::vector<Place>::iterator place) {
  WaiterPtr waiter = std::move(place->waiter);
  places_.erase(place);
  if (places_.empty()) {
    ended_ = true;
    stop_.request_stop();
  }
  return waiter;
}

WaiterPtr SharedSolve::Leave(uint64_t id) {
  MutexLock lock(mutex_);
  const auto place = Find(id);
  return place != places_.end() ? Remove(place) : nullptr;
}

// The lock orders this call and Improved(): either there is a best answer to leave with, or the
// waiter is marked late before the first one comes, which then removes it. None is missed.
WaiterPtr SharedSolve::LeaveWithBest(uint64_t id, std::shared_ptr<const Answer>* best) {
  MutexLock lock(mutex_);
  const auto place = Find(id);
  if (place == places_.end()) return nullptr;
  if (best_ == nullptr) {
    place->is_late = true;
    return nullptr;
  }
  *best = best_;
  return Remove(place);
}

// A copy, so that listeners are called without the lock: they may call back into the solve. A
// waiter that leaves in the meantime may still get the event, which SolveListener allows.
std::vector<std::shared_ptr<SolveListener>> SharedSolve::Listeners() const {
  std::vector<std::shared_ptr<SolveListener>> listeners;
  MutexLock lock(mutex_);
  for (const Place& place : places_) listeners.push_back(place.waiter->listener);
  return listeners;
}

// Whoever joins afterwards sees the ticket: together with the clients returned here none is missed.
std::vector<std::string> SharedSolve::SetTicket(uint64_t ticket) {
  std::vector<std::string> clients;
  MutexLock lock(mutex_);
  ticket_ = ticket;
  for (const Place& place : places_) clients.push_back(place.waiter->caller.client);
  return clients;
}

uint64_t SharedSolve::ticket() const {
  MutexLock lock(mutex_);
  return ticket_;
}

void SharedSolve::Queued(size_t before) {
  for (const auto& listener : Listeners()) listener->Queued(before);
}

void SharedSolve::Started() {
  {
    MutexLock lock(mutex_);
    started_ = Timers::Clock::now();
  }
  Progressed(0);
}

void SharedSolve::Progressed(double fraction) {
  {
    MutexLock lock(mutex_);
    fraction_ = fraction;
  }
  for (const auto& listener : Listeners()) listener->Running(fraction);
}

std::vector<WaiterPtr> SharedSolve::Improved(const std::shared_ptr<const Answer>& best) {
  std::vector<WaiterPtr> late;
  {
    MutexLock lock(mutex_);
    best_ = best;
    // From the end, because Remove() erases.
    for (size_t i = places_.size(); i > 0; --i) {
      const auto place = places_.begin() + static_cast<std::ptrdiff_t>(i) - 1;
      if (place->is_late) late.push_back(Remove(place));
    }
  }
  for (const auto& listener : Listeners()) listener->Improved(best);
  return late;
}

// Each waiter is returned by exactly one of End(), Leave(), LeaveWithBest() and Improved(), whose
// caller calls Done(): that is how Done() is called exactly once.
std::vector<WaiterPtr> SharedSolve::End() {
  std::vector<WaiterPtr> waiters;
  MutexLock lock(mutex_);
  ended_ = true;
  for (Place& place : places_) waiters.push_back(std::move(place.waiter));
  places_.clear();
  return waiters;
}

std::vector<WaiterPtr> SharedSolve::Abort() {
  std::vector<WaiterPtr> waiters = End();
  stop_.request_stop();
  return waiters;
}

SolveInFlight SharedSolve::Describe(Timers::Clock::time_point now) const {
  SolveInFlight solve = {.keyed = keyed_};
  MutexLock lock(mutex_);
  const Timers::Clock::time_point started = started_.value_or(now);
  solve.waiting_seconds = SecondsBetween(arrived_, started);
  solve.running_seconds = SecondsBetween(started, now);
  solve.fraction = fraction_;
  solve.has_schedule = best_ != nullptr;
  for (const Place& place : places_) {
    const std::string& client = place.waiter->caller.client;
    if (!absl::c_linear_search(solve.clients, client)) solve.clients.push_back(client);
  }
  return solve;
}

std::shared_ptr<const Answer> SharedSolve::best() const {
  MutexLock lock(mutex_);
  return best_;
}

std::optional<Timers::Clock::time_point> SharedSolve::started() const {
  MutexLock lock(mutex_);
  return started_;
}

}  // namespace stowage
