// Mixed Mode: the chain as consecutive sub-sequences, each in eager or in graph mode, each with a
// fixed share of the memory within which it is rematerialized optimally. From Tang et al.,
// "Boosting Rematerialization Training via Execution Mode Splitting Modeling on Convex Optimized
// Dynamic Programming".
//
// Read in this order: mode_tables.h (the cost of a sub-sequence), mixed_splits.h (the recurrence),
// convex_splits.h (its fast solution), split_certificate.h (its proof), mixed_solution.h (budgets
// in bytes). Where the paper leaves something open, these headers say what is done.
// A chain without a graph mode is solved by rotor.
#ifndef STOWAGE_SOLVER_ALGORITHMS_MODES_MIXED_MODE_H_
#define STOWAGE_SOLVER_ALGORITHMS_MODES_MIXED_MODE_H_

#include <memory>

#include "solver/algorithms/solver.h"

namespace stowage {

// Solves the recurrence by convexity, O(N log N log M) for each of some 20 prices, and proves the
// result by duality, O(N^2 M); after O(N^3 M), at most, for rotor's tables. N = L+1, M slots.
std::unique_ptr<Solver> MakeMixedMode();
// Solves the recurrence in full, O(N^2 M^2) after the tables.
std::unique_ptr<Solver> MakeMixedModeExact();

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_MODES_MIXED_MODE_H_
