// One solve and all callers who wait for it: equal requests in flight are solved once.
#ifndef STOWAGE_SERVER_ENGINE_SHARED_SOLVE_H_
#define STOWAGE_SERVER_ENGINE_SHARED_SOLVE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "server/cache/cache_keys.h"
#include "server/engine/client_limits.h"
#include "server/engine/timers.h"
#include "solver/base/mutex.h"
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
  virtual void Improved(const std::shared_ptr<const Answer>& /*best*/) {}  // the best so far
  virtual void Done(absl::StatusOr<SolveResult> result) = 0;               // exactly once
};

// Who sent a request, and until when the answer is of use.
struct Caller {
  std::string client = {};  // whose share of the queue the request takes
  Timers::Clock::time_point deadline = Timers::Clock::time_point::max();
  std::stop_token stop = {};  // set when the caller has left
  ClientLimits limits = {};
};

// A request with its keys and the instance that they were made of. Immutable, shared.
struct KeyedRequest {
  SolveRequest request;
  std::shared_ptr<const Instance> rounded;
  CacheKeys keys;
};
using KeyedRequestPtr = std::shared_ptr<const KeyedRequest>;

// One caller that waits for an answer.
struct Waiter {
  Waiter(KeyedRequestPtr keyed_request, Caller its_caller,
         std::shared_ptr<SolveListener> its_listener, Timers::Clock::time_point arrival)
      : keyed(std::move(keyed_request)),
        caller(std::move(its_caller)),
        listener(std::move(its_listener)),
        arrived(arrival) {}

  const SolveRequest& request() const { return keyed->request; }
  const CacheKeys& keys() const { return keyed->keys; }

  const KeyedRequestPtr keyed;
  const Caller caller;
  const std::shared_ptr<SolveListener> listener;
  const Timers::Clock::time_point arrived;

  // Written before other threads can see the waiter.
  Origin::Source source = Origin::Source::kSolved;  // of its answer
  uint64_t id = 0;                                  // in the solve that it joined

  // Touched only by the thread that watches the caller's stop token.
  std::optional<std::stop_callback<std::function<void()>>> on_stop;

  Mutex mutex;
  bool ended ABSL_GUARDED_BY(mutex) = false;
  Timers::Id timer ABSL_GUARDED_BY(mutex) = {};
};
using WaiterPtr = std::shared_ptr<Waiter>;

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
// Thread-safe.
class SharedSolve {
 public:
  // Solves the request of the first waiter.
  explicit SharedSolve(const Waiter& first);

  const KeyedRequest& keyed() const { return *keyed_; }
  const SolveRequest& request() const { return keyed_->request; }
  const CacheKeys& keys() const { return keyed_->keys; }
  // The first waiter's.
  const std::string& client() const { return first_.client; }
  const ClientLimits& limits() const { return first_.limits; }
  // Set when the last waiter has left.
  std::stop_token stop_token() const { return stop_.get_token(); }

  // False: the solve has ended, or its last waiter has left.
  bool Join(const WaiterPtr& waiter);
  // Removes a waiter; null where it was removed before. The last one stops the solve.
  WaiterPtr Leave(uint64_t id);
  // The same for a waiter whose time is up, with the best answer so far. Null as long as there is
  // none: the waiter then gets the next one, from Improved().
  WaiterPtr LeaveWithBest(uint64_t id, std::shared_ptr<const Answer>* best);

  // Remembers the ticket of the queued work, and returns the clients that wait for it by now.
  std::vector<std::string> SetTicket(uint64_t ticket);
  // 0: the work is not queued yet.
  uint64_t ticket() const;

  // Inform the listeners of all waiters.
  void Queued(size_t before);
  void Started();
  void Progressed(double fraction);
  // Returns the waiters whose time was up before there was a schedule, and removes them.
  std::vector<WaiterPtr> Improved(const std::shared_ptr<const Answer>& best);
  // Removes and returns all waiters; no more can join.
  std::vector<WaiterPtr> End();
  // The same, and stops the solve.
  std::vector<WaiterPtr> Abort();

  std::shared_ptr<const Answer> best() const;
  SolveInFlight Describe(Timers::Clock::time_point now) const;
  // When it began to run; nullopt: it has not.
  std::optional<Timers::Clock::time_point> started() const;

 private:
  struct Place {
    WaiterPtr waiter;
    bool is_late = false;  // takes the next schedule
  };
  std::vector<std::shared_ptr<SolveListener>> Listeners() const;
  WaiterPtr Remove(std::vector<Place>::iterator place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<Place>::iterator Find(uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const KeyedRequestPtr keyed_;
  const Caller first_;  // of the first waiter, as is
  const Timers::Clock::time_point arrived_;
  std::stop_source stop_;
  mutable Mutex mutex_;
  std::vector<Place> places_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  uint64_t ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  double fraction_ ABSL_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<const Answer> best_ ABSL_GUARDED_BY(mutex_);
  std::optional<Timers::Clock::time_point> started_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_SHARED_SOLVE_H_
