// From a request to a checked answer, the path that the service and the command line share: build
// the instance, run the solver, simulate its schedule on the request's own chain, explain the
// result.
#ifndef STOWAGE_SOLVER_SOLVE_ANSWER_REQUEST_H_
#define STOWAGE_SOLVER_SOLVE_ANSWER_REQUEST_H_

#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "solver/algorithms/solver.h"
#include "solver/model/answer.h"
#include "solver/model/chain.h"
#include "solver/model/explanation.h"
#include "solver/model/platform.h"
#include "solver/model/prediction.h"
#include "solver/model/request.h"
#include "solver/model/schedule.h"

namespace stowage {

// Solves the request. The schedule of an OPTIMAL or FEASIBLE answer has been simulated on the exact
// chain and fits the exact platform. If a solver's schedule does not, the solver is listed in
// Answer::rejected and the next one of the catalog runs. INFEASIBLE is an answer, with the least
// memory that works.
//
// `improved`, unless it is empty, receives an answer for each faster schedule found on the way,
// with Limit::kTime unless it is optimal; it is called from the calling thread.
//
// Errors: CANCELLED once context.stop is set; RESOURCE_EXHAUSTED when the solver would need more
// than `context.working_bytes` (the message says how many memory slots fit), or when only schedules
// of more than kMaxOperations operations fit the budget; INTERNAL when the simulator rejects all
// schedules. Requires: RequestViolations(request) is empty. Thread-safe.
absl::StatusOr<Answer> AnswerRequest(const SolveRequest& request, const SolveContext& context,
                                     const std::function<void(const Answer&)>& improved = {});

// Turns a cached answer, to the same request or to one that rounds to the same instance, into an
// answer to `request`: its schedule is simulated on this request's own chain and platform. Of
// `known`, the prediction and the explanation (except its notes) are not read. nullopt when the
// schedule does not fit, or when the request asks for a rounding loss that belongs to another one.
// Requires: RequestViolations(request) is empty. Thread-safe.
enum class KnownFor { kThisRequest, kOneLikeIt };
std::optional<Answer> AnswerFromKnown(const SolveRequest& request, const Answer& known,
                                      KnownFor known_for);

// A simulation, with the timeline and the explanation that reports show.
struct ExplainedSimulation {
  Simulation simulation;
  std::vector<TimelineEntry> timeline;
  Explanation explanation;
};

// Errors: as Simulate(). Requires: as Simulate(). Thread-safe.
absl::StatusOr<ExplainedSimulation> SimulateAndExplain(const Chain& chain, const Platform& platform,
                                                       const Schedule& schedule);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_SOLVE_ANSWER_REQUEST_H_
