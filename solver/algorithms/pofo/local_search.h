// Local search on whole schedules, for what the papers' assumptions forbid and relaxations do not
// see: other cuts of the chain, values moved in the backward phase and within parts that run again,
// copies that start later so that smaller ones go first, prefetches before the loss.
//
// A state is a chain of parts (forward_parts.h) and a choice for each gap. A move changes little of
// it; the outcome is placed and timed as a whole (transfer_placement.h), so whatever is found is a
// schedule. Worse states are accepted at first, a little and less and less (simulated annealing);
// the random numbers are a fixed sequence and the effort is counted in operations placed, so that
// equal inputs give equal answers.
#ifndef STOWAGE_SOLVER_ALGORITHMS_POFO_LOCAL_SEARCH_H_
#define STOWAGE_SOLVER_ALGORITHMS_POFO_LOCAL_SEARCH_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "solver/algorithms/pofo/part_sequences.h"
#include "solver/algorithms/solver.h"
#include "solver/model/chain.h"
#include "solver/model/platform.h"
#include "solver/model/schedule.h"

namespace stowage {

struct ImproveOptions {
  int64_t memory_bytes = 0;
  int64_t effort = 0;  // operations placed; 10^7 are a second or less
  // How parts may run again; null: only as they do already.
  const PartSequences* sequences = nullptr;
};

// A schedule faster than `schedule` within the memory; nullopt when none is found. `schedule` may
// be anything valid: where it is not made of parts, only its transfers are changed.
// Errors: CANCELLED once context.stop is set.
absl::StatusOr<std::optional<Schedule>> Improve(const Chain& chain, const Platform& platform,
                                                const Schedule& schedule,
                                                const ImproveOptions& options,
                                                const SolveContext& context);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_POFO_LOCAL_SEARCH_H_
