// What all requests of an engine share: its limits, the cache, the queues and their threads.
#ifndef STOWAGE_SERVER_ENGINE_SOLVES_ENGINE_RESOURCES_H_
#define STOWAGE_SERVER_ENGINE_SOLVES_ENGINE_RESOURCES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "server/cache/answer_cache.h"
#include "server/cache/solve_leases.h"
#include "server/engine/limits/client_limits.h"
#include "server/engine/limits/request_bytes.h"
#include "server/engine/queue/running_solves.h"
#include "server/engine/queue/work_queue.h"
#include "server/events/observer.h"
#include "solver/algorithms/solver.h"
#include "solver/base/thread_pool.h"
#include "solver/base/time/timers.h"
#include "solver/model/request.h"
#include "solver/solve/request_instances.h"

namespace stowage {

struct EngineOptions {
  int threads = 1;                              // solves that run at once; one alone may use all
  int short_threads = 0;                        // beside those, for short solves alone
  size_t queue_length = 256;                    // solves that wait beyond those
  size_t client_limit = 64;                     // of them, waiting or running, of one client
  int64_t solve_bytes = int64_t{4} << 30;       // the most memory that one solve may take
  int64_t all_solves_bytes = int64_t{8} << 30;  // the most of all that run at once
  double max_solve_seconds = 60;                // then the best schedule so far is the answer
  double turn_seconds = 1;                      // then a solve keeps no others waiting
  int64_t request_bytes = int64_t{512} << 20;   // of requests in flight
};

// The catalog's name of a requested solver, "auto" for an empty one.
std::string SolverName(const std::string& requested);

// The members are thread-safe. The destructor runs the queued work and joins the threads.
struct EngineResources {
  // Borrows all three. Null leases: it solves whatever no tier has.
  EngineResources(const EngineOptions& options, AnswerCache* cache, Observer* observer,
                  SolveLeases* leases);
  ~EngineResources() { timers.Stop(); }  // its callbacks use the queues, which end first

  // The most memory that the solve of a request may take.
  int64_t BytesFor(const SolveRequest& request, const RequestInstances& instances) const;
  // Whether a solve that takes `bytes` is expected to take milliseconds.
  static bool IsShort(const SolveRequest& request, const ChainUnits& units, int64_t bytes);
  // Queues simulations, one after the other, of so many steps, operations and stages: short ones on
  // a quick thread, long ones where solves run, within the client's limit of them and with the
  // memory of the steps beside that of `work`. Errors: those of WorkQueue::Add().
  absl::Status AddSimulations(int64_t count, int64_t steps, const ClientLimits& limits, Work work);
  // What a solver may use until `stop` is set.
  SolveContext ContextFor(std::stop_token stop);

  const EngineOptions options;
  std::atomic<double> max_solve_seconds;  // at first as in the options
  AnswerCache& cache;
  Observer& observer;
  SolveLeases* const leases;
  RunningSolves running;
  RequestBytes request_bytes;
  std::stop_source stop_all;  // set when the engine stops the solves that still run

  std::optional<ThreadPool> helpers;  // lent to one solve at a time
  Timers timers;
  WorkQueue tier_calls;  // look-ups and writes of cache tiers, which may wait for a disk
  WorkQueue quick;       // milliseconds: short simulations, answers at deadlines
  WorkQueue solves;      // last, because its threads use all of the above
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_ENGINE_SOLVES_ENGINE_RESOURCES_H_
