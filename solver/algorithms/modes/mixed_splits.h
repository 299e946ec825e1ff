// Mixed Mode's program over splits (Equation 1, corrected):
//   Opt(0,k) = 0,  Opt(i,k) = min over j < i and 0 <= δ <= k of  Opt(j, k-δ) + F(j,i,δ)
//
//   i, j   positions, 0..N; sub-sequence [j,i) is stages j+1..i (mode_tables.h)
//   k      slots for all sub-sequences up to i, the chain's input excluded
//   δ      slots for the last of them, its share
//   F      seconds of a sub-sequence in its faster mode (mode_tables.h, Equation 2)
//
// δ = 0 is allowed: sizes are rounded to slots, and a small sub-sequence may round to none.
#ifndef STOWAGE_SOLVER_ALGORITHMS_MODES_MIXED_SPLITS_H_
#define STOWAGE_SOLVER_ALGORITHMS_MODES_MIXED_SPLITS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "solver/algorithms/modes/mode_tables.h"
#include "solver/algorithms/solver.h"
#include "solver/kernels/min_sum.h"

namespace stowage {

// A partition of the chain into consecutive sub-sequences.
struct Splits {
  double seconds = 0;  // the sum of their F
  std::vector<SubSequence> sequences;
};

// Times that differ by a smaller share count as equal: tables have single precision, and rotor's
// charge a millionth to break ties.
inline constexpr double kTimeNoise = 1e-6;

// Replaces *best by `sequences` if these take at most `share` slots and are faster. Returns the
// slots that they take.
int64_t KeepIfFaster(const ModeTables& tables, std::vector<SubSequence> sequences, int64_t share,
                     Splits* best);

// Shares first..last, both included.
struct ShareRange {
  size_t first = 0;
  size_t last = 0;
};
// From the first share with a finite cost to the first one with the cost of the largest share: the
// only ones that an optimum needs. Of the first `count` entries of `cost`, which must not rise with
// the share; nullopt when all are infinite. O(log count).
std::optional<ShareRange> UsefulShares(const std::vector<double>& cost, size_t count);

// Opt(i,·), one row for each position i, with room in front of each row for the kernel (min_sum.h).
// Thread-safe for readers only.
class BudgetRows {
 public:
  // Row 0 is 0, all others are infinite.
  BudgetRows(int operators, size_t shares);
  static int64_t Bytes(int operators, size_t shares);

  double* row(int i) { return values_.data() + Offset(i); }
  const double* row(int i) const { return values_.data() + Offset(i); }
  size_t shares() const { return shares_; }

 private:
  size_t Offset(int i) const {
    return static_cast<size_t>(i) * (shares_ + kLevelsInFront) + kLevelsInFront;
  }

  size_t shares_;
  std::vector<double> values_;
};

// One sub-sequence in the recurrence: row[k] = min(row[k], before[k-δ] + cost[δ]) for all δ in
// `shares` and all k < `count`.
struct RowUpdate {
  const double* before = nullptr;   // Opt(j,·)
  const std::vector<double>& cost;  // F(j,i,·)
  ShareRange shares;
  size_t count = 0;
  double* row = nullptr;  // Opt(i,·)
};
// Polls `context`. Errors: CANCELLED once context.stop is set.
absl::Status LowerRow(const RowUpdate& update, const SolveContext& context);

// The recurrence in full, for every budget at once. O(N^2 M^2) time and O(N M) memory beside the
// tables, which it borrows. Immutable after Find(), thread-safe.
class ExactSplits {
 public:
  // Errors: CANCELLED once context.stop is set.
  static absl::StatusOr<ExactSplits> Find(const ModeTables& tables, const SolveContext& context);
  // An upper bound on the bytes that Find() allocates.
  static int64_t WorkingBytes(int operators, int64_t levels);

  // The fastest splits within `share` slots; nullopt: nothing fits. O(N^2 M) time.
  // Requires: 0 <= share < tables.shares(). Errors: CANCELLED once context.stop is set.
  absl::StatusOr<std::optional<Splits>> Within(int64_t share, const SolveContext& context) const;
  // Their seconds; infinite: nothing fits. O(1).
  double SecondsWithin(int64_t share) const;

 private:
  ExactSplits(const ModeTables& tables, BudgetRows rows)
      : tables_(&tables), rows_(std::move(rows)) {}

  const ModeTables* tables_;
  BudgetRows rows_;
};

// Backtracks from row(N)[share]: the splits that attain it. `begins(i)` lists, in ascending order,
// the begins j of the sub-sequences [j,i) that the rows were lowered by. nullopt when the value is
// infinite. Errors: CANCELLED once context.stop is set.
absl::StatusOr<std::optional<Splits>> TraceSplits(
    const ModeTables& tables, const BudgetRows& rows, int64_t share,
    const std::function<std::vector<int>(int)>& begins, const SolveContext& context);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_MODES_MIXED_SPLITS_H_
