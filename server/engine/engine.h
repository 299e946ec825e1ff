// The service without its wire: runs solves and simulations on a pool of threads, bounded in
// number, memory and time. Knows nothing of gRPC, so it can be tested whole under ThreadSanitizer.
#ifndef STOWAGE_SERVER_ENGINE_ENGINE_H_
#define STOWAGE_SERVER_ENGINE_ENGINE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stop_token>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "server/engine/work_queue.h"
#include "solver/algorithms/answer.h"
#include "solver/base/executor.h"
#include "solver/model/answer.h"
#include "solver/model/frontier.h"

namespace stowage {

struct EngineOptions {
  int threads = 1;                         // solves that run at once; one alone may use them all
  size_t queue_length = 256;               // requests that wait beyond those
  int64_t solve_bytes = int64_t{4} << 30;  // the most memory that one solve may take
};

// What a request led to, and how long that took.
template <typename Result>
struct Timed {
  Result result;
  double queue_seconds = 0;
  double solve_seconds = 0;
};
using TimedAnswer = Timed<Answer>;
using TimedFrontier = Timed<Frontier>;

struct SimulateRequest {
  Chain chain;
  Platform platform;
  Schedule schedule;
};

// Thread-safe.
class Engine {
 public:
  using SolveDone = absl::AnyInvocable<void(absl::StatusOr<TimedAnswer>)>;
  using FrontierDone = absl::AnyInvocable<void(absl::StatusOr<TimedFrontier>)>;
  using SimulateDone = absl::AnyInvocable<void(absl::StatusOr<ExplainedSimulation>)>;

  explicit Engine(const EngineOptions& options);

  // Calls `done` exactly once: from a thread of the pool, or from the caller's before Solve()
  // returns when the request is refused. A request whose `stop` is set before its turn is not
  // started; one that runs ends within 50 ms.
  // Errors: AnswerRequest()'s, those of WorkQueue::Add(), and UNAVAILABLE when Drain() stopped it.
  // Requires: RequestViolations(request) is empty.
  void Solve(SolveRequest request, std::stop_token stop, SolveDone done);

  // The same for a frontier. Errors: FindFrontier()'s and so on.
  // Requires: RequestViolations(request) is empty.
  void FindFrontier(FrontierRequest request, std::stop_token stop, FrontierDone done);

  // The same for a simulation. Requires: as Simulate() of solver/simulator.
  void Simulate(SimulateRequest request, std::stop_token stop, SimulateDone done);

  // Refuses new requests with UNAVAILABLE and waits for the others; those that still run at
  // `deadline` are stopped and end with UNAVAILABLE, too.
  void Drain(std::chrono::steady_clock::time_point deadline);

 private:
  const EngineOptions options_;
  std::stop_source stop_all_;
  HelperThreads helpers_;  // for a solve that runs while others do not
  WorkQueue queue_;        // last: its threads use all of the above
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_ENGINE_H_
