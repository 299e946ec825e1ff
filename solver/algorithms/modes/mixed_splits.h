// Mixed Mode's program over splits (Equation 1, put right):
//
//   Opt(0,k) = 0,  Opt(i,k) = min over j < i and 0 <= δ <= k of  Opt(j, k-δ) + F(j,i,δ)
//
// with F from mode_tables.h and k what is left beside the chain's input. δ = 0 is allowed: sizes
// are rounded, and what rounds to nothing fits into nothing.
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

// The chain as sub-sequences that follow one another.
struct Splits {
  double seconds = 0;
  std::vector<SubSequence> sequences;
};

// Differences below this share of a step's time are noise: tables have single precision, and charge
// a millionth to break ties.
inline constexpr double kTimeNoise = 1e-6;

// Replaces *best by `sequences` where they fit within `share` slots and are faster. Returns how
// many slots they take.
int64_t Offer(const ModeTables& tables, std::vector<SubSequence> sequences, int64_t share,
              Splits* best);

// Shares from where costs that fall with the share begin to be finite to where they are what they
// are with all: only these are worth a try.
struct ShareRange {
  size_t first = 0;
  size_t last = 0;
};
// Of the first `count`; nullopt where none is finite.
std::optional<ShareRange> UsefulShares(const std::vector<double>& cost, size_t count);

// Opt(i,·) for every i. Not thread-safe while rows are filled.
class BudgetRows {
 public:
  // Row 0 is there, all others are infinite.
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

// LowerBySums() of one sub-sequence, polling `context` on the way. Errors: CANCELLED.
absl::Status LowerRow(const double* before, const std::vector<double>& cost, size_t first,
                      size_t last, size_t count, const SolveContext& context, double* row);

// The recurrence in full, for every budget at once. O(N^2 M^2) time, O(N M) memory beside the
// tables. Borrows them. Immutable after Find(), thread-safe.
class ExactSplits {
 public:
  // Errors: CANCELLED once context.stop is set.
  static absl::StatusOr<ExactSplits> Find(const ModeTables& tables, const SolveContext& context);
  static int64_t WorkingBytes(int operators, int64_t levels);

  // The fastest within `share` slots; nullopt where nothing fits. Requires: share is one.
  // Errors: CANCELLED once context.stop is set.
  absl::StatusOr<std::optional<Splits>> Within(int64_t share, const SolveContext& context) const;
  // Infinite where nothing fits.
  double SecondsWithin(int64_t share) const;

 private:
  ExactSplits(const ModeTables& tables, BudgetRows rows)
      : tables_(&tables), rows_(std::move(rows)) {}

  const ModeTables* tables_;
  BudgetRows rows_;
};

// Reads the splits behind row(N)[share] off rows that FillFastest()'s values were added up in;
// `begins(i)` lists the positions, ascending, from which the last sub-sequence of a state at i may
// come. nullopt where that is infinite. Errors: CANCELLED once context.stop is set.
absl::StatusOr<std::optional<Splits>> TraceSplits(
    const ModeTables& tables, const BudgetRows& rows, int64_t share,
    const std::function<std::vector<int>(int)>& begins, const SolveContext& context);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_MODES_MIXED_SPLITS_H_
