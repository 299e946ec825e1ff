#include "client/lib/local_scheduler.h"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "solver/base/cores.h"
#include "solver/base/status_macros.h"
#include "solver/base/thread_pool.h"
#include "solver/base/time/stop.h"
#include "solver/base/time/timers.h"
#include "solver/model/chain_warnings.h"
#include "solver/model/validate.h"
#include "solver/solve/admit.h"
#include "solver/solve/answer_request.h"
#include "solver/solve/catalog.h"
#include "solver/solve/checked_answer.h"
#include "solver/solve/find_frontier.h"
#include "solver/solve/request_violations.h"

namespace stowage {
// A solve reports a timeout as CANCELLED, since it sees `stop` only; unless the caller has set its
// own, that means the deadline has passed.
absl::StatusOr<double> RunLocally(const LocalOptions& options,
                                  absl::FunctionRef<absl::Status(const SolveContext&)> find) {
  ThreadPool helpers(UsableCores() - 1);  // the calling thread works, too
  SolveContext context;
  context.stop = options.stop;
  context.working_bytes = options.working_bytes;
  context.threads = &helpers;
  std::optional<Timers> timers;
  std::optional<TimedStop> timeout;
  if (options.timeout_seconds.has_value()) {
    timeout.emplace(*options.timeout_seconds, options.stop, &timers.emplace());
    context.stop = timeout->token();
  }
  const auto begin = std::chrono::steady_clock::now();
  const absl::Status found = find(context);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  if (absl::IsCancelled(found) && !options.stop.stop_requested()) {
    return absl::DeadlineExceededError(
        absl::StrCat("no answer within ", options.timeout_seconds.value_or(0), " s"));
  }
  RETURN_IF_ERROR(found);
  return elapsed.count();
}

absl::StatusOr<SolveResult> LocalScheduler::Solve(const SolveRequest& request,
                                                  const SolveCall& call) {
  RETURN_IF_ERROR(ViolationsStatus(RequestViolations(request)));
  LocalOptions limits = options_;
  if (call.timeout_seconds.has_value()) limits.timeout_seconds = call.timeout_seconds;
  std::optional<Answer> answer;  // the best so far, then the last one
  const auto solve = [&](const SolveContext& unobserved) -> absl::Status {
    SolveContext context = unobserved;
    std::optional<Timers> timers;
    std::optional<TimeBudget> budget;
    if (const double seconds = request.options.time_budget_seconds; seconds > 0) {
      budget.emplace(seconds, unobserved.stop, &timers.emplace());
      context.stop = budget->token();
    }
    if (call.running) {
      const std::string solver = FindSolver(request.solver)->description.name;
      context.progress = [&call, solver](double fraction) { call.running(solver, fraction); };
    }
    absl::StatusOr<Answer> last =
        AnswerRequest(request, context, [&answer, &budget, &call](const Answer& better) {
          answer = better;
          if (budget.has_value()) budget->HasSchedule();
          if (call.improved) call.improved(better);
        });
    // Out of time, with a schedule at hand.
    if (absl::IsCancelled(last.status()) && answer.has_value()) return absl::OkStatus();
    RETURN_IF_ERROR(last.status());
    answer = *std::move(last);
    return absl::OkStatus();
  };
  ASSIGN_OR_RETURN(const double seconds, RunLocally(limits, solve));
  SolveResult result{std::make_shared<const Answer>(*std::move(answer)), Origin(),
                     ChainWarnings(request.chain)};
  result.origin.solve_seconds = seconds;
  return result;
}

absl::StatusOr<FrontierResult> LocalScheduler::FindFrontier(const FrontierRequest& request) {
  RETURN_IF_ERROR(ViolationsStatus(RequestViolations(request)));
  FrontierResult result;
  const auto find = [&](const SolveContext& context) -> absl::Status {
    ASSIGN_OR_RETURN(result.frontier, stowage::FindFrontier(request, context));
    return absl::OkStatus();
  };
  ASSIGN_OR_RETURN(result.origin.solve_seconds, RunLocally(options_, find));
  return result;
}

absl::StatusOr<ExplainedSimulation> LocalScheduler::Simulate(const SimulateRequest& request) {
  std::vector<FieldViolation> violations = Violations(request.chain);
  Append(Violations(request.platform), &violations);
  Append(Violations(request.schedule), &violations);
  RETURN_IF_ERROR(ViolationsStatus(violations));
  return SimulateAndExplain(request.chain, ChainUnits(request.chain), request.platform,
                            request.schedule, options_.stop);
}

absl::StatusOr<std::vector<Verdict>> LocalScheduler::Admit(const AdmitRequest& request) {
  RETURN_IF_ERROR(ViolationsStatus(RequestViolations(request)));
  std::vector<Verdict> verdicts;
  for (size_t device = 0; device < request.devices.size(); ++device) {
    if (std::optional<Verdict> verdict = VerdictWithoutPlan(request, device)) {
      verdicts.push_back(*std::move(verdict));
      continue;
    }
    ASSIGN_OR_RETURN(SolveResult result, Solve(PlanRequest(request, device), {}));
    verdicts.push_back(VerdictWithPlan(request, device, std::move(result.answer)));
  }
  return Ranked(request, std::move(verdicts));
}

absl::Status LocalScheduler::ReportExecution(const ExecutionReport& /*report*/) {
  return absl::UnimplementedError("there is no server to report to");
}

}  // namespace stowage
