// From a request to an answer that the simulator has checked: the one path that the service and the
// command line share. Instances, solver, simulation on the request's own chain, explanation.
#ifndef STOWAGE_SOLVER_SOLVE_ANSWER_REQUEST_H_
#define STOWAGE_SOLVER_SOLVE_ANSWER_REQUEST_H_

#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "solver/algorithms/solver.h"
#include "solver/model/answer.h"
#include "solver/model/explanation.h"
#include "solver/model/request.h"
#include "solver/model/schedule.h"
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
// set. Requires: RequestViolations(request) is empty. Thread-safe.
std::optional<Answer> FirstAnswer(const SolveRequest& request, const std::stop_token& stop = {});

// An answer to a request that rounds to the same instance, while sizes or times may differ, as an
// answer to `request`: its schedule, simulated on this request's own chain and platform, under the
// quick bound of FillBound(). Of `earlier` neither prediction nor explanation is read, except for
// the notes. nullopt: the schedule does not fit here, or the request asks for the rounding loss,
// of which the answer says nothing. Throws std::bad_alloc.
// Requires: RequestViolations(request) is empty. Thread-safe.
std::optional<Answer> ReuseAnswer(const SolveRequest& request, const Answer& earlier);
// The same of an earlier answer to this very request: its guarantee and its rounding loss hold. The
// bound is as close as that of a solve, and takes its time.
std::optional<Answer> ReuseExactAnswer(const SolveRequest& request, const Answer& earlier);

// An answer of which nothing but its schedule is believed, such as one from a file that others may
// write: simulated, bounded and explained here. OPTIMAL where the makespan equals the lower bound,
// else FEASIBLE with Guarantee::kHeuristic; without a least memory. nullopt: the schedule does not
// fit here, or the catalog has no solver of that name. The bound is the quick one of FillBound().
// Requires: RequestViolations(request) is empty. Thread-safe.
std::optional<Answer> AnswerWithSchedule(const SolveRequest& request, const Schedule& schedule,
                                         const std::string& solver);

// Simulates a schedule and explains it. Errors: those of Simulate(), which polls `stop`, and
// RESOURCE_EXHAUSTED without enough memory. Requires: as Simulate(). Thread-safe.
absl::StatusOr<ExplainedSimulation> SimulateAndExplain(const Chain& chain, const Platform& platform,
                                                       const Schedule& schedule,
                                                       const std::stop_token& stop = {});

}  // namespace stowage

#endif  // STOWAGE_SOLVER_SOLVE_ANSWER_REQUEST_H_
