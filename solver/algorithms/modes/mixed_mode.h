// Mixed Mode: the chain as sub-sequences, each in eager or in graph mode, each with a share of the
// memory within which it is rematerialized as fast as can be (Tang et al., "Boosting
// Rematerialization Training via Execution Mode Splitting Modeling on Convex Optimized Dynamic
// Programming"; its open ends are closed in mode_tables.h, mixed_splits.h, convex_splits.h and
// split_certificate.h).
//
// Where everything fits in the fastest modes that is the answer. Otherwise memory is counted in
// slots as in rotor.h: rounded to nearest, a little beyond the budget, and the highest level whose
// schedule fits in bytes wins. Where the first level's does not the recurrence in full, unless that
// is too much work, says what the levels below have; where none fits rotor makes the modes of the
// last one fit. A chain without graph mode is rotor's.
#ifndef STOWAGE_SOLVER_ALGORITHMS_MODES_MIXED_MODE_H_
#define STOWAGE_SOLVER_ALGORITHMS_MODES_MIXED_MODE_H_

#include <memory>

#include "solver/algorithms/solver.h"

namespace stowage {

// By convexity, O(N log N log M) a step of some 20, with a certificate by duality, O(N^2 M); after
// the tables of rotor, O(N^3 M) at most.
std::unique_ptr<Solver> MakeMixedMode();
// The recurrence in full, O(N^2 M^2) after the tables.
std::unique_ptr<Solver> MakeMixedModeExact();

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_MODES_MIXED_MODE_H_
