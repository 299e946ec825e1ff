#include "solver/algorithms/modes/split_certificate.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "solver/base/status_macros.h"
#include "solver/kernels/min_plus.h"
#include "solver/kernels/min_sum.h"

namespace stowage {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();
// Of sums and differences of charges.
constexpr double kRounding = 1e-12;

// Sub-sequences at one price, each with the cheapest of its shares.
class PricedPairs {
 public:
  explicit PricedPairs(int count)
      : index_(count),
        charged_(index_.size()),
        to_(static_cast<size_t>(count) + 1, kNone),
        from_(to_.size(), kNone),
        begin_(to_.size()) {}

  double price = 0;

  double Charged(int begin, int end) const { return charged_[index_(begin, end - 1)]; }
  double to(int end) const { return to_[static_cast<size_t>(end)]; }
  int begin(int end) const { return begin_[static_cast<size_t>(end)]; }
  // No solution within `share` slots that has the sub-sequence takes less than this and what the
  // sub-sequence is charged. Requires: finished.
  double Rest(int begin, int end, int64_t share) const {
    const double budget = price * static_cast<double>(share) * (1 + kRounding);
    return to(begin) + from_[static_cast<size_t>(end)] - budget;
  }

  void Begin(double at_price) {
    price = at_price;
    std::fill(to_.begin(), to_.end(), kNone);
    to_[0] = 0;
  }
  // In the order of their begins.
  void Set(int begin, int end, double charged) {
    charged_[index_(begin, end - 1)] = charged;
    const double sum = to(begin) + charged;
    if (sum >= to(end)) return;
    to_[static_cast<size_t>(end)] = sum;
    begin_[static_cast<size_t>(end)] = begin;
  }
  void Finish() {
    const int count = static_cast<int>(to_.size()) - 1;
    std::fill(from_.begin(), from_.end(), kNone);
    from_.back() = 0;
    for (int begin = count - 1; begin >= 0; --begin) {
      double& least = from_[static_cast<size_t>(begin)];
      for (int end = begin + 1; end <= count; ++end) {
        least = std::min(least, Charged(begin, end) + from_[static_cast<size_t>(end)]);
      }
    }
  }

 private:
  Triangle index_;
  std::vector<double> charged_;  // by sub-sequence
  std::vector<double> to_;       // D: the least charge of all before a position,
  std::vector<double> from_;     // D': and of all behind it
  std::vector<int> begin_;       // of the sub-sequence that ends at a position on the way to it
};

// A sub-sequence that a faster solution may hold, with the shares that it may have there.
struct Kept {
  int begin = 0;
  int end = 0;
  int64_t first = 0;
  int64_t last = 0;
  double least = 0;  // no solution with it is faster than this
};

class Proof {
 public:
  Proof(const ModeTables& tables, int64_t share, const ConvexSplits& known, double most_work,
        const SolveContext& context)
      : tables_(tables),
        count_(tables.operators()),
        share_(share),
        first_price_(known.price),
        most_work_(most_work),
        context_(context),
        result_{.splits = known.splits},
        index_(count_),
        ruled_out_(index_.size()),
        cost_(tables.shares()) {}

  absl::StatusOr<SplitCertificate> Run();

 private:
  double most() const { return result_.splits.seconds * (1 - kTimeNoise); }
  bool Proved() const { return result_.bound_seconds >= most(); }

  std::optional<ShareRange> FillCost(int begin, int end);
  absl::Status PriceAll(const std::vector<double>& prices);
  std::optional<std::vector<SubSequence>> PathOf(const PricedPairs& pairs);
  absl::StatusOr<size_t> TakeBest();
  absl::Status RuleOut();
  absl::Status RaiseBound();
  absl::Status FindLeastShares();
  double LeastWith(int begin, int end) const;
  std::optional<Kept> ToKeep(int begin, int end);
  absl::StatusOr<std::vector<Kept>> FindKept();
  double WorkOf(const std::vector<Kept>& kept, double least) const;
  absl::StatusOr<bool> CutToWork(std::vector<Kept>* kept) const;
  absl::Status SolveKept();

