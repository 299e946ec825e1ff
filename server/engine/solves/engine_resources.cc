#include "server/engine/solves/engine_resources.h"

#include <sys/resource.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>

#include "solver/solve/catalog.h"

namespace stowage {
namespace {

// Solver threads yield the cores to cached answers.
constexpr int kSolveNiceness = 10;
constexpr int kTierThreads = 2;
constexpr int kQuickThreads = 2;
constexpr size_t kQuickQueue = 4096;
constexpr size_t kQuickOfAClient = 1024;

}  // namespace

std::string SolverName(const std::string& requested) {
  return std::string(FindSolver(requested)->description.name);
}

EngineResources::EngineResources(const EngineOptions& its_options, AnswerCache* its_cache,
                                 Observer* its_observer, SolveLeases* its_leases)
    : options(its_options),
      max_solve_seconds(its_options.max_solve_seconds),
      cache(*its_cache),
      observer(*its_observer),
      leases(its_leases),
      request_bytes(options.request_bytes),
      tier_calls({.threads = kTierThreads,
                  .max_waiting = kQuickQueue,
                  .max_of_a_client = kQuickOfAClient}),
      quick({.threads = kQuickThreads,
             .max_waiting = kQuickQueue,
             .max_of_a_client = kQuickOfAClient}),
      solves({.threads = options.threads,
              .spare_threads = options.threads,
              .turn_seconds = options.turn_seconds,
              .short_threads = options.short_threads,
              .max_waiting = options.queue_length,
              .max_of_a_client = options.client_limit,
              .max_bytes = options.all_solves_bytes,
              .niceness = kSolveNiceness}) {
  // A thread inherits the niceness of the thread that creates it, so the helpers are created by a
  // thread that has taken the niceness of the solver threads.
  std::thread([this] {
    setpriority(PRIO_PROCESS, 0, kSolveNiceness);
    helpers.emplace(options.threads - 1);
  }).join();
}

int64_t EngineResources::BytesFor(const SolveRequest& request,
                                  const RequestInstances& instances) const {
  // The rounding loss takes a solve on a finer grid, with as much memory as there is for one.
  if (request.options.report_rounding_loss) return options.solve_bytes;
  const std::unique_ptr<Solver> solver = FindSolver(request.solver)->make();
  return std::max(solver->WorkingBytesWithin(instances.rounded(), options.solve_bytes),
                  solver->WorkingBytesWithin(instances.exact_sizes(), options.solve_bytes));
}

// A step takes about a microsecond.
absl::Status EngineResources::AddSimulations(int64_t count, int64_t steps,
                                             const ClientLimits& limits, Work work) {
  constexpr int64_t kQuickSteps = 10'000;
  constexpr int64_t kBytesOfStep = 256;  // in the timeline and the response
  if (count <= kQuickSteps / steps) return quick.Add(std::move(work)).status();
  work.bytes = std::min(options.solve_bytes, work.bytes + steps * kBytesOfStep);
  work.max_of_client = limits.solves;
  return solves.Add(std::move(work)).status();
}

// A dynamic program's time is in proportion to its table. With a link, and where modes are chosen,
// local search takes most of the time, which depends on the length of the chain: a tenth of a
// second, and with both of them more, for the longest that are short.
bool EngineResources::IsShort(const SolveRequest& request, const ChainUnits& units, int64_t bytes) {
  constexpr int64_t kShortBytes = 16 << 20;
  constexpr int kShortChain = 128;
  constexpr int kShortSearched = 16;
  constexpr int kShortSearchedTwice = 6;
  const bool chooses_modes =
      units.HasGraph() && FindSolver(request.solver)->description.mixes_modes;
  const bool has_link = request.platform.has_link();
  int max_stages = kShortChain;
  if (chooses_modes || has_link) max_stages = kShortSearched;
  if (chooses_modes && has_link) max_stages = kShortSearchedTwice;
  return bytes <= kShortBytes && request.chain.length() <= max_stages;
}

SolveContext EngineResources::ContextFor(std::stop_token stop) {
  SolveContext context;
  context.stop = std::move(stop);
  context.working_bytes = options.solve_bytes;
  context.threads = &*helpers;
  return context;
}

}  // namespace stowage
