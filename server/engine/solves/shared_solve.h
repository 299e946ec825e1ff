// One solve and all callers who wait for it: equal requests in flight are solved once.
#ifndef STOWAGE_SERVER_ENGINE_SOLVES_SHARED_SOLVE_H_
#define STOWAGE_SERVER_ENGINE_SOLVES_SHARED_SOLVE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "proto/service/results.h"
#include "server/cache/cache_keys.h"
#include "server/cache/cache_tier.h"
#include "server/engine/solves/simulations.h"
#include "server/engine/solves/solve_steps.h"
#include "server/engine/solves/waiter.h"
#include "server/engine/solves/waiters.h"
#include "solver/base/mutex.h"
#include "solver/base/time/timers.h"
#include "solver/model/answer.h"
#include "solver/model/request.h"

namespace stowage {

// Waiters of one client with one exact request, which is not the one that was solved, and what is
// to be simulated on their chain.
struct ToSimulate {
  std::vector<WaiterPtr> waiters = {};  // never empty
  // The best schedule so far, for waiters whose time is up; null: they take the answer.
  std::shared_ptr<const Answer> best = {};
  CachedAnswerPtr answer = {};
  Origin::Source source = Origin::Source::kSolved;  // of the answer
};

// A solve in flight, for operators.
struct SolveInFlight {
  KeyedRequestPtr keyed = {};
  std::vector<std::string> clients = {};  // that wait for it, each once
  double waiting_seconds = 0;             // until now, or until it began
  double running_seconds = 0;             // 0: it has not begun
  double fraction = 0;                    // done, 0..1, as last reported
  bool has_schedule = false;
};

// Where a solve is on its way, which solve_course.h describes.
enum class SolveState {
  kLookingUp,  // in the cache tiers
  kElsewhere,  // another server solves the request
  kQueued,     // for a solver thread
  kRunning,
  kEnded,  // for good: the answer is known, or the last waiter has left
};

// The solve of one request and its waiters. Whoever removes a waiter calls its listener's Done().
// Thread-safe. What concerns one waiter takes O(log waiters).
class SharedSolve {
 public:
  // Solves the request of the first waiter.
  explicit SharedSolve(const Waiter& first);

  const KeyedRequest& keyed() const { return *keyed_; }
  const KeyedRequestPtr& shared_keyed() const { return keyed_; }
  const SolveRequest& request() const { return keyed_->request; }
  const CacheKeys& keys() const { return keyed_->keys; }
  // Whether a schedule that was simulated for the solve was thereby simulated for the waiter.
  bool SolvesExactly(const Waiter& waiter) const { return waiter.keys().exact == keys().exact; }
  // Of the waiter that has waited longest, in whose name the solve is queued; of the last one where
  // all have left.
  Caller owner() const;
  // Whether a waiter of that client is left.
  bool Has(const std::string& client) const;
  // Set when the last waiter has left.
  std::stop_token stop_token() const { return stop_.get_token(); }

  // False: the solve has ended, or its last waiter has left. The first waiter's source becomes
  // SOLVED, the others' COALESCED.
  bool Join(const WaiterPtr& waiter);
  // Removes a waiter; null where it was removed before. The last one stops the solve.
  WaiterPtr Leave(uint64_t id);
  // The same for a waiter whose time is up, with the best answer so far. Null as long as there is
  // none: the waiter then gets the next one, from Improved().
  WaiterPtr LeaveWithBest(uint64_t id, std::shared_ptr<const Answer>* best);
  // True once, where the time of a waiter is up before the solve runs: the caller is to find a
  // first schedule, which a solve that runs begins with.
  bool ClaimFirst();
  // Removes and returns all waiters of a client.
  std::vector<WaiterPtr> LeaveAllOf(const std::string& client);

  // The tickets of the queued look-up in the cache tier, and of the queued solve. 0: not queued.
  struct Tickets {
    uint64_t look_up = 0;
    uint64_t solve = 0;
  };
  Tickets tickets() const;
  // Remember a ticket, and return the clients that wait by now.
  std::vector<std::string> SetLookUpTicket(uint64_t ticket);
  std::vector<std::string> SetTicket(uint64_t ticket);

