// Mixed Mode's program over splits (mixed_splits.h) by convexity, for one budget.
//
// The paper takes two things to hold: the quadrangle inequality of F in its operators, so that the
// best split moves one way with the end of the sub-sequence, and convexity of Opt and F in memory,
// so that a unimodal search finds the best share. Where Opt is convex in memory a price a slot, λ,
// takes the place of the budget, and the recurrence loses a dimension:
//   D(i) = min over j < i of  D(j) + w(j,i),   w(j,i) = min over δ of F(j,i,δ) + λδ
// which a monotone queue solves in O(N log N) unimodal searches of O(log M) (one of E and one of G,
// each of which is closer to convex than their minimum). λ is found by bisection:
// O(N log N log M) a step, some 20 steps, for the paper's O(N log N M log M).
//
// Neither assumption is true of real chains (tests/benchmark/mixed_mode_benchmark says how often
// they fail), so the queue's split is compared with a second one and a third at every position and
// with all of them at a sample of positions; where it is found wrong all splits are tried for a
// while, up to the queue's own work. split_certificate.h says how far off the result is.
#ifndef STOWAGE_SOLVER_ALGORITHMS_MODES_CONVEX_SPLITS_H_
#define STOWAGE_SOLVER_ALGORITHMS_MODES_CONVEX_SPLITS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "solver/algorithms/modes/mixed_splits.h"
#include "solver/algorithms/modes/mode_tables.h"
#include "solver/algorithms/solver.h"

namespace stowage {

struct ConvexSplits {
  Splits splits;     // none and infinitely slow where it found nothing that fits
  double price = 0;  // seconds a slot: about what a slot more is worth
  // For those who measure it.
  int64_t searches = 0;  // unimodal ones
  int wrong_splits = 0;  // positions at which another split than the queue's was better
};

// Errors: CANCELLED once context.stop is set. Requires: 0 <= share < tables.shares().
absl::StatusOr<ConvexSplits> FindConvexSplits(const ModeTables& tables, int64_t share,
                                              const SolveContext& context);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_MODES_CONVEX_SPLITS_H_
