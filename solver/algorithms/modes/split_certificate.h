// Proves splits of Mixed Mode (mixed_splits.h) to be the fastest within a budget, or finds those
// that are, by weak duality; nothing is taken for granted about F.
//
// For any price λ >= 0 a slot, D(N) - λM with D computed over all splits and all shares,
//   D(i) = min over j < i of  D(j) + w(j,i),   w(j,i) = min over δ of F(j,i,δ) + λδ,
// is more than no solution of the budget M takes. With D' the same from the other end, a
// sub-sequence [j,i) of share δ for which D(j) + F(j,i,δ) + λδ + D'(i) - λM is not below the time
// known is in no faster solution. A few passes over the tables, each with several prices, rule out
// all but a few sub-sequences, later passes only over what is left; the recurrence in full over the
// rest gives the optimum. Where that would be too much work the cheapest of them are tried and the
// result is not certified.
#ifndef STOWAGE_SOLVER_ALGORITHMS_MODES_SPLIT_CERTIFICATE_H_
#define STOWAGE_SOLVER_ALGORITHMS_MODES_SPLIT_CERTIFICATE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "solver/algorithms/modes/convex_splits.h"
#include "solver/algorithms/modes/mixed_splits.h"
#include "solver/algorithms/modes/mode_tables.h"
#include "solver/algorithms/solver.h"

namespace stowage {

struct SplitCertificate {
  Splits splits;  // none and infinitely slow: nothing fits
  // Of what follows, but for kTimeNoise of it:
  bool certified = false;    // no splits are faster within the budget
  double bound_seconds = 0;  // none are faster than this
  int64_t kept = 0;          // sub-sequences that duality could not rule out
};

// `most_work`: sums of the recurrence in full over what is left; some 0.1 ns each.
inline constexpr double kMostCertificateWork = 1e10;

// Starts from `known` and its price. O(N^2 M) time a pass.
// Errors: CANCELLED once context.stop is set. Requires: `known` is of these tables and this share.
absl::StatusOr<SplitCertificate> CertifySplits(const ModeTables& tables, int64_t share,
                                               const ConvexSplits& known,
                                               const SolveContext& context,
                                               double most_work = kMostCertificateWork);

// An upper bound on what it allocates.
int64_t SplitCertificateBytes(int operators, int64_t levels);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_MODES_SPLIT_CERTIFICATE_H_
