// From a request to an answer that the simulator has checked: the one path that the service and the
// command line share. Instances, solver, and the answer of checked_answer.h.
#ifndef STOWAGE_SOLVER_SOLVE_ANSWER_REQUEST_H_
#define STOWAGE_SOLVER_SOLVE_ANSWER_REQUEST_H_

#include <functional>
#include <optional>
#include <stop_token>

#include "absl/status/statusor.h"
#include "solver/algorithms/solver.h"
#include "solver/model/answer.h"
#include "solver/model/chain_units.h"
#include "solver/model/request.h"
#include "solver/solve/request_instances.h"

namespace stowage {

// Receives each better answer of a solve that is under way, from the thread of the solve. Its
// guarantee is kTimeRanOut where it may not be the best.
using ImprovedAnswer = std::function<void(const Answer&)>;

// Solves `request`. The schedule of an OPTIMAL or FEASIBLE answer has been simulated on the exact
// chain and fits the exact platform. A solver whose schedule does not is listed in
// Answer::rejected, and the next one of the catalog takes its place. "Infeasible" is an answer,
// with the least memory that is enough. `improved` may be empty. Errors: CANCELLED once
// `context.stop` is set; RESOURCE_EXHAUSTED when the solver would need more
//   than `context.working_bytes`, with the memory slots that would fit, or when every schedule
//   within the budget has more than kMaxOperations; INTERNAL when no schedule passes the simulator.
// Requires: RequestViolations(request) is empty; `instances` are those of `request`. Thread-safe.
absl::StatusOr<Answer> AnswerRequest(const SolveRequest& request, const RequestInstances& instances,
                                     const SolveContext& context,
                                     const ImprovedAnswer& improved = {});
// The same, building the instances.
absl::StatusOr<Answer> AnswerRequest(const SolveRequest& request, const SolveContext& context,
                                     const ImprovedAnswer& improved = {});

// An answer that takes O(L log L) time for a chain of L stages, for a request that has no time to
// be solved: the first that fits of storing everything, checkpoints at equal distances, as few as
// possible, and halving. AnswerRequest() begins with the same. nullopt: none fits, or `stop` is
// set. Requires: RequestViolations(request) is empty; `units` are its chain's. Thread-safe.
std::optional<Answer> FirstAnswer(const SolveRequest& request, const ChainUnits& units,
                                  const std::stop_token& stop);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_SOLVE_ANSWER_REQUEST_H_
