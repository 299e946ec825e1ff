#include "server/engine/engine.h"

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "solver/algorithms/frontier.h"

namespace stowage {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsBetween(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

// Set when either of two tokens is.
class EitherStop {
 public:
  EitherStop(std::stop_token first, std::stop_token second)
      : on_first_(std::move(first), [this] { source_.request_stop(); }),
        on_second_(std::move(second), [this] { source_.request_stop(); }) {}

  std::stop_token token() const { return source_.get_token(); }

 private:
  using Callback = std::stop_callback<std::function<void()>>;
  std::stop_source source_;
  Callback on_first_;
  Callback on_second_;
};

// What a request that was stopped ends with: it is the server's doing when the server stopped.
absl::Status Stopped(const std::stop_token& server) {
  if (server.stop_requested()) {
    return absl::UnavailableError(
        "the server stopped before the answer was ready; ask another one");
  }
  return absl::CancelledError("nobody waits for the answer any more");
}

// Adds work that owns `job`; refused jobs are told so.
template <typename Job>
void AddOrRefuse(WorkQueue& queue, std::shared_ptr<Job> job) {
  const absl::Status added = queue.Add([job] { job->Run(); });
  if (!added.ok()) job->done(added);
}

// A solve of either kind: waits its turn, runs unless nobody waits for it any more, takes its
// times.
template <typename Request, typename Result>
struct SolveJob {
  using Find = absl::StatusOr<Result> (*)(const Request&, const SolveContext&);

  Request request;
  Find find;
  EitherStop stop;
  std::stop_token server;
  int64_t solve_bytes;
  Executor* executor;
  absl::AnyInvocable<void(absl::StatusOr<Timed<Result>>)> done;
  Clock::time_point queued = Clock::now();

  void Run() {
    const Clock::time_point started = Clock::now();
    if (stop.token().stop_requested()) return done(Stopped(server));
    SolveContext context;
    context.stop = stop.token();
    context.working_bytes = solve_bytes;
    context.executor = executor;
    absl::StatusOr<Result> result = find(request, context);
    if (absl::IsCancelled(result.status())) return done(Stopped(server));
    if (!result.ok()) return done(result.status());
    done(Timed<Result>{*std::move(result), SecondsBetween(queued, started),
                       SecondsBetween(started, Clock::now())});
  }
};

}  // namespace

Engine::Engine(const EngineOptions& options)
    : options_(options),
      helpers_(options.threads - 1),
      queue_({options.threads, options.queue_length}) {}

void Engine::Solve(SolveRequest request, std::stop_token stop, SolveDone done) {
  using Job = SolveJob<SolveRequest, Answer>;
  AddOrRefuse(queue_, std::shared_ptr<Job>(new Job{std::move(request),
                                                   AnswerRequest,
                                                   {std::move(stop), stop_all_.get_token()},
                                                   stop_all_.get_token(),
                                                   options_.solve_bytes,
                                                   &helpers_,
                                                   std::move(done)}));
}

void Engine::FindFrontier(FrontierRequest request, std::stop_token stop, FrontierDone done) {
  using Job = SolveJob<FrontierRequest, Frontier>;
  AddOrRefuse(queue_, std::shared_ptr<Job>(new Job{std::move(request),
                                                   stowage::FindFrontier,
                                                   {std::move(stop), stop_all_.get_token()},
                                                   stop_all_.get_token(),
                                                   options_.solve_bytes,
                                                   &helpers_,
                                                   std::move(done)}));
}

void Engine::Simulate(SimulateRequest request, std::stop_token stop, SimulateDone done) {
  struct Job {
    SimulateRequest request;
    std::stop_token stop;
    std::stop_token server;
    SimulateDone done;

    void Run() {
      if (stop.stop_requested() || server.stop_requested()) return done(Stopped(server));
      done(SimulateAndExplain(request.chain, request.platform, request.schedule));
    }
  };
  AddOrRefuse(queue_, std::shared_ptr<Job>(new Job{std::move(request), std::move(stop),
                                                   stop_all_.get_token(), std::move(done)}));
}

void Engine::Drain(Clock::time_point deadline) {
  queue_.Close();
  if (queue_.WaitUntilIdle(deadline)) return;
  stop_all_.request_stop();
  queue_.WaitUntilIdle(Clock::time_point::max());
}

}  // namespace stowage