  // The solve enters a state, unless it has ended, and with it a step of its callers' traces.
  void LookUp();
  // Waits from `now` on, unless it has before.
  void AwaitOther(Timers::Clock::time_point now);
  // Informs the listeners of all waiters, as the next two do.
  void Queued(size_t before);
  void Started();
  void Progressed(double fraction);
  // Of the solver that runs: these are parts of that step.
  const PhaseObserver& phases() const { return steps_->phases(); }
  // The solver has returned, which ends the step.
  void Solved() { steps_->End(); }
  SolveState state() const;
  // When it began to wait for another server; nullopt: it has not.
  std::optional<Timers::Clock::time_point> awaits_other_since() const;
  // When it began to run; nullopt: it has not.
  std::optional<Timers::Clock::time_point> started() const;

  // Informs those whose exact request is solved: to others the figures do not apply. Returns the
  // waiters whose time was up before there was a schedule, and removes them. Does nothing where a
  // schedule that is as fast is known.
  std::vector<WaiterPtr> Improved(const std::shared_ptr<const Answer>& best);
  // From here on no more can join. Removes and returns the waiters whose exact request was solved,
  // in the order in which they came; the others stay, with their deadlines.
  std::vector<WaiterPtr> EndExact();

  // Waiters whose chain was not solved: what is to be simulated on theirs is kept by client, and is
  // one work in the queue, which the caller adds when these calls say so.
  //
  // For those that EndExact() left: the answer, and where it is from. Returns the clients whose
  // work is to be added.
  std::vector<std::string> AwaitAnswer(const CachedAnswerPtr& answer, Origin::Source source);
  // For a waiter that was removed: the best schedule so far. True: its client's work is to be
  // added. Requires: best() is not null.
  bool AwaitBest(const WaiterPtr& waiter);
  // Removes and returns those whom the work serves next, first those whose time is up. nullopt:
  // nobody is left, and the work ends.
  std::optional<ToSimulate> NextToSimulate(const std::string& client);
  // Whether the work is to be added again; false: nobody is left, and it ends.
  bool HasToSimulate(const std::string& client);

  // Removes and returns all waiters; no more can join.
  std::vector<WaiterPtr> End();
  // The same, and stops the solve.
  std::vector<WaiterPtr> Abort();
  // True once, for the one answer that counts as SOLVED.
  bool ClaimSolved() { return !is_claimed_.exchange(true); }

  std::shared_ptr<const Answer> best() const;
  SolveInFlight Describe(Timers::Clock::time_point now) const;

 private:
  enum class Whose { kAll, kExact };
  std::vector<std::shared_ptr<SolveListener>> Listeners(Whose whose) const;
  void Enter(SolveState next) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndIfAllHaveLeft() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const KeyedRequestPtr keyed_;
  const Timers::Clock::time_point arrived_;
  const std::shared_ptr<SolveSteps> steps_ = std::make_shared<SolveSteps>();
  std::stop_source stop_;
  std::atomic<bool> is_claimed_ = false;
  mutable Mutex mutex_;
  Waiters waiters_ ABSL_GUARDED_BY(mutex_);
  std::set<uint64_t> late_ ABSL_GUARDED_BY(mutex_);  // by id: those who take the next schedule
  Tickets tickets_ ABSL_GUARDED_BY(mutex_);
  double fraction_ ABSL_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<const Answer> best_ ABSL_GUARDED_BY(mutex_);
  std::optional<Timers::Clock::time_point> started_ ABSL_GUARDED_BY(mutex_);
  std::optional<Timers::Clock::time_point> awaits_other_ ABSL_GUARDED_BY(mutex_);
  SolveState state_ ABSL_GUARDED_BY(mutex_) = SolveState::kLookingUp;
  bool is_first_claimed_ ABSL_GUARDED_BY(mutex_) = false;
  CachedAnswerPtr answer_ ABSL_GUARDED_BY(mutex_);  // once it is known, and where it is from
  Origin::Source source_ ABSL_GUARDED_BY(mutex_) = Origin::Source::kSolved;
  Simulations simulations_ ABSL_GUARDED_BY(mutex_);
};
using SolvePtr = std::shared_ptr<SharedSolve>;

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_SOLVES_SHARED_SOLVE_H_
