#include "server/engine/shared_solve.h"

#include <algorithm>
#include <utility>

#include "solver/base/clock.h"

namespace stowage {

// The margin before a deadline is a twentieth of the time that the caller allows, at least 50 ms,
// but never more than a quarter of it.
Timers::Clock::time_point DueFor(double time_budget_seconds, const Caller& caller,
                                 Timers::Clock::time_point arrived) {
  Timers::Clock::time_point due = Timers::Clock::time_point::max();
  if (time_budget_seconds > 0) due = After(arrived, time_budget_seconds);
  if (caller.deadline == Timers::Clock::time_point::max()) return due;
  const double left = SecondsBetween(arrived, caller.deadline);
  const double margin = std::min(left / 4, std::max(0.05, left / 20));
  return std::min(due, After(arrived, left - margin));
}

SharedSolve::SharedSolve(const Waiter& first)
    : keyed_(first.keyed), arrived_(first.arrived), owner_(first.caller) {
  // It may have been that of others, who have left.
  keyed_->held.ChargeTo(owner_.client);
}

Caller SharedSolve::owner() const {
  MutexLock lock(mutex_);
  return owner_;
}

bool SharedSolve::Has(const std::string& client) const {
  MutexLock lock(mutex_);
  return clients_.contains(client);
}

// Once `ended_` is set, no waiter is added: End() and the last Leave() leave an empty list for
// good. A waiter gives up its own copy of a request that another one waits with already; the copy
// is freed by the caller's last pointer to it, hence not under this lock.
bool SharedSolve::Join(const WaiterPtr& waiter) {
  MutexLock lock(mutex_);
  if (ended_) return false;
  waiter->id = next_id_++;
  waiter->steps = steps_;
  waiter->source = waiter->id == 1 ? Origin::Source::kSolved : Origin::Source::kCoalesced;
  ExactRequest& request = requests_[waiter->keys().exact];
  if (request.waiters.empty()) request.keyed = SolvesExactly(*waiter) ? keyed_ : waiter->keyed;
  request.waiters.insert(waiter->id);
  waiter->keyed = request.keyed;
  ++clients_[waiter->caller.client];
  places_.emplace(waiter->id, Place{waiter});
  return true;
}

// A solve whose last waiter leaves has ended: nobody can join it any more, and the solver stops.
// Where the owner leaves, whoever has waited longest next owns the solve.
WaiterPtr SharedSolve::Remove(Places::iterator place) {
  WaiterPtr waiter = std::move(place->second.waiter);
  places_.erase(place);
  const auto request = requests_.find(waiter->keys().exact);
  request->second.waiters.erase(waiter->id);
  if (request->second.waiters.empty()) requests_.erase(request);
  const auto client = clients_.find(waiter->caller.client);
  if (--client->second == 0) clients_.erase(client);
  if (places_.empty()) {
    ended_ = true;
    stop_.request_stop();
  } else {
    owner_ = places_.begin()->second.waiter->caller;
    Charge(*waiter->keyed);
    Charge(*keyed_);
  }
  return waiter;
}

// The memory of a request is on the account of whoever has waited longest of those with the
// request; that of the solved one is on the owner's once these have left.
void SharedSolve::Charge(const KeyedRequest& keyed) {
  const auto request = requests_.find(keyed.keys.exact);
  if (request != requests_.end()) {
    const Place& first = places_.at(*request->second.waiters.begin());
    keyed.held.ChargeTo(first.waiter->caller.client);
  } else if (&keyed == keyed_.get()) {
    keyed.held.ChargeTo(owner_.client);
  }
}

WaiterPtr SharedSolve::Leave(uint64_t id) {
  MutexLock lock(mutex_);
  const auto place = places_.find(id);
  return place != places_.end() ? Remove(place) : nullptr;
}

// The lock orders this call and Improved(): either there is a best answer to leave with, or the
// waiter is marked late before the first one comes, which then removes it. None is missed.
WaiterPtr SharedSolve::LeaveWithBest(uint64_t id, std::shared_ptr<const Answer>* best) {
  MutexLock lock(mutex_);
  const auto place = places_.find(id);
  if (place == places_.end()) return nullptr;
  if (best_ == nullptr) {
    place->second.is_late = true;
    return nullptr;
  }
  *best = best_;
  return Remove(place);
}

bool SharedSolve::ClaimFirst() {
  MutexLock lock(mutex_);
  if (ended_ || started_.has_value() || best_ != nullptr || is_first_claimed_) return false;
  const bool has_late =
      std::any_of(places_.begin(), places_.end(), [](const auto& p) { return p.second.is_late; });
  is_first_claimed_ = has_late;
  return has_late;
}

void SharedSolve::AwaitOther(Timers::Clock::time_point now) {
  steps_->Begin(kAwaitOtherSpan);
  MutexLock lock(mutex_);
  if (!awaits_other_.has_value()) awaits_other_ = now;
}

std::optional<Timers::Clock::time_point> SharedSolve::awaits_other_since() const {
  MutexLock lock(mutex_);
  return awaits_other_;
}

std::vector<WaiterPtr> SharedSolve::LeaveAllOf(const std::string& client) {
  std::vector<WaiterPtr> waiters;
  MutexLock lock(mutex_);
  for (auto place = places_.begin(); place != places_.end();) {
    const auto each = place++;
    if (each->second.waiter->caller.client == client) waiters.push_back(Remove(each));
  }
  return waiters;
}

// A copy, so that listeners are called without the lock: they may call back into the solve. A
// waiter that leaves in the meantime may still get the event, which SolveListener allows.
std::vector<std::shared_ptr<SolveListener>> SharedSolve::Listeners(Whose whose) const {
  std::vector<std::shared_ptr<SolveListener>> listeners;
  MutexLock lock(mutex_);
  listeners.reserve(places_.size());
  for (const auto& [id, place] : places_) {
    if (whose == Whose::kExact && !SolvesExactly(*place.waiter)) continue;
    listeners.push_back(place.waiter->listener);
  }
  return listeners;
}

SharedSolve::Tickets SharedSolve::tickets() const {
  MutexLock lock(mutex_);
  return tickets_;
}

std::vector<std::string> SharedSolve::Clients() const {
  std::vector<std::string> clients;
  clients.reserve(clients_.size());
  for (const auto& [client, waiters] : clients_) clients.push_back(client);
  return clients;
}

// Whoever joins afterwards sees the ticket: together with the clients returned here none is missed.
// Tickets grow: of two that are set at once the later one counts.
std::vector<std::string> SharedSolve::SetLookUpTicket(uint64_t ticket) {
  MutexLock lock(mutex_);
  tickets_.look_up = std::max(tickets_.look_up, ticket);
  return Clients();
}

std::vector<std::string> SharedSolve::SetTicket(uint64_t ticket) {
  MutexLock lock(mutex_);
  tickets_.solve = std::max(tickets_.solve, ticket);
  return Clients();
}

void SharedSolve::Queued(size_t before) {
  steps_->Begin(kQueueSpan);
  for (const auto& listener : Listeners(Whose::kAll)) listener->Queued(before);
}

void SharedSolve::Started() {
  steps_->Begin(kSolveSpan);
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
  for (const auto& listener : Listeners(Whose::kAll)) listener->Running(fraction);
}

std::vector<WaiterPtr> SharedSolve::Improved(const std::shared_ptr<const Answer>& best) {
  std::vector<WaiterPtr> late;
  {
    MutexLock lock(mutex_);
    if (best_ != nullptr &&
        best_->prediction.makespan_seconds <= best->prediction.makespan_seconds) {
      return late;
    }
    best_ = best;
    for (auto place = places_.begin(); place != places_.end();) {
      const auto each = place++;
      if (each->second.is_late) late.push_back(Remove(each));
    }
  }
  for (const auto& listener : Listeners(Whose::kExact)) listener->Improved(best);
  return late;
}

// Each waiter is removed by exactly one of End(), EndExact(), Leave(), LeaveAllOf(),
// LeaveWithBest(), Improved() and NextToSimulate(), whose caller calls Done() or AwaitBest(): that
// is how Done() is called exactly once.
std::vector<WaiterPtr> SharedSolve::EndExact() {
  std::vector<WaiterPtr> waiters;
  MutexLock lock(mutex_);
  ended_ = true;
  for (auto place = places_.begin(); place != places_.end();) {
    const auto each = place++;
    if (SolvesExactly(*each->second.waiter)) waiters.push_back(Remove(each));
  }
  return waiters;
}

// Whoever is due first comes first: above all those whose time was up before there was a schedule.
// Those whose time is up later leave with the answer as the best schedule.
std::vector<std::string> SharedSolve::AwaitAnswer(const CachedAnswerPtr& answer,
                                                  Origin::Source source) {
  struct Group {
    std::string client = {};
    Timers::Clock::time_point due = Timers::Clock::time_point::max();
    std::vector<uint64_t> ids = {};
  };
  std::map<std::pair<std::string, const KeyedRequest*>, Group> by_request;
  std::vector<std::string> clients;
  MutexLock lock(mutex_);
  if (!places_.empty()) steps_->Begin(kSimulateSpan);
  answer_ = answer;
  source_ = source;
  if (answer->answer.outcome != Outcome::kInfeasible) best_ = {answer, &answer->answer};
  for (const auto& [id, place] : places_) {
    const Waiter& waiter = *place.waiter;
    Group& group = by_request[{waiter.caller.client, waiter.keyed.get()}];
    group.client = waiter.caller.client;
    group.due = std::min(group.due, waiter.due);
    group.ids.push_back(id);
  }
  std::vector<Group> groups;
  groups.reserve(by_request.size());
  for (auto& [key, group] : by_request) groups.push_back(std::move(group));
  std::sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
    return std::pair(a.due, a.ids.front()) < std::pair(b.due, b.ids.front());
  });
  for (Group& group : groups) {
    const auto [simulations, is_new] = simulations_.try_emplace(group.client);
    if (is_new) clients.push_back(group.client);
    simulations->second.others.push_back(std::move(group.ids));
  }
  return clients;
}

