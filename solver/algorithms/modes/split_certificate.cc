#include "solver/algorithms/modes/split_certificate.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "solver/algorithms/modes/priced_pairs.h"
#include "solver/base/checked_math.h"
#include "solver/base/status_macros.h"
#include "solver/kernels/min_plus.h"
#include "solver/kernels/min_sum.h"

namespace stowage {
namespace {

// A sub-sequence that a faster solution may contain, with the shares that it may have there.
struct Remaining {
  int begin = 0;
  int end = 0;
  int64_t first = 0;  // shares first..last
  int64_t last = 0;
  double least = 0;  // seconds; no solution that contains it is faster
};

// The two steps of the header, for one budget. result_.splits are the best splits so far; every
// step only improves them, raises result_.bound_seconds or rules out more sub-sequences.
class Certifier {
 public:
  Certifier(const ModeTables& tables, int64_t share, const ConvexSplits& convex, double max_work,
            const SolveContext& context)
      : tables_(tables),
        count_(tables.operators()),
        share_(share),
        first_price_(convex.price),
        max_work_(max_work),
        context_(context),
        result_{.splits = convex.splits},
        index_(count_),
        ruled_out_(index_.size()),
        cost_(tables.shares()) {}

  absl::StatusOr<SplitCertificate> Run();

 private:
  // Only splits below this count as faster than the best so far.
  double target() const { return result_.splits.seconds * (1 - kTimeNoise); }
  bool Proved() const { return result_.bound_seconds >= target(); }

  std::optional<ShareRange> FillCost(int begin, int end);
  absl::Status PriceAll(const std::vector<double>& prices);
  std::optional<std::vector<SubSequence>> PathOf(const PricedPairs& pairs);
  absl::StatusOr<size_t> UsePass();
  absl::Status RuleOut();
  absl::Status RaiseBound();
  absl::Status FindLeastShares();
  double LeastWith(int begin, int end) const;
  std::optional<Remaining> RemainingOf(int begin, int end);
  absl::StatusOr<std::vector<Remaining>> FindRemaining();
  double WorkOf(const std::vector<Remaining>& remaining, double least) const;
  absl::StatusOr<bool> CutToWork(std::vector<Remaining>* remaining) const;
  absl::Status SolveRemaining();

