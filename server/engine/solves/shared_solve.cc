#include "server/engine/solves/shared_solve.h"

#include <algorithm>
#include <utility>

#include "solver/base/time/clock.h"

namespace stowage {

SharedSolve::SharedSolve(const Waiter& first)
    : keyed_(first.keyed), arrived_(first.arrived), waiters_(first) {}

Caller SharedSolve::owner() const {
  MutexLock lock(mutex_);
  return waiters_.owner();
}

bool SharedSolve::Has(const std::string& client) const {
  MutexLock lock(mutex_);
  return waiters_.HasClient(client);
}

// Once the solve has ended, no waiter is added: End() and the last Leave() leave an empty list for
// good.
bool SharedSolve::Join(const WaiterPtr& waiter) {
  MutexLock lock(mutex_);
  if (state_ == SolveState::kEnded) return false;
  waiters_.Add(waiter);
  waiter->steps = steps_;
  waiter->source = waiter->id == 1 ? Origin::Source::kSolved : Origin::Source::kCoalesced;
  return true;
}

void SharedSolve::Enter(SolveState next) {
  if (state_ != SolveState::kEnded) state_ = next;
}

// Then nobody can join it any more, and the solver stops.
void SharedSolve::EndIfAllHaveLeft() {
  if (!waiters_.empty()) return;
  Enter(SolveState::kEnded);
  stop_.request_stop();
}

WaiterPtr SharedSolve::Leave(uint64_t id) {
  MutexLock lock(mutex_);
  WaiterPtr waiter = waiters_.Remove(id);
  EndIfAllHaveLeft();
  return waiter;
}

// The lock orders this call and Improved(): either there is a best answer to leave with, or the
// waiter is marked late before the first one comes, which then removes it. None is missed.
WaiterPtr SharedSolve::LeaveWithBest(uint64_t id, std::shared_ptr<const Answer>* best) {
  MutexLock lock(mutex_);
  if (best_ == nullptr) {
    if (waiters_.Has(id)) late_.insert(id);
    return nullptr;
  }
  *best = best_;
  WaiterPtr waiter = waiters_.Remove(id);
  EndIfAllHaveLeft();
  return waiter;
}

bool SharedSolve::ClaimFirst() {
  MutexLock lock(mutex_);
  if (state_ == SolveState::kRunning || state_ == SolveState::kEnded) return false;
  if (best_ != nullptr || is_first_claimed_) return false;
  for (const uint64_t id : late_) is_first_claimed_ |= waiters_.Has(id);
  return is_first_claimed_;
}

std::vector<WaiterPtr> SharedSolve::LeaveAllOf(const std::string& client) {
  MutexLock lock(mutex_);
  std::vector<WaiterPtr> left =
      waiters_.RemoveIf([&](const Waiter& waiter) { return waiter.caller.client == client; });
  EndIfAllHaveLeft();
  return left;
}

std::vector<std::shared_ptr<SolveListener>> SharedSolve::Listeners(Whose whose) const {
  std::vector<std::shared_ptr<SolveListener>> listeners;
  MutexLock lock(mutex_);
  for (const WaiterPtr& waiter : waiters_.All()) {
    if (whose == Whose::kExact && !SolvesExactly(*waiter)) continue;
    listeners.push_back(waiter->listener);
  }
  return listeners;
}

SharedSolve::Tickets SharedSolve::tickets() const {
  MutexLock lock(mutex_);
  return tickets_;
}

// Whoever joins afterwards sees the ticket: together with the clients returned here none is missed.
// Tickets grow: of two that are set at once the later one counts.
std::vector<std::string> SharedSolve::SetLookUpTicket(uint64_t ticket) {
  MutexLock lock(mutex_);
  tickets_.look_up = std::max(tickets_.look_up, ticket);
  return waiters_.Clients();
}

std::vector<std::string> SharedSolve::SetTicket(uint64_t ticket) {
  MutexLock lock(mutex_);
  tickets_.solve = std::max(tickets_.solve, ticket);
  return waiters_.Clients();
}

void SharedSolve::LookUp() {
  steps_->Begin(kFindInTiersSpan);
  MutexLock lock(mutex_);
  Enter(SolveState::kLookingUp);
}

void SharedSolve::AwaitOther(Timers::Clock::time_point now) {
  steps_->Begin(kAwaitOtherSpan);
  MutexLock lock(mutex_);
  Enter(SolveState::kElsewhere);
  if (!awaits_other_.has_value()) awaits_other_ = now;
}

void SharedSolve::Queued(size_t before) {
  steps_->Begin(kQueueSpan);
  {
    MutexLock lock(mutex_);
    Enter(SolveState::kQueued);
  }
  for (const auto& listener : Listeners(Whose::kAll)) listener->Queued(before);
}

void SharedSolve::Started() {
  steps_->Begin(kSolveSpan);
  {
    MutexLock lock(mutex_);
    Enter(SolveState::kRunning);
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
    for (const uint64_t id : std::exchange(late_, {})) {
      if (WaiterPtr waiter = waiters_.Remove(id)) late.push_back(std::move(waiter));
    }
    EndIfAllHaveLeft();
  }
  for (const auto& listener : Listeners(Whose::kExact)) listener->Improved(best);
  return late;
}

// Each waiter is removed by exactly one of End(), EndExact(), Leave(), LeaveAllOf(),
// LeaveWithBest(), Improved() and NextToSimulate(), whose caller calls Done() or AwaitBest(): that
// is how Done() is called exactly once.
std::vector<WaiterPtr> SharedSolve::EndExact() {
  MutexLock lock(mutex_);
  Enter(SolveState::kEnded);
  std::vector<WaiterPtr> waiters =
      waiters_.RemoveIf([this](const Waiter& waiter) { return SolvesExactly(waiter); });
  EndIfAllHaveLeft();
  return waiters;
}

// Those whose time is up later leave with the answer as the best schedule.
std::vector<std::string> SharedSolve::AwaitAnswer(const CachedAnswerPtr& answer,
                                                  Origin::Source source) {
  MutexLock lock(mutex_);
  if (!waiters_.empty()) steps_->Begin(kSimulateSpan);
  answer_ = answer;
  source_ = source;
  if (answer->answer.outcome != Outcome::kInfeasible) best_ = {answer, &answer->answer};
  return simulations_.Add(waiters_.All());
}

bool SharedSolve::AwaitBest(const WaiterPtr& waiter) {
  MutexLock lock(mutex_);
  return simulations_.AddLate(waiter);
}

bool SharedSolve::HasToSimulate(const std::string& client) {
  MutexLock lock(mutex_);
  return simulations_.Has(client, waiters_);
}

std::optional<ToSimulate> SharedSolve::NextToSimulate(const std::string& client) {
  MutexLock lock(mutex_);
  std::optional<Simulations::Group> group = simulations_.Next(client, waiters_);
  if (!group.has_value()) return std::nullopt;
  if (!group->late.empty()) return ToSimulate{.waiters = std::move(group->late), .best = best_};
  ToSimulate next = {.answer = answer_, .source = source_};
  for (const uint64_t id : group->others) {
    if (WaiterPtr waiter = waiters_.Remove(id)) next.waiters.push_back(std::move(waiter));
  }
  EndIfAllHaveLeft();
  return next;
}

std::vector<WaiterPtr> SharedSolve::End() {
  MutexLock lock(mutex_);
  Enter(SolveState::kEnded);
  std::vector<WaiterPtr> waiters = waiters_.RemoveIf([](const Waiter&) { return true; });
  EndIfAllHaveLeft();
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
  solve.clients = waiters_.Clients();
  return solve;
}

std::shared_ptr<const Answer> SharedSolve::best() const {
  MutexLock lock(mutex_);
  return best_;
}

SolveState SharedSolve::state() const {
  MutexLock lock(mutex_);
  return state_;
}

std::optional<Timers::Clock::time_point> SharedSolve::awaits_other_since() const {
  MutexLock lock(mutex_);
  return awaits_other_;
}

std::optional<Timers::Clock::time_point> SharedSolve::started() const {
  MutexLock lock(mutex_);
  return started_;
}

}  // namespace stowage
