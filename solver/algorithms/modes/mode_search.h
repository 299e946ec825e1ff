// Local search over choices of modes: which units of a chain should run in graph mode, so that
// rotor is fastest within the budget, or needs the least memory.
//
// A stage keeps one mode in all of its recomputations, so a choice made for one part of the chain
// binds others and no recurrence over parts finds the best choice. But one choice is cheap to
// evaluate: rotor's table of a few hundred slots takes a fraction of a millisecond for fifty
// stages.
//   - Up to ten free units: every choice is tried.
//   - Otherwise: the given choices, then "all units but the k with the highest memory need" for
//     several k, then hill climbing from the best: change the mode of one unit, of a run of
//     neighbours, or exchange the modes of two units.
// Deterministic: the effort is a number of evaluations, not a time.
#ifndef STOWAGE_SOLVER_ALGORITHMS_MODES_MODE_SEARCH_H_
#define STOWAGE_SOLVER_ALGORITHMS_MODES_MODE_SEARCH_H_

#include <vector>

#include "absl/status/statusor.h"
#include "solver/algorithms/solver.h"
#include "solver/model/chain.h"
#include "solver/model/instance.h"
#include "solver/model/modes.h"

namespace stowage {

// For each unit of the chain: whether it runs in graph mode, as Execution::graph().
using ModeChoice = std::vector<bool>;

// The bytes that stages first..last need by themselves when they run as one stage with the costs of
// `stage`: input, saved value, and the larger of the overheads with the gradients.
int64_t NeedBytes(const Chain& chain, const Stage& stage, int first, int last);
// The same of a unit in graph mode. Requires: unit.has_graph.
int64_t GraphNeedBytes(const Chain& chain, const Unit& unit);

// The choice with the least makespan that was found, for rotor within the instance's budget; one of
// `starts` if none is better. Takes tenths of a second for a hundred stages, seconds for hundreds.
// Evaluates nothing, and returns starts.front(), when one table needs more than
// context.working_bytes. Requires: `starts` is not empty. Thread-safe.
// Errors: CANCELLED once context.stop is set.
absl::StatusOr<ModeChoice> SearchModes(const Instance& instance,
                                       const std::vector<ModeChoice>& starts,
                                       const SolveContext& context);

// The same for the least memory in which rotor has any schedule, with fewer evaluations. Allocates
// what RotorMinimum does.
absl::StatusOr<ModeChoice> SearchLeastModes(const Instance& instance,
                                            const std::vector<ModeChoice>& starts,
                                            const SolveContext& context);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_MODES_MODE_SEARCH_H_
