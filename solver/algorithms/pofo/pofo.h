// Recomputation and offloading chosen together: POFO (NeurIPS 2021) with whole transfers.
//
// The relaxed program (pofo_program.h) runs twice, first coarsely, so that its plan bounds what the
// second has to look at. Its plans become schedules (transfer_placement.h). Since what the
// relaxation holds for equal may differ then, offloads that it gets for nothing above all, it is
// solved for a portfolio of limits on memory and penalties on offloads, and the schedule that is
// simulated fastest is kept.
#ifndef STOWAGE_SOLVER_ALGORITHMS_POFO_POFO_H_
#define STOWAGE_SOLVER_ALGORITHMS_POFO_POFO_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "solver/algorithms/solver.h"
#include "solver/model/instance.h"
#include "solver/model/schedule.h"

namespace stowage {

std::unique_ptr<Solver> MakePofo();

// What became of one budget.
struct PofoOutcome {
  double seconds = std::numeric_limits<double>::infinity();  // of `schedule`
  Schedule schedule;                           // the fastest found; no operations: none
  std::optional<double> relaxed_lost_seconds;  // of the best relaxed plan for the whole budget,
                                               // where one was found; see RelaxedPlan
};

// How far to go: one relaxed plan and its schedule, or the portfolio.
enum class PofoExtent { kOnePlan, kPortfolio };

// Errors: CANCELLED once context.stop is set.
absl::StatusOr<PofoOutcome> SolvePofo(const Instance& instance, int64_t memory_bytes,
                                      PofoExtent extent, const SolveContext& context);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_POFO_POFO_H_
