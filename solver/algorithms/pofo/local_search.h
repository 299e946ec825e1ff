// Local search on whole schedules. It finds what the papers' assumptions exclude and relaxations
// cannot express: other partitions of the chain, values offloaded in the backward phase and within
// recomputed parts, copies that start later so that smaller ones go first, prefetches before the
// loss.
//
// Simulated annealing over the states and moves of search_moves.h. Each neighbour is placed and
// timed as a whole (transfers/transfer_placement.h), so every accepted state is a schedule. The
// random numbers come from a fixed seed and effort is counted in operations placed, not in time, so
// equal inputs give equal answers.
#ifndef STOWAGE_SOLVER_ALGORITHMS_POFO_LOCAL_SEARCH_H_
#define STOWAGE_SOLVER_ALGORITHMS_POFO_LOCAL_SEARCH_H_

#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "solver/algorithms/pofo/part_sequences.h"
#include "solver/algorithms/solver.h"
#include "solver/model/chain.h"
#include "solver/model/platform.h"
#include "solver/model/schedule.h"

namespace stowage {

struct ImproveOptions {
  int64_t memory_bytes = 0;
  int64_t effort = 0;         // operations placed; 10^7 take a second or less
  int rounds = 24;            // each begins at the best state so far
  double temperature = 5e-3;  // at the beginning of a round, as a share of the makespan
  // Borrowed. Other schedules to start from: three quarters of the rounds go to `schedule` and to
  // each of these in turn, the rest to the best of what they found.
  std::span<const Schedule> others = {};
  // Borrowed. The recomputations that parts may use; null: single stages only.
  const PartSequences* sequences = nullptr;
};

// A schedule faster than `schedule` within `options.memory_bytes`; nullopt when none is found.
// `schedule` may be any valid one; unless it consists of parts, only its transfers are changed. One
// that does not fit is repaired first, by offloading more: then any that fits is an answer.
// O(effort). Thread-safe. Errors: CANCELLED once context.stop is set.
absl::StatusOr<std::optional<Schedule>> Improve(const Chain& chain, const Platform& platform,
                                                const Schedule& schedule,
                                                const ImproveOptions& options,
                                                const SolveContext& context);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_POFO_LOCAL_SEARCH_H_
