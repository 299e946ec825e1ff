// Mixed Mode's program over splits (mixed_splits.h) by convexity, for one budget: a heuristic that
// split_certificate.h then proves or improves.
//
// The paper assumes that F satisfies the quadrangle inequality in its operators, so that the best
// split moves one way as the end of the sub-sequence moves, and that Opt and F are convex in
// memory, so that a unimodal search finds the best share. If Opt is convex in memory, a price λ
// (seconds a slot) can take the place of the budget, and the recurrence loses a dimension:
//   D(i) = min over j < i of  D(j) + w(j,i),   w(j,i) = min over δ of F(j,i,δ) + λδ
// A monotone queue solves it with O(N log N) unimodal searches of O(log M) each (one of E and one
// of G, each of which is closer to convex than their minimum). λ is found by bisection. That is O(N
// log N log M) a price, for some 20 prices, in place of the paper's O(N log N M log M).
//
// Real chains break both assumptions (tests/benchmark/mixed_mode_benchmark counts how often). So at
// every position the queue's split is compared with two others, and at a sample of positions with
// all; where it is not the best, all splits are tried for a few positions, at a total cost of the
// order of the queue's own.
#ifndef STOWAGE_SOLVER_ALGORITHMS_MODES_CONVEX_SPLITS_H_
#define STOWAGE_SOLVER_ALGORITHMS_MODES_CONVEX_SPLITS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "solver/algorithms/modes/mixed_splits.h"
#include "solver/algorithms/modes/mode_tables.h"
#include "solver/algorithms/solver.h"

namespace stowage {

struct ConvexSplits {
  Splits splits;     // no sequences and infinite seconds: nothing was found that fits
  double price = 0;  // λ at the end, seconds a slot: about what one more slot saves
  // Statistics for benchmarks.
  int64_t searches = 0;  // unimodal searches
  int wrong_splits = 0;  // positions at which another split than the queue's was better
};

// The best splits found within `share` slots. Errors: CANCELLED once context.stop is set.
// Requires: 0 <= share < tables.shares(). Thread-safe.
absl::StatusOr<ConvexSplits> FindConvexSplits(const ModeTables& tables, int64_t share,
                                              const SolveContext& context);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_MODES_CONVEX_SPLITS_H_
