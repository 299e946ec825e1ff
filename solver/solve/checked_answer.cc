#include "solver/solve/checked_answer.h"

#include <utility>

#include "absl/status/status.h"
#include "solver/base/out_of_memory.h"
#include "solver/base/status_macros.h"
#include "solver/bounds/lower_bound.h"
#include "solver/bounds/memory_range.h"
#include "solver/simulator/explain.h"
#include "solver/simulator/simulator.h"
#include "solver/solve/answer_notes.h"
#include "solver/solve/catalog.h"

namespace stowage {
namespace {

// Of the catalog; FindSolver() takes an empty name for "auto".
bool IsSolverName(const std::string& name) { return !name.empty() && FindSolver(name) != nullptr; }

// An earlier answer to `request`, its schedule checked on this request's own chain; nullopt: it
// does not fit there. Of a schedule Conclude() follows.
std::optional<Answer> Checked(const SolveRequest& request, const ChainUnits& units,
                              const Answer& earlier) {
  // The name is shown to people; one of no solver does not come from a solve.
  if (!IsSolverName(earlier.solver)) return std::nullopt;
  Answer answer = EmptyAnswer(request, units, earlier.solver);
  answer.minimum_memory_bytes = earlier.minimum_memory_bytes;
  answer.from_exact_sizes = earlier.from_exact_sizes;
  if (earlier.outcome == Outcome::kInfeasible) return answer;
  Candidate candidate{earlier.schedule, earlier.solver.c_str(), earlier.guarantee,
                      earlier.explanation.notes};
  if (!FillFrom(request, units, std::move(candidate), &answer)) return std::nullopt;
  return answer;
}

}  // namespace

Answer EmptyAnswer(const SolveRequest& request, const ChainUnits& units,
                   const std::string& solver) {
  Answer answer;
  answer.solver = solver;
  const MemoryFloor floor = FloorOfMemory(request.chain, units);
  answer.memory_floor_bytes = floor.bytes;
  answer.memory_floor_operation = floor.operation;
  return answer;
}

bool FillFrom(const SolveRequest& request, const ChainUnits& units, Candidate candidate,
              Answer* answer) {
  absl::StatusOr<ExplainedSimulation> checked =
      SimulateAndExplain(request.chain, units, request.platform, candidate.schedule);
  if (!checked.ok() || !checked->simulation.feasible()) {
    answer->rejected.emplace_back(candidate.solver);
    return false;
  }
  answer->prediction = checked->simulation.prediction;
  answer->explanation = std::move(checked->explanation);
  answer->explanation.notes = std::move(candidate.notes);
  answer->schedule = std::move(candidate.schedule);
  answer->solver = candidate.solver;
  answer->guarantee = candidate.guarantee;
  return true;
}

void Conclude(Answer* answer) {
  if (MeetsBound(answer->prediction)) answer->guarantee = Guarantee::kOptimal;
  answer->outcome = OutcomeOf(answer->guarantee);
  NoteClass(answer);
}

bool FillQuickly(const SolveRequest& request, const ChainUnits& units, Candidate candidate,
                 Answer* answer) {
  if (!FillFrom(request, units, std::move(candidate), answer)) return false;
  Conclude(answer);
  return true;
}

std::optional<Answer> ReuseAnswer(const SolveRequest& request, const ChainUnits& units,
                                  const Answer& earlier) {
  std::optional<Answer> answer = Checked(request, units, earlier);
  if (!answer.has_value() || earlier.outcome == Outcome::kInfeasible) return answer;
  // A schedule that is optimal for some times need not be optimal for others.
  if (IsProved(earlier.guarantee)) answer->guarantee = Guarantee::kUpToRounding;
  Conclude(&*answer);
  return answer;
}

std::optional<Answer> ReuseExactAnswer(const SolveRequest& request, const ChainUnits& units,
                                       const Answer& earlier) {
  std::optional<Answer> answer = Checked(request, units, earlier);
  if (!answer.has_value() || earlier.outcome == Outcome::kInfeasible) return answer;
  answer->rounding_loss = earlier.rounding_loss;
  RaiseBound(request.chain, request.platform, &answer->prediction, BoundTime::kLong);
  Conclude(&*answer);
  return answer;
}

std::optional<Answer> AnswerWithSchedule(const SolveRequest& request, const ChainUnits& units,
                                         const Schedule& schedule, const std::string& solver) {
  if (!IsSolverName(solver)) return std::nullopt;
  return UnlessOutOfMemory(
      [&]() -> std::optional<Answer> {
        Answer answer = EmptyAnswer(request, units, solver);
        Candidate candidate{schedule, solver.c_str(), Guarantee::kHeuristic, {}};
        if (!FillQuickly(request, units, std::move(candidate), &answer)) return std::nullopt;
        NoteUnused(request, units, *FindSolver(request.solver), &answer);
        return answer;
      },
      std::nullopt);
}

absl::StatusOr<ExplainedSimulation> SimulateAndExplain(const Chain& chain, const ChainUnits& units,
                                                       const Platform& platform,
                                                       const Schedule& schedule,
                                                       const std::stop_token& stop) {
  return UnlessOutOfMemory(
      [&]() -> absl::StatusOr<ExplainedSimulation> {
        ASSIGN_OR_RETURN(const ExecutedSchedule executed,
                         ExecutedSchedule::Of(chain, units, schedule));
        ExplainedSimulation result;
        ASSIGN_OR_RETURN(result.simulation, Simulate(executed, platform, &result.timeline, stop));
        FillBound(chain, units, platform, &result.simulation.prediction);
        result.explanation = Explain(executed, platform, result.timeline);
        return result;
      },
      [] {
        return absl::ResourceExhaustedError(
            "this machine has too little free memory for the simulation");
      });
}

}  // namespace stowage
