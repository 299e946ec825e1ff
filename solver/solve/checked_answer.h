// From a schedule to an answer: simulated on the request's own chain and platform, bounded from
// below, explained. For the schedules of a solve, and for those of earlier answers.
// Requires of all: RequestViolations(request) is empty, and `units` are those of its chain.
// Thread-safe.
#ifndef STOWAGE_SOLVER_SOLVE_CHECKED_ANSWER_H_
#define STOWAGE_SOLVER_SOLVE_CHECKED_ANSWER_H_

#include <optional>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "solver/algorithms/solver.h"
#include "solver/model/answer.h"
#include "solver/model/chain_units.h"
#include "solver/model/explanation.h"
#include "solver/model/request.h"
#include "solver/model/schedule.h"

namespace stowage {

// An answer without a schedule: the fields that do not depend on one.
Answer EmptyAnswer(const SolveRequest& request, const ChainUnits& units, const std::string& solver);

// Fills the answer with the candidate under the quick bound of FillBound() and with the solver's
// own guarantee. False, with the solver listed as rejected, where the simulator refuses the
// schedule. Conclude() follows, once the bound is as close as wanted.
bool FillFrom(const SolveRequest& request, const ChainUnits& units, Candidate candidate,
              Answer* answer);
// Outcome and notes. A makespan that equals the lower bound is optimal, even if the solver gives no
// guarantee.
void Conclude(Answer* answer);
// FillFrom(), and Conclude() under the quick bound. False as FillFrom().
bool FillQuickly(const SolveRequest& request, const ChainUnits& units, Candidate candidate,
                 Answer* answer);

// An answer to a request that rounds to the same instance, while sizes or times may differ, as an
// answer to `request`, under the quick bound. Of `earlier` neither prediction nor explanation is
// read, except for the notes; the rounding loss, a figure of its own request's times, is left out.
// nullopt: the schedule does not fit here. Throws std::bad_alloc.
std::optional<Answer> ReuseAnswer(const SolveRequest& request, const ChainUnits& units,
                                  const Answer& earlier);
// The same of an earlier answer to this very request: its guarantee and its rounding loss hold. The
// bound is as close as that of a solve, and takes its time.
std::optional<Answer> ReuseExactAnswer(const SolveRequest& request, const ChainUnits& units,
                                       const Answer& earlier);

// An answer of which nothing but its schedule is believed, such as one from a file that others may
// write. OPTIMAL where the makespan equals the lower bound, else FEASIBLE with
// Guarantee::kHeuristic; without a least memory. nullopt: the schedule does not fit here, or the
// catalog has no solver of that name. The bound is the quick one.
std::optional<Answer> AnswerWithSchedule(const SolveRequest& request, const ChainUnits& units,
                                         const Schedule& schedule, const std::string& solver);

// Simulates a schedule, bounds and explains it. Errors: those of Simulate(), which polls `stop`,
// and RESOURCE_EXHAUSTED without enough memory. Requires: as Simulate().
absl::StatusOr<ExplainedSimulation> SimulateAndExplain(const Chain& chain, const ChainUnits& units,
                                                       const Platform& platform,
                                                       const Schedule& schedule,
                                                       const std::stop_token& stop = {});

}  // namespace stowage

#endif  // STOWAGE_SOLVER_SOLVE_CHECKED_ANSWER_H_