bool SharedSolve::AwaitBest(const WaiterPtr& waiter) {
  MutexLock lock(mutex_);
  const auto [simulations, is_new] = simulations_.try_emplace(waiter->caller.client);
  const Fingerprint& exact = waiter->keys().exact;
  std::vector<WaiterPtr>& waiters = simulations->second.late_waiters[exact];
  if (waiters.empty()) simulations->second.late.push_back(exact);
  waiters.push_back(waiter);
  return is_new;
}

bool SharedSolve::HasAny(const std::vector<uint64_t>& ids) const {
  for (const uint64_t id : ids) {
    if (places_.contains(id)) return true;
  }
  return false;
}

// Skips exact requests whose waiters have all left. Null: nobody is left, and the entry is erased,
// so that whoever waits next is told to add the client's work.
SharedSolve::Simulations* SharedSolve::SimulationsOf(const std::string& client) {
  const auto found = simulations_.find(client);
  if (found == simulations_.end()) return nullptr;
  Simulations& simulations = found->second;
  while (!simulations.others.empty() && !HasAny(simulations.others.front())) {
    simulations.others.pop_front();
  }
  if (!simulations.late.empty() || !simulations.others.empty()) return &simulations;
  simulations_.erase(found);
  return nullptr;
}

bool SharedSolve::HasToSimulate(const std::string& client) {
  MutexLock lock(mutex_);
  return SimulationsOf(client) != nullptr;
}

std::optional<ToSimulate> SharedSolve::NextToSimulate(const std::string& client) {
  MutexLock lock(mutex_);
  Simulations* const simulations = SimulationsOf(client);
  if (simulations == nullptr) return std::nullopt;
  ToSimulate next;
  if (!simulations->late.empty()) {
    const auto late = simulations->late_waiters.find(simulations->late.front());
    next.waiters = std::move(late->second);
    next.best = best_;
    simulations->late_waiters.erase(late);
    simulations->late.pop_front();
    return next;
  }
  for (const uint64_t id : simulations->others.front()) {
    const auto place = places_.find(id);
    if (place != places_.end()) next.waiters.push_back(Remove(place));
  }
  next.answer = answer_;
  next.source = source_;
  simulations->others.pop_front();
  return next;
}

std::vector<WaiterPtr> SharedSolve::End() {
  std::vector<WaiterPtr> waiters;
  MutexLock lock(mutex_);
  ended_ = true;
  while (!places_.empty()) waiters.push_back(Remove(places_.begin()));
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
  solve.clients = Clients();
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
