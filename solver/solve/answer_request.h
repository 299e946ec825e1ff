// From a request to an answer that the simulator has checked: the one path that the service and the
// command line share. Instance, solver, simulation on the request's own chain, explanation.
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

// The schedule of an OPTIMAL or FEASIBLE answer has been simulated on the exact chain and fits the
// exact platform. A solver whose schedule does not is listed in Answer::rejected and the next one
// is asked. "Infeasible" is an answer, with the least memory that works. Errors: CANCELLED;
// RESOURCE_EXHAUSTED when the solver would need more than
//   `context.working_bytes`, with the memory slots that would fit, or when only schedules of more
//   than kMaxOperations are within the budget; INTERNAL when no schedule passes the simulator.
// Requires: RequestViolations(request) is empty. Thread-safe.
//
// Each faster schedule on the way is an answer, too, with Limit::kTime where it may not be the
// best; `improved`, unless it is empty, gets all of them, from the calling thread.
absl::StatusOr<Answer> AnswerRequest(const SolveRequest& request, const SolveContext& context,
                                     const std::function<void(const Answer&)>& improved = {});

// What `known`, the answer to the same request or to one that rounds to the same instance, is for
// `request`: its schedule, simulated on this request's own chain and platform. Of `known` neither
// prediction nor explanation is read, but for the notes. nullopt: it does not fit here, or says
// nothing about this request. Requires: RequestViolations(request) is empty. Thread-safe.
enum class KnownFor { kThisRequest, kOneLikeIt };
std::optional<Answer> AnswerFromKnown(const SolveRequest& request, const Answer& known,
                                      KnownFor known_for);

// Errors: as Simulate(). Requires: as Simulate(). Thread-safe.
absl::StatusOr<ExplainedSimulation> SimulateAndExplain(const Chain& chain, const Platform& platform,
                                                       const Schedule& schedule);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_SOLVE_ANSWER_REQUEST_H_
