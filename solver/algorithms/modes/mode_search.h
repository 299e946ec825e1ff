// A search over choices of modes: which units of a chain should run in graph mode so that it is
// rematerialized fastest within the budget, all of the memory being there for whoever is active.
//
// A stage keeps its mode throughout, so what a part of the chain chooses binds all of its
// recomputations and no recurrence over parts finds the best choice. But what one choice is worth
// rotor's table says, at a few hundred slots, in a fraction of a millisecond for networks of fifty
// stages. Where choices are few all of them are tried; otherwise the best of those given and of
// those that keep the k units that need the most out of graph mode is climbed from: single units
// change their mode, then runs of neighbours, then two units that exchange theirs.
// Deterministic: the work is counted, not timed.
#ifndef STOWAGE_SOLVER_ALGORITHMS_MODES_MODE_SEARCH_H_
#define STOWAGE_SOLVER_ALGORITHMS_MODES_MODE_SEARCH_H_

#include <vector>

#include "absl/status/statusor.h"
#include "solver/algorithms/solver.h"
#include "solver/model/chain.h"
#include "solver/model/instance.h"
#include "solver/model/modes.h"

namespace stowage {

// By unit of UnitsOf(chain): whether it runs in graph mode.
using ModeChoice = std::vector<bool>;

// The modes in which an execution of that chain runs.
ModeChoice ModesOf(const Chain& chain, const Execution& execution);

// What stages first..last need by themselves where they run as `stage`, one after the other with
// the rest of the chain.
int64_t NeedOf(const Chain& chain, const Stage& stage, int first, int last);
// Of a unit in graph mode. Requires: unit.has_graph.
int64_t NeedOf(const Chain& chain, const Unit& unit);

// The best choice found; one of `known` where nothing is better. Tenths of a second for a hundred
// stages, seconds for hundreds;
// where one table would take more than context.working_bytes nothing is tried.
// Errors: CANCELLED once context.stop is set. Requires: `known` is not empty.
absl::StatusOr<ModeChoice> SearchModes(const Instance& instance,
                                       const std::vector<ModeChoice>& known,
                                       const SolveContext& context);

// Likewise the choice in which some schedule needs the least memory. It allocates as much as
// rotor's least memory does.
absl::StatusOr<ModeChoice> SearchLeastModes(const Chain& chain,
                                            const std::vector<ModeChoice>& known,
                                            const SolveContext& context);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_MODES_MODE_SEARCH_H_
