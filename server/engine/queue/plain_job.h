// Requests that no callers share (frontiers, simulations), and the status of stopped work.
#ifndef STOWAGE_SERVER_ENGINE_QUEUE_PLAIN_JOB_H_
#define STOWAGE_SERVER_ENGINE_QUEUE_PLAIN_JOB_H_

#include <chrono>
#include <functional>
#include <stop_token>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/engine/limits/request_bytes.h"
#include "solver/base/time/stop.h"

namespace stowage {

// The status of a stopped request: UNAVAILABLE when the server stopped it, CANCELLED when its
// caller left.
inline absl::Status Stopped(const std::stop_token& server) {
  if (server.stop_requested()) {
    return absl::UnavailableError(
        "the server stopped before the answer was ready; ask another server");
  }
  return absl::CancelledError("the caller no longer waits for the answer");
}

// A frontier or a simulation in a work queue. Calls `done` exactly once, with the result of `run`
// or, where the job was stopped before or while it ran, with Stopped(). Run() is called once, by a
// thread of the queue; where the queue refuses the job, its owner calls `done` instead.
template <typename Result>
struct PlainJob {
  using Clock = std::chrono::steady_clock;
  std::function<absl::StatusOr<Result>(std::stop_token stop, Clock::time_point started)> run;
  EitherStop stop;          // the caller has left, or the server stops
  std::stop_token server;   // the latter alone
  RequestBytes::Hold held;  // the memory of the request
  absl::AnyInvocable<void(absl::StatusOr<Result>)> done;

  void Run() {
    if (stop.token().stop_requested()) return done(Stopped(server));
    absl::StatusOr<Result> result = run(stop.token(), Clock::now());
    // A solver only says that it was stopped; the caller is told by whom.
    if (absl::IsCancelled(result.status())) return done(Stopped(server));
    done(std::move(result));
  }
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_QUEUE_PLAIN_JOB_H_
