// POFO (NeurIPS 2021): recomputation and offloading chosen together, with whole transfers.
//
// The relaxed program (pofo_program.h) runs twice for a budget. A coarse run comes first; its best
// schedule bounds the recomputation that the fine run has to consider. Each plan becomes a schedule
// (transfers/transfer_placement.h), which the simulator times. Plans of equal relaxed makespan may
// differ as schedules, mostly by offloads that are free in the relaxation. So the program is solved
// for a portfolio of memory limits (1 .. 0.7 of the budget) and offload penalties, and the fastest
// schedule of all is kept.
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

// The result for one budget.
struct PofoOutcome {
  double seconds = std::numeric_limits<double>::infinity();  // simulated makespan of `schedule`
  Schedule schedule;  // the fastest found; no operations: nothing fits
  // RelaxedPlan::lost_seconds of the best plan for the whole budget; nullopt: no plan was found.
  std::optional<double> relaxed_lost_seconds;
};

// How much of the portfolio to try: one plan for each guide, or all.
enum class PofoExtent { kOnePlan, kPortfolio };

// The fastest schedule found within `memory_bytes`. Never slower than rotor's schedule, nor than
// saving everything and offloading as few of the first values as make that fit. Each faster
// schedule is given to context.improved on the way. Thread-safe. Requires: memory_bytes is at most
// the instance's budget. Errors: CANCELLED once context.stop is set.
absl::StatusOr<PofoOutcome> SolvePofo(const Instance& instance, int64_t memory_bytes,
                                      PofoExtent extent, const SolveContext& context);

// The fastest schedule found that takes less than `known_seconds`, the makespan of a schedule of
// the caller; no operations where none is found. The better that schedule, the less time it takes:
// plans that lose more are pruned. Otherwise like SolvePofo().
absl::StatusOr<PofoOutcome> ImproveByPlans(const Instance& instance, int64_t memory_bytes,
                                           PofoExtent extent, double known_seconds,
                                           const SolveContext& context);
// An upper bound on the bytes that ImproveByPlans() allocates for a chain of that length.
int64_t ImproveByPlansBytes(int stages);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_POFO_POFO_H_
