// A caller that waits for the answer to its request.
#ifndef STOWAGE_SERVER_ENGINE_SOLVES_WAITER_H_
#define STOWAGE_SERVER_ENGINE_SOLVES_WAITER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/service/results.h"
#include "server/cache/cache_keys.h"
#include "server/engine/limits/client_limits.h"
#include "server/engine/solves/keyed_request.h"
#include "server/engine/solves/solve_steps.h"
#include "server/events/call_trace.h"
#include "solver/base/mutex.h"
#include "solver/base/time/timers.h"
#include "solver/model/answer.h"
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

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_SOLVES_WAITER_H_
