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
// while, up to the queue's own work.
//
// The certificate. For any λ >= 0, D(N) - λM with D computed over all splits and all shares is less
// than no solution of the budget M (weak duality), whatever the assumptions. With D' the same from
// the other end, a sub-sequence [j,i) of share δ for which D(j) + F(j,i,δ) + λδ + D'(i) - λM is not
// below the time found is in no faster solution. Few others are left; the recurrence in full over
// them gives the optimum. Where that would be too much work the cheapest of them are tried and the
// result is not certified.
#ifndef STOWAGE_SOLVER_ALGORITHMS_CONVEX_SPLITS_H_
#define STOWAGE_SOLVER_ALGORITHMS_CONVEX_SPLITS_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "solver/algorithms/mixed_splits.h"
#include "solver/algorithms/mode_tables.h"
#include "solver/algorithms/solver.h"

namespace stowage {

struct ConvexResult {
  Splits splits;
  bool certified = false;    // no splits are faster within the budget
  double bound_seconds = 0;  // none are faster than this
  // How the convex program alone did, for those who measure it.
  double convex_seconds = 0;  // its time of a step; infinite: it found nothing
  int64_t searches = 0;       // unimodal ones
  int wrong_splits = 0;       // positions at which another split than the queue's was better
  int64_t kept = 0;           // sub-sequences that the certificate could not rule out
};

struct ConvexOptions {
  bool certify = true;  // false: the convex program alone
  // Sums of the recurrence in full over what is left: some 0.1 ns each.
  double most_work = 1e10;
};

// nullopt: nothing fits within `share` slots; without `certify`, or the convex program found
// nothing. Errors: CANCELLED once context.stop is set. Requires: share < tables.shares().
absl::StatusOr<std::optional<ConvexResult>> FindConvexSplits(const ModeTables& tables,
                                                             int64_t share,
                                                             const ConvexOptions& options,
                                                             const SolveContext& context);

int64_t ConvexSplitsBytes(int operators, int64_t levels);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_CONVEX_SPLITS_H_