  const ModeTables& tables_;
  const int count_;
  const int64_t share_;
  const double first_price_;
  const double most_work_;
  const SolveContext& context_;
  SplitCertificate result_;
  std::vector<PricedPairs> passes_;  // of the last pass, one a price
  Triangle index_;
  std::vector<char> ruled_out_;  // by sub-sequence: no faster solution has it
  std::vector<double> cost_;     // of the sub-sequence in work, by share
};

// Its costs, and for which shares they are of use; nullopt where it does not fit.
std::optional<ShareRange> Proof::FillCost(int begin, int end) {
  tables_.FillFastest(begin, end, cost_.data());
  return UsefulShares(cost_, static_cast<size_t>(share_) + 1);
}

// One pass over the tables for all of the prices.
absl::Status Proof::PriceAll(const std::vector<double>& prices) {
  passes_.reserve(prices.size());
  for (size_t p = 0; p < prices.size(); ++p) {
    RETURN_IF_ERROR(context_.CheckStop());
    if (p == passes_.size()) passes_.emplace_back(count_);
    passes_[p].Begin(prices[p]);
  }
  for (int begin = 0; begin < count_; ++begin) {
    for (int end = begin + 1; end <= count_; ++end) {
      RETURN_IF_ERROR(context_.CheckStop());
      std::optional<ShareRange> useful;
      if (ruled_out_[index_(begin, end - 1)] == 0) useful = FillCost(begin, end);
      for (PricedPairs& pairs : passes_) {
        double charged = kNone;
        if (useful.has_value()) {
          charged = pairs.price * static_cast<double>(useful->first) +
                    LeastAtPrice(cost_.data() + useful->first, pairs.price,
                                 useful->last - useful->first + 1);
        }
        pairs.Set(begin, end, charged);
      }
    }
  }
  for (PricedPairs& pairs : passes_) {
    RETURN_IF_ERROR(context_.CheckStop());
    pairs.Finish();
  }
  return absl::OkStatus();
}

// The cheapest one; nullopt when there is none.
std::optional<std::vector<SubSequence>> Proof::PathOf(const PricedPairs& pairs) {
  if (pairs.to(count_) == kNone) return std::nullopt;
  std::vector<SubSequence> sequences;
  for (int end = count_; end > 0; end = sequences.back().begin) {
    const int begin = pairs.begin(end);
    tables_.FillFastest(begin, end, cost_.data());
    int64_t best = 0;
    double least = kNone;
    for (int64_t share = 0; share <= share_; ++share) {
      const double charged =
          cost_[static_cast<size_t>(share)] + pairs.price * static_cast<double>(share);
      if (charged >= least) continue;
      least = charged;
      best = share;
    }
    sequences.push_back({begin, end, tables_.FastestMode(begin, end, best), best});
  }
  std::reverse(sequences.begin(), sequences.end());
  return sequences;
}

// Takes the last pass's paths where they are faster, and its highest bound; says whose that is.
absl::StatusOr<size_t> Proof::TakeBest() {
  size_t best = 0;
  double highest = -kNone;
  for (size_t p = 0; p < passes_.size(); ++p) {
    RETURN_IF_ERROR(context_.CheckStop());
    std::optional<std::vector<SubSequence>> path = PathOf(passes_[p]);
    if (path.has_value()) Offer(tables_, *std::move(path), share_, &result_.splits);
    const double charge = passes_[p].price * static_cast<double>(share_);
    const double bound = passes_[p].to(count_) - charge - kRounding * charge;
    if (bound <= highest) continue;
    highest = bound;
    best = p;
  }
  // What was ruled out takes no less than what is known.
  highest = std::min(highest, result_.splits.seconds);
  result_.bound_seconds = std::max(result_.bound_seconds, highest);
  return best;
}

// No solution with that sub-sequence takes less, by the last pass.
double Proof::LeastWith(int begin, int end) const {
  double least = 0;
  for (const PricedPairs& pairs : passes_) {
    least = std::max(least, pairs.Rest(begin, end, share_) + pairs.Charged(begin, end));
  }
  return least;
}

absl::Status Proof::RuleOut() {
  for (int begin = 0; begin < count_; ++begin) {
    RETURN_IF_ERROR(context_.CheckStop());
    for (int end = begin + 1; end <= count_; ++end) {
      char& out = ruled_out_[index_(begin, end - 1)];
      if (out == 0 && LeastWith(begin, end) >= most()) out = 1;
    }
  }
  return absl::OkStatus();
}

// Raises the dual bound, a concave function of the price, around the convex program's price.
absl::Status Proof::RaiseBound() {
  constexpr int kPasses = 3;
  double width = 2;
  double middle = first_price_;
  for (int pass = 0; pass < kPasses; ++pass) {
    const double step = std::sqrt(width);
    RETURN_IF_ERROR(
        PriceAll({middle / width, middle / step, middle, middle * step, middle * width}));
    ASSIGN_OR_RETURN(const size_t best, TakeBest());
    if (Proved()) return absl::OkStatus();
    RETURN_IF_ERROR(RuleOut());
    middle = passes_[best].price;
    // Between the prices on both sides, unless it is the last one: then further on.
    if (best != 0 && best + 1 != passes_.size()) width = std::pow(step, 2.0 / 3);
  }
  return absl::OkStatus();
}

// The splits that take the fewest slots, of these the fastest: if they do not fit nothing does.
absl::Status Proof::FindLeastShares() {
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
  Offer(tables_, std::move(sequences), share_, &result_.splits);
  return absl::OkStatus();
}

// nullopt where no faster solution can have it.
std::optional<Kept> Proof::ToKeep(int begin, int end) {
  if (ruled_out_[index_(begin, end - 1)] != 0) return std::nullopt;
  Kept one{begin, end, 0, 0, LeastWith(begin, end)};
  if (one.least >= most()) return std::nullopt;
  const std::optional<ShareRange> useful = FillCost(begin, end);
  if (!useful.has_value()) return std::nullopt;
  std::vector<std::pair<double, double>> rests;  // and prices
  for (const PricedPairs& pairs : passes_) {
    rests.emplace_back(pairs.Rest(begin, end, share_), pairs.price);
  }
  const auto worth = [&](int64_t share) {
    const double seconds = cost_[static_cast<size_t>(share)];
    return std::all_of(rests.begin(), rests.end(), [&](const auto& rest) {
      return rest.first + (seconds + rest.second * static_cast<double>(share)) < most();
    });
  };
  one.first = static_cast<int64_t>(useful->first);
  one.last = static_cast<int64_t>(useful->last);
  while (one.first <= one.last && !worth(one.first)) ++one.first;
  while (one.last > one.first && !worth(one.last)) --one.last;
  if (one.first > one.last) return std::nullopt;
  return one;
}

// In the order of their begins.
absl::StatusOr<std::vector<Kept>> Proof::FindKept() {
  std::vector<Kept> kept;
  for (int begin = 0; begin < count_; ++begin) {
    for (int end = begin + 1; end <= count_; ++end) {
      RETURN_IF_ERROR(context_.CheckStop());
      const std::optional<Kept> one = ToKeep(begin, end);
      if (one.has_value()) kept.push_back(*one);
    }
  }
  return kept;
}

// Of those with which a solution may take less than `least`, or just that.
double Proof::WorkOf(const std::vector<Kept>& kept, double least) const {
  double work = 0;
  for (const Kept& one : kept) {
    if (one.least > least) continue;
    work += static_cast<double>(one.last - one.first + 1) * static_cast<double>(share_ + 1);
  }
  return work;
}

// The cheapest of them as far as they are no more than so much work; whether these are all.
absl::StatusOr<bool> Proof::CutToWork(std::vector<Kept>* kept) const {
  if (WorkOf(*kept, kNone) <= most_work_) return true;
  double low = 0;
  double high = most();
  constexpr int kBisections = 40;
  for (int i = 0; i < kBisections; ++i) {
    RETURN_IF_ERROR(context_.CheckStop());
    const double middle = low + (high - low) / 2;
    (WorkOf(*kept, middle) <= most_work_ ? low : high) = middle;
  }
  if (WorkOf(*kept, low) > most_work_) {
    kept->clear();
  } else {
    std::erase_if(*kept, [low](const Kept& one) { return one.least > low; });
  }
  return false;
}

// The recurrence in full over what is left.
absl::Status Proof::SolveKept() {
  ASSIGN_OR_RETURN(std::vector<Kept> kept, FindKept());
  result_.kept = static_cast<int64_t>(kept.size());
  ASSIGN_OR_RETURN(result_.certified, CutToWork(&kept));
  std::vector<std::vector<int>> begins(static_cast<size_t>(count_) + 1);
  BudgetRows rows(count_, tables_.shares());
  for (const Kept& one : kept) {
    tables_.FillFastest(one.begin, one.end, cost_.data());
    begins[static_cast<size_t>(one.end)].push_back(one.begin);
    RETURN_IF_ERROR(LowerRow(rows.row(one.begin), cost_, static_cast<size_t>(one.first),
                             static_cast<size_t>(one.last), static_cast<size_t>(share_) + 1,
                             context_, rows.row(one.end)));
  }
  if (rows.row(count_)[share_] < result_.splits.seconds) {
    const auto begins_of = [&begins](int end) { return begins[static_cast<size_t>(end)]; };
    ASSIGN_OR_RETURN(std::optional<Splits> splits,
                     TraceSplits(tables_, rows, share_, begins_of, context_));
    if (splits.has_value()) {
      Offer(tables_, std::move(splits->sequences), share_, &result_.splits);
    }
  }
  if (result_.certified) result_.bound_seconds = result_.splits.seconds;
  return absl::OkStatus();
}

absl::StatusOr<SplitCertificate> Proof::Run() {
  RETURN_IF_ERROR(RaiseBound());
  if (result_.splits.seconds == kNone) RETURN_IF_ERROR(FindLeastShares());
  if (result_.splits.seconds == kNone || Proved()) {  // none: the least shares are too much
    result_.certified = true;
  } else {
    RETURN_IF_ERROR(SolveKept());
  }
  return std::move(result_);
}

}  // namespace

absl::StatusOr<SplitCertificate> CertifySplits(const ModeTables& tables, int64_t share,
                                               const ConvexSplits& known,
                                               const SolveContext& context, double most_work) {
  return Proof(tables, share, known, most_work, context).Run();
}

int64_t SplitCertificateBytes(int operators, int64_t levels) {
  const int64_t pairs = int64_t{operators} * (operators + 1) / 2;
  // The prices of a pass; what is ruled out; what is kept, in vectors that grow.
  constexpr auto kPair =
      static_cast<int64_t>(5 * sizeof(double) + 1 + 3 * sizeof(Kept) + 3 * sizeof(int));
  constexpr int64_t kPosition = 300;  // small vectors
  const auto shares = static_cast<size_t>(levels) + 1;
  const auto cost = static_cast<int64_t>(2 * shares * sizeof(double));
  return pairs * kPair + (operators + 2) * kPosition + cost + BudgetRows::Bytes(operators, shares);
}

}  // namespace stowage
