// Proves that splits of Mixed Mode (mixed_splits.h) are the fastest within a budget, or finds the
// ones that are, by weak duality. Assumes nothing about F.
//
// For any price λ >= 0 (seconds a slot), over all splits and all shares,
//   D(i) = min over j < i of  D(j) + w(j,i),   w(j,i) = min over δ of F(j,i,δ) + λδ,
// no solution within a budget of M slots takes less than D(N) - λM (the dual bound). Let D' be the
// same recurrence from the other end. If
//   D(j) + F(j,i,δ) + λδ + D'(i) - λM >= the time of the best splits so far,
// then no faster solution contains sub-sequence [j,i) with share δ.
//   1. A few passes over the tables, each at several prices, raise the dual bound and rule out all
//      but a few sub-sequences. Done if the bound reaches the best splits' time.
//   2. The recurrence in full, over the remaining sub-sequences and shares, gives the optimum. If
//      that is too much work it runs over the most promising ones only, and the result is not
//      certified.
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
  Splits splits;  // the best found; no sequences and infinite seconds: nothing fits
  // Both up to a share kTimeNoise:
  bool certified = false;    // no splits within the budget are faster than `splits`
  double bound_seconds = 0;  // none are faster than this
  int64_t remaining = 0;     // sub-sequences that step 1 did not rule out
};

// The additions that step 2 may make, about 0.1 ns each.
inline constexpr double kMaxCertificateWork = 1e10;

// Starts from `convex`, the result of FindConvexSplits() for the same tables and share. O(N^2 M)
// time a pass, of which there are three at most. Thread-safe. Errors: CANCELLED once context.stop
// is set.
absl::StatusOr<SplitCertificate> CertifySplits(const ModeTables& tables, int64_t share,
                                               const ConvexSplits& convex,
                                               const SolveContext& context,
                                               double max_work = kMaxCertificateWork);

// An upper bound on the bytes that CertifySplits() allocates, for N = `operators`.
int64_t SplitCertificateBytes(int operators, int64_t levels);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_MODES_SPLIT_CERTIFICATE_H_
