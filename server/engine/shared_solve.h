// One solve and all callers who wait for it: equal requests in flight are solved once.
#ifndef STOWAGE_SERVER_ENGINE_SHARED_SOLVE_H_
#define STOWAGE_SERVER_ENGINE_SHARED_SOLVE_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/service/results.h"
#include "server/cache/cache_keys.h"
#include "server/cache/cache_tier.h"
#include "server/engine/client_limits.h"
#include "server/engine/request_bytes.h"
#include "server/engine/solve_steps.h"
#include "server/events/call_trace.h"
#include "solver/base/mutex.h"
#include "solver/base/timers.h"
#include "solver/model/answer.h"
#include "solver/model/instance.h"
#include "solver/model/request.h"

namespace stowage {

// What a caller learns about its request. Calls come from several threads; one that is under way
// when Done() is called may arrive after it.
class SolveListener {
 public:
  virtual ~SolveListener() = default;
  virtual void Queued(size_t /*before*/) {}     // so many solves wait before it
  virtual void Running(double /*fraction*/) {}  // done, 0..1
  // The best so far, simulated on this caller's own chain.
  virtual void Improved(const std::shared_ptr<const Answer>& /*best*/) {}
  virtual void Done(absl::StatusOr<SolveResult> result) = 0;  // exactly once
};

// Who sent a request, and until when the answer is of use.
struct Caller {
  std::string client = {};  // whose share of the queue the request takes
  Timers::Clock::time_point deadline = Timers::Clock::time_point::max();
  std::stop_token stop = {};  // set when the caller has left
  ClientLimits limits = {};
  bool is_part = false;  // between Engine::BeginParts() and EndParts()
  CallTracePtr trace = {};
};

// A request with its keys, the instance that they were made of, and its share of the memory of all
// requests, which is on the account of a client that waits. Immutable but for that, shared.
struct KeyedRequest {
  SolveRequest request;
  std::shared_ptr<const Instance> rounded;
  CacheKeys keys;
  RequestBytes::Hold held = {};
};
using KeyedRequestPtr = std::shared_ptr<const KeyedRequest>;

// When the best schedule so far becomes the answer: at the end of the time budget (0: none), or
// early enough before the deadline for the response to reach the caller.
Timers::Clock::time_point DueFor(double time_budget_seconds, const Caller& caller,
                                 Timers::Clock::time_point arrived);

// One caller that waits for an answer.
struct Waiter {
  Waiter(KeyedRequestPtr keyed_request, Caller its_caller,
         std::shared_ptr<SolveListener> its_listener, Timers::Clock::time_point arrival,
         Timers::Clock::time_point its_due)
      : caller(std::move(its_caller)),
        listener(std::move(its_listener)),
        arrived(arrival),
        due(its_due),
        keyed(std::move(keyed_request)) {}

  const SolveRequest& request() const { return keyed->request; }
  const CacheKeys& keys() const { return keyed->keys; }

  const Caller caller;
  const std::shared_ptr<SolveListener> listener;
  const Timers::Clock::time_point arrived;
  const Timers::Clock::time_point due;  // as DueFor()

  // Written before other threads can see the waiter. The request may be that of another waiter, and
  // then differs in options that concern the call alone.
  KeyedRequestPtr keyed;
  Origin::Source source = Origin::Source::kSolved;  // of its answer
  uint64_t id = 0;                                  // in the solve that it joined
  std::shared_ptr<const SolveSteps> steps;          // of that solve

  // Of a waiter whose time is up: its result where the best schedule so far does not fit its chain.
  // Written by whoever removed it from its solve.
  absl::Status otherwise;

  // Touched only by the thread that watches the caller's stop token.
  std::optional<std::stop_callback<std::function<void()>>> on_stop;

  Mutex mutex;
  bool ended ABSL_GUARDED_BY(mutex) = false;
  Timers::Id timer ABSL_GUARDED_BY(mutex) = {};
};
using WaiterPtr = std::shared_ptr<Waiter>;

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
  // Its caller says when it looks into the tiers and when the solver has ended; the other steps
  // begin in the methods below.
  SolveSteps& steps() { return *steps_; }
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
  // True once, where the time of a waiter is up while the solve waits for its turn: the caller is
  // to find a first schedule, which a solve that runs begins with.
  bool ClaimFirst();
  // It waits from `now` on, unless it has before, for another server that solves the request.
  void AwaitOther(Timers::Clock::time_point now);
  // When that began; nullopt: it has not.
  std::optional<Timers::Clock::time_point> awaits_other_since() const;
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

  // Inform the listeners of all waiters.
  void Queued(size_t before);
  void Started();
  void Progressed(double fraction);
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
  // When it began to run; nullopt: it has not.
  std::optional<Timers::Clock::time_point> started() const;

 private:
  struct Place {
    WaiterPtr waiter;
    bool is_late = false;  // takes the next schedule
  };
  // The waiters with one exact request share it.
  struct ExactRequest {
    KeyedRequestPtr keyed;
    std::set<uint64_t> waiters;  // their ids
  };
  // What is to be simulated for one client. An exact request comes once in each queue.
  struct Simulations {
    std::deque<Fingerprint> late;  // by CacheKeys::exact, the first whose time was up first
    absl::flat_hash_map<Fingerprint, std::vector<WaiterPtr>> late_waiters;  // removed
    std::deque<std::vector<uint64_t>> others;                               // ids, first due first
  };
  using Places = std::map<uint64_t, Place>;  // by Waiter::id, that is, in the order of arrival
  enum class Whose { kAll, kExact };
  std::vector<std::shared_ptr<SolveListener>> Listeners(Whose whose) const;
  Simulations* SimulationsOf(const std::string& client) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasAny(const std::vector<uint64_t>& ids) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<std::string> Clients() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  WaiterPtr Remove(Places::iterator place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Charge(const KeyedRequest& keyed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const KeyedRequestPtr keyed_;
  const Timers::Clock::time_point arrived_;
  const std::shared_ptr<SolveSteps> steps_ = std::make_shared<SolveSteps>();
  std::stop_source stop_;
  std::atomic<bool> is_claimed_ = false;
  mutable Mutex mutex_;
  Places places_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, size_t> clients_ ABSL_GUARDED_BY(mutex_);  // waiters of each, above 0
  absl::flat_hash_map<Fingerprint, ExactRequest> requests_
      ABSL_GUARDED_BY(mutex_);  // of the waiters, by CacheKeys::exact
  Caller owner_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  Tickets tickets_ ABSL_GUARDED_BY(mutex_);
  double fraction_ ABSL_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<const Answer> best_ ABSL_GUARDED_BY(mutex_);
  std::optional<Timers::Clock::time_point> started_ ABSL_GUARDED_BY(mutex_);
  std::optional<Timers::Clock::time_point> awaits_other_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_first_claimed_ ABSL_GUARDED_BY(mutex_) = false;
  CachedAnswerPtr answer_ ABSL_GUARDED_BY(mutex_);  // once it is known, and where it is from
  Origin::Source source_ ABSL_GUARDED_BY(mutex_) = Origin::Source::kSolved;
  // By client; an entry is there as long as the client's work is in the queue or runs.
  std::map<std::string, Simulations> simulations_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_SHARED_SOLVE_H_
