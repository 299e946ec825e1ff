#include "solver/algorithms/modes/mixed_splits.h"

#include <algorithm>
#include <numeric>

#include "solver/base/checked_math.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {}  // namespace

// Recomputes the seconds, so that all splits are compared by the same sums.
int64_t KeepIfFaster(const ModeTables& tables, std::vector<SubSequence> sequences, int64_t share,
                     Splits* best) {
  int64_t taken = 0;
  double seconds = 0;
  for (const SubSequence& one : sequences) {
    taken += one.share;
    seconds += tables.Fastest(one.begin, one.end, one.share);
  }
  if (taken <= share && seconds < best->seconds) *best = {seconds, std::move(sequences)};
  return taken;
}

// A larger share than `last` costs slots and gains nothing; a smaller one than `first` never fits.
std::optional<ShareRange> UsefulShares(const std::vector<double>& cost, size_t count) {
  if (count == 0 || cost[count - 1] == kInfiniteSeconds) return std::nullopt;
  const auto end = cost.begin() + static_cast<std::ptrdiff_t>(count);
  // Costs fall with the share, so both ends of the range are partition points.
  const double fastest = cost[count - 1];
  const auto finite = std::partition_point(
      cost.begin(), end, [](double seconds) { return seconds == kInfiniteSeconds; });
  const auto least =
      std::partition_point(finite, end, [fastest](double seconds) { return seconds > fastest; });
  return ShareRange{static_cast<size_t>(finite - cost.begin()),
                    static_cast<size_t>(least - cost.begin())};
}

BudgetRows::BudgetRows(int operators, size_t shares)
    : shares_(shares),
      values_((static_cast<size_t>(operators) + 1) * (shares + kLevelsInFront), kInfiniteSeconds) {
  std::fill(row(0), row(0) + shares, 0.0);
}

int64_t BudgetRows::Bytes(int operators, size_t shares) {
  return (int64_t{operators} + 1) *
         static_cast<int64_t>((shares + kLevelsInFront) * sizeof(double));
}

// In steps of some shares, so that a stop is noticed between them.
absl::Status LowerRow(const RowUpdate& update, const SolveContext& context) {
  constexpr size_t kSumsBetweenPolls = size_t{1} << 26;  // some ten milliseconds
  const size_t step = std::max<size_t>(1, kSumsBetweenPolls / std::max<size_t>(1, update.count));
  const size_t last = update.shares.last;
  for (size_t begin = update.shares.first; begin <= last; begin += step) {
    RETURN_IF_ERROR(context.CheckStop());
    LowerBySums({.before = update.before,
                 .cost = update.cost.data(),
                 .first = begin,
                 .last = std::min(last, begin + step - 1)},
                update.count, update.row);
  }
  return absl::OkStatus();
}

int64_t ExactSplits::WorkingBytes(int operators, int64_t levels) {
  const auto shares = static_cast<size_t>(levels) + 1;
  return BudgetRows::Bytes(operators, shares) + static_cast<int64_t>(shares * sizeof(double));
}

absl::StatusOr<ExactSplits> ExactSplits::Find(const ModeTables& tables,
                                              const SolveContext& context) {
  const int count = tables.operators();
  BudgetRows rows(count, tables.shares());
  std::vector<double> cost(tables.shares());
  // By begin, the order of the tables in memory. Row j is final when its turn comes: all
  // sub-sequences that end at j begin before it.
  for (int j = 0; j < count; ++j) {
    for (int i = j + 1; i <= count; ++i) {
      tables.FillFastest(j, i, cost.data());
      const std::optional<ShareRange> useful = UsefulShares(cost, cost.size());
      if (!useful.has_value()) continue;
      RETURN_IF_ERROR(LowerRow({.before = rows.row(j),
                                .cost = cost,
                                .shares = *useful,
                                .count = rows.shares(),
                                .row = rows.row(i)},
                               context));
    }
    context.Report(static_cast<double>(j + 1) / count);
  }
  return ExactSplits(tables, std::move(rows));
}

double ExactSplits::SecondsWithin(int64_t share) const {
  return rows_.row(tables_->operators())[share];
}

absl::StatusOr<std::optional<Splits>> ExactSplits::Within(int64_t share,
                                                          const SolveContext& context) const {
  const auto all = [](int i) {
    std::vector<int> begins(static_cast<size_t>(i));
    std::iota(begins.begin(), begins.end(), 0);
    return begins;
  };
  return TraceSplits(*tables_, rows_, share, all, context);
}

absl::StatusOr<std::optional<Splits>> TraceSplits(
    const ModeTables& tables, const BudgetRows& rows, int64_t share,
    const std::function<std::vector<int>(int)>& begins, const SolveContext& context) {
  int i = tables.operators();
  Splits splits{rows.row(i)[share], {}};
  if (splits.seconds == kInfiniteSeconds) return std::optional<Splits>();
  std::vector<double> cost(tables.shares());
  // Invariant: row(i)[share] is the time of what is still to be split, [0,i) within `share`.
  while (i > 0) {
    // The longest last sub-sequence that attains the value, with the least share that does.
    double least = kInfiniteSeconds;
    SubSequence last;
    for (const int j : begins(i)) {
      RETURN_IF_ERROR(context.CheckStop());
      tables.FillFastest(j, i, cost.data());
      for (int64_t own = 0; own <= share; ++own) {
        const double seconds = rows.row(j)[share - own] + cost[static_cast<size_t>(own)];
        if (seconds >= least) continue;
        least = seconds;
        last = {j, i, tables.FastestMode(j, i, own), own};
      }
      if (least <= rows.row(i)[share]) break;
    }
    splits.sequences.push_back(last);
    share -= last.share;
    i = last.begin;
  }
  std::reverse(splits.sequences.begin(), splits.sequences.end());
  return std::optional<Splits>(std::move(splits));
}

}  // namespace stowage