  const ModeTables& tables_;
  const int count_;
  const int64_t share_;
  const double first_price_;
  const double max_work_;
  const SolveContext& context_;
  SplitCertificate result_;
  std::vector<PricedPairs> pass_;  // the last pass over the tables, one element for each price
  Triangle index_;
  std::vector<char> ruled_out_;  // by sub-sequence: no faster solution contains it
  std::vector<double> cost_;     // scratch: F of one sub-sequence, by share
};

// Fills cost_ and returns the shares worth trying; nullopt when the sub-sequence does not fit.
std::optional<ShareRange> Certifier::FillCost(int begin, int end) {
  tables_.FillFastest(begin, end, cost_.data());
  return UsefulShares(cost_, static_cast<size_t>(share_) + 1);
}

// One pass over the tables, for all of the prices at once, since reading the tables dominates.
// Sub-sequences that are ruled out have infinite charges.
absl::Status Certifier::PriceAll(const std::vector<double>& prices) {
  pass_.reserve(prices.size());
  for (size_t p = 0; p < prices.size(); ++p) {
    RETURN_IF_ERROR(context_.CheckStop());
    if (p == pass_.size()) pass_.emplace_back(count_);
    pass_[p].Start(prices[p]);
  }
  for (int begin = 0; begin < count_; ++begin) {
    for (int end = begin + 1; end <= count_; ++end) {
      RETURN_IF_ERROR(context_.CheckStop());
      std::optional<ShareRange> useful;
      if (ruled_out_[index_(begin, end - 1)] == 0) useful = FillCost(begin, end);
      for (PricedPairs& pairs : pass_) {
        double charged = kInfiniteSeconds;
        if (useful.has_value()) {
          charged = pairs.price() * static_cast<double>(useful->first) +
                    LeastAtPrice(cost_.data() + useful->first, pairs.price(),
                                 useful->last - useful->first + 1);
        }
        pairs.Set(begin, end, charged);
      }
    }
  }
  for (PricedPairs& pairs : pass_) {
    RETURN_IF_ERROR(context_.CheckStop());
    pairs.Finish();
  }
  return absl::OkStatus();
}

// The path behind D(N), with its shares; nullopt when there is none.
std::optional<std::vector<SubSequence>> Certifier::PathOf(const PricedPairs& pairs) {
  if (pairs.to(count_) == kInfiniteSeconds) return std::nullopt;
  // Backtrack; the cheapest share of each sub-sequence is found again rather than stored.
  std::vector<SubSequence> sequences;
  for (int end = count_; end > 0; end = sequences.back().begin) {
    const int begin = pairs.begin(end);
    tables_.FillFastest(begin, end, cost_.data());
    int64_t best = 0;
    double least = kInfiniteSeconds;
    for (int64_t share = 0; share <= share_; ++share) {
      const double charged =
          cost_[static_cast<size_t>(share)] + pairs.price() * static_cast<double>(share);
      if (charged >= least) continue;
      least = charged;
      best = share;
    }
    sequences.push_back({begin, end, tables_.FastestMode(begin, end, best), best});
  }
  std::reverse(sequences.begin(), sequences.end());
  return sequences;
}

// Keeps the last pass's paths where they fit and are faster, and its highest dual bound. Returns
// the index of that bound's price.
absl::StatusOr<size_t> Certifier::UsePass() {
  size_t best = 0;
  double highest = -kInfiniteSeconds;
  for (size_t p = 0; p < pass_.size(); ++p) {
    RETURN_IF_ERROR(context_.CheckStop());
    std::optional<std::vector<SubSequence>> path = PathOf(pass_[p]);
    if (path.has_value()) KeepIfFaster(tables_, *std::move(path), share_, &result_.splits);
    const double charge = pass_[p].price() * static_cast<double>(share_);
    const double bound = pass_[p].to(count_) - charge - kChargeRounding * charge;
    if (bound <= highest) continue;
    highest = bound;
    best = p;
  }
  // The pass skips sub-sequences that are ruled out, so its bound holds only for solutions faster
  // than the best splits.
  highest = std::min(highest, result_.splits.seconds);
  result_.bound_seconds = std::max(result_.bound_seconds, highest);
  return best;
}

// A lower bound on solutions that contain the sub-sequence, by the last pass.
double Certifier::LeastWith(int begin, int end) const {
  double least = 0;
  for (const PricedPairs& pairs : pass_) {
    least = std::max(least, pairs.Rest(begin, end, share_) + pairs.Charged(begin, end));
  }
  return least;
}

// Marks the sub-sequences that the last pass rules out; later passes skip them.
absl::Status Certifier::RuleOut() {
  for (int begin = 0; begin < count_; ++begin) {
    RETURN_IF_ERROR(context_.CheckStop());
    for (int end = begin + 1; end <= count_; ++end) {
      char& out = ruled_out_[index_(begin, end - 1)];
      if (out == 0 && LeastWith(begin, end) >= target()) out = 1;
    }
  }
  return absl::OkStatus();
}

// Step 1 of the header. The dual bound is concave in the price, so each pass tries five prices
// around the best one so far, starting from the convex program's.
absl::Status Certifier::RaiseBound() {
  constexpr int kPasses = 3;
  double width = 2;  // the factor between the middle price and the outermost
  double middle = first_price_;
  for (int pass = 0; pass < kPasses; ++pass) {
    const double step = std::sqrt(width);
    RETURN_IF_ERROR(
        PriceAll({middle / width, middle / step, middle, middle * step, middle * width}));
    ASSIGN_OR_RETURN(const size_t best, UsePass());
    if (Proved()) return absl::OkStatus();
    RETURN_IF_ERROR(RuleOut());
    middle = pass_[best].price();
    // Narrow the range, unless the best price is at its end: then the maximum may lie beyond.
    if (best != 0 && best + 1 != pass_.size()) width = std::pow(step, 2.0 / 3);
  }
  return absl::OkStatus();
}

// The splits that take the fewest slots, and the fastest of these, by a shortest path. If they do
// not fit, nothing does.
absl::Status Certifier::FindLeastShares() {
  struct Least {
    int64_t share = INT64_MAX;
    double seconds = 0;
    SubSequence last;
  };
  std::vector<Least> least(static_cast<size_t>(count_) + 1);  // by position
  least[0].share = 0;
  for (int begin = 0; begin < count_; ++begin) {
    const Least from = least[static_cast<size_t>(begin)];
    for (int end = begin + 1; end <= count_ && from.share <= share_; ++end) {
      RETURN_IF_ERROR(context_.CheckStop());
      const std::optional<ShareRange> useful = FillCost(begin, end);
      if (!useful.has_value()) continue;
      const auto own = static_cast<int64_t>(useful->first);
      const double seconds = from.seconds + cost_[useful->first];
      Least& to = least[static_cast<size_t>(end)];
      if (std::pair(from.share + own, seconds) >= std::pair(to.share, to.seconds)) continue;
      to = {from.share + own, seconds, {begin, end, tables_.FastestMode(begin, end, own), own}};
    }
  }
  if (least.back().share > share_) return absl::OkStatus();
  std::vector<SubSequence> sequences;
  for (int end = count_; end > 0; end = sequences.back().begin) {
    sequences.push_back(least[static_cast<size_t>(end)].last);
  }
  std::reverse(sequences.begin(), sequences.end());
  KeepIfFaster(tables_, std::move(sequences), share_, &result_.splits);
  return absl::OkStatus();
}

// nullopt when no faster solution contains the sub-sequence.
std::optional<Remaining> Certifier::RemainingOf(int begin, int end) {
  if (ruled_out_[index_(begin, end - 1)] != 0) return std::nullopt;
  Remaining one{begin, end, 0, 0, LeastWith(begin, end)};
  if (one.least >= target()) return std::nullopt;
  const std::optional<ShareRange> useful = FillCost(begin, end);
  if (!useful.has_value()) return std::nullopt;
  // A share is possible if, at every price of the last pass, it leaves the bound below the target.
  std::vector<std::pair<double, double>> rests;  // Rest() and the price
  for (const PricedPairs& pairs : pass_) {
    rests.emplace_back(pairs.Rest(begin, end, share_), pairs.price());
  }
  const auto is_possible = [&](int64_t share) {
    const double seconds = cost_[static_cast<size_t>(share)];
    return std::all_of(rests.begin(), rests.end(), [&](const auto& rest) {
      return rest.first + (seconds + rest.second * static_cast<double>(share)) < target();
    });
  };
  one.first = static_cast<int64_t>(useful->first);
  one.last = static_cast<int64_t>(useful->last);
  while (one.first <= one.last && !is_possible(one.first)) ++one.first;
  while (one.last > one.first && !is_possible(one.last)) --one.last;
  if (one.first > one.last) return std::nullopt;
  return one;
}

// By growing begin, as SolveRemaining() needs them.
absl::StatusOr<std::vector<Remaining>> Certifier::FindRemaining() {
  std::vector<Remaining> remaining;
  for (int begin = 0; begin < count_; ++begin) {
    for (int end = begin + 1; end <= count_; ++end) {
      RETURN_IF_ERROR(context_.CheckStop());
      const std::optional<Remaining> one = RemainingOf(begin, end);
      if (one.has_value()) remaining.push_back(*one);
    }
  }
  return remaining;
}

// The additions that step 2 makes over those whose bound is at most `least`.
double Certifier::WorkOf(const std::vector<Remaining>& remaining, double least) const {
  double work = 0;
  for (const Remaining& one : remaining) {
    if (one.least > least) continue;
    work += static_cast<double>(one.last - one.first + 1) * static_cast<double>(share_ + 1);
  }
  return work;
}

// Drops the sub-sequences with the highest bounds until the rest is within max_work_; true when
// none has to be dropped.
absl::StatusOr<bool> Certifier::CutToWork(std::vector<Remaining>* remaining) const {
  if (WorkOf(*remaining, kInfiniteSeconds) <= max_work_) return true;
  // Bisect for the highest bound that is still within the work.
  double low = 0;
  double high = target();
  constexpr int kBisections = 40;
  for (int i = 0; i < kBisections; ++i) {
    RETURN_IF_ERROR(context_.CheckStop());
    const double middle = low + (high - low) / 2;
    (WorkOf(*remaining, middle) <= max_work_ ? low : high) = middle;
  }
  if (WorkOf(*remaining, low) > max_work_) {
    remaining->clear();
  } else {
    std::erase_if(*remaining, [low](const Remaining& one) { return one.least > low; });
  }
  return false;
}

// Step 2 of the header.
absl::Status Certifier::SolveRemaining() {
  ASSIGN_OR_RETURN(std::vector<Remaining> remaining, FindRemaining());
  result_.remaining = static_cast<int64_t>(remaining.size());
  ASSIGN_OR_RETURN(result_.certified, CutToWork(&remaining));
  std::vector<std::vector<int>> begins(static_cast<size_t>(count_) + 1);
  BudgetRows rows(count_, tables_.shares());
  for (const Remaining& one : remaining) {
    tables_.FillFastest(one.begin, one.end, cost_.data());
    begins[static_cast<size_t>(one.end)].push_back(one.begin);
    RETURN_IF_ERROR(
        LowerRow({.before = rows.row(one.begin),
                  .cost = cost_,
                  .shares = {static_cast<size_t>(one.first), static_cast<size_t>(one.last)},
                  .count = static_cast<size_t>(share_) + 1,
                  .row = rows.row(one.end)},
                 context_));
  }
  if (rows.row(count_)[share_] < result_.splits.seconds) {
    const auto begins_of = [&begins](int end) { return begins[static_cast<size_t>(end)]; };
    ASSIGN_OR_RETURN(std::optional<Splits> splits,
                     TraceSplits(tables_, rows, share_, begins_of, context_));
    if (splits.has_value()) {
      KeepIfFaster(tables_, std::move(splits->sequences), share_, &result_.splits);
    }
  }
  if (result_.certified) result_.bound_seconds = result_.splits.seconds;
  return absl::OkStatus();
}

absl::StatusOr<SplitCertificate> Certifier::Run() {
  RETURN_IF_ERROR(RaiseBound());
  if (result_.splits.seconds == kInfiniteSeconds) RETURN_IF_ERROR(FindLeastShares());
  // Still none: even the fewest slots are more than the budget, which proves that nothing fits.
  if (result_.splits.seconds == kInfiniteSeconds || Proved()) {
    result_.certified = true;
  } else {
    RETURN_IF_ERROR(SolveRemaining());
  }
  return std::move(result_);
}

}  // namespace

absl::StatusOr<SplitCertificate> CertifySplits(const ModeTables& tables, int64_t share,
                                               const ConvexSplits& convex,
                                               const SolveContext& context, double max_work) {
  return Certifier(tables, share, convex, max_work, context).Run();
}

int64_t SplitCertificateBytes(int operators, int64_t levels) {
  const int64_t pairs = int64_t{operators} * (operators + 1) / 2;
  // For each sub-sequence: five prices of a pass, ruled_out_, and the remaining ones in vectors
  // that grow to up to three times their size.
  constexpr auto kPair =
      static_cast<int64_t>(5 * sizeof(double) + 1 + 3 * sizeof(Remaining) + 3 * sizeof(int));
  constexpr int64_t kPosition = 300;  // vectors with an element for each position
  const auto shares = static_cast<size_t>(levels) + 1;
  const auto cost = static_cast<int64_t>(2 * shares * sizeof(double));
  return pairs * kPair + (operators + 2) * kPosition + cost + BudgetRows::Bytes(operators, shares);
}

}  // namespace stowage
