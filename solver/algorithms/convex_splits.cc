#include "solver/algorithms/convex_splits.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <deque>
#include <limits>
#include <utility>
#include <vector>

#include "solver/base/status_macros.h"
#include "solver/kernels/min_plus.h"
#include "solver/kernels/min_sum.h"

namespace stowage {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();
// Differences below this share of a step's time are noise: tables have single precision, and charge
// a millionth to break ties.
constexpr double kNoise = 1e-6;
// Of sums and differences of charges.
constexpr double kRounding = 1e-12;

// A sub-sequence at a price: the cheapest of its shares.
struct Priced {
  double charged = kNone;  // seconds + price * share
  int64_t share = 0;
};

// The best split of every position at one price.
struct PricedPath {
  std::vector<double> charged;  // D, by position
  std::vector<int> begin;       // of the sub-sequence that ends there
};

double TotalSeconds(const std::vector<SubSequence>& sequences, const ModeTables& tables) {
  double seconds = 0;
  for (const SubSequence& one : sequences) seconds += tables.Fastest(one.begin, one.end, one.share);
  return seconds;
}

int64_t TotalShare(const std::vector<SubSequence>& sequences) {
  int64_t share = 0;
  for (const SubSequence& one : sequences) share += one.share;
  return share;
}

// The convex program: a monotone queue over unimodal searches.
class PricedQueue {
 public:
  PricedQueue(const ModeTables& tables, int64_t share, ConvexResult* counts)
      : tables_(tables), count_(tables.operators()), most_(share), counts_(*counts) {}

  // The cheapest path; nullopt when there is none. Errors: CANCELLED.
  absl::StatusOr<std::optional<std::vector<SubSequence>>> Solve(double price,
                                                                const SolveContext& context);

 private:
  // The queue's entry: from `from` on, sub-sequences begin at `begin`.
  struct Run {
    int begin = 0;
    int from = 0;
  };

  double Charged(int begin, int end) {
    return path_.charged[static_cast<size_t>(begin)] + Search(begin, end).charged;
  }
  Priced Search(int begin, int end);
  template <typename Cost>
  void SearchMode(const Cost& cost, Priced* best) const;
  bool Better(int begin, int than, int end) {
    const double old = Charged(than, end);
    // Longer sub-sequences stop to fit before shorter ones do.
    return old == kNone || Charged(begin, end) < old;
  }
  void Push(int begin);
  void Settle(int end, int begin);
  bool TryAll(int end);
  void Compare(int end);

  const ModeTables& tables_;
  const int count_;
  const int64_t most_;
  ConvexResult& counts_;
  double price_ = 0;
  PricedPath path_;
  std::deque<Run> queue_;
  int widened_until_ = 0;  // up to where all splits are tried
  int tried_ = 0;          // positions at which they were
};

// The least of cost(share) + price * share, cost falling and, so the assumption, convex.
template <typename Cost>
void PricedQueue::SearchMode(const Cost& cost, Priced* best) const {
  int64_t low = 0;
  int64_t high = most_;
  if (cost(high) == kNone) return;
  while (low < high) {  // the first that fits
    const int64_t middle = low + (high - low) / 2;
    (cost(middle) == kNone ? low : high) = cost(middle) == kNone ? middle + 1 : middle;
  }
  high = most_;
  const auto consider = [&](int64_t share) {
    const double charged = cost(share) + price_ * static_cast<double>(share);
    if (charged < best->charged) *best = {charged, share};
    return charged;
  };
  constexpr int64_t kScanned = 4;
  while (high - low > kScanned) {
    const int64_t third = (high - low) / 3;
    if (consider(low + third) <= consider(high - third)) {
      high -= third;
    } else {
      low += third;
    }
  }
  for (int64_t share = low; share <= high; ++share) consider(share);
}

Priced PricedQueue::Search(int begin, int end) {
  ++counts_.searches;
  Priced best;
  SearchMode([&](int64_t share) { return tables_.Eager(begin, end, share); }, &best);
  if (tables_.Graph(begin, end, most_) < kNone) {
    SearchMode([&](int64_t share) { return tables_.Graph(begin, end, share); }, &best);
  }
  return best;
}

void PricedQueue::Settle(int end, int begin) {
  const double charged = Charged(begin, end);
  double& known = path_.charged[static_cast<size_t>(end)];
  if (charged >= known) return;
  known = charged;
  path_.begin[static_cast<size_t>(end)] = begin;
}

// Whether some split is better than the one that is settled.
bool PricedQueue::TryAll(int end) {
  const double before = path_.charged[static_cast<size_t>(end)];
  for (int begin = 0; begin < end; ++begin) Settle(end, begin);
  return path_.charged[static_cast<size_t>(end)] < before * (1 - kNoise);
}

// The queue's split against two others, and at a sample of positions against all; where one of
// them is better all are tried for a while, as long as that is no more work than the queue's.
void PricedQueue::Compare(int end) {
  constexpr int kSamples = 4;
  constexpr int kWidened = 4;
  constexpr int kMostTried = 16;  // positions at which all splits are tried
  const auto at = static_cast<size_t>(end);
  const double before = path_.charged[at];
  Settle(end, path_.begin[at - 1]);
  Settle(end, queue_.back().begin);
  const bool second_is_better = path_.charged[at] < before * (1 - kNoise);
  const bool sampled = end % (1 + count_ / kSamples) == 0;
  if (second_is_better) widened_until_ = end + kWidened;
  bool wrong = second_is_better;
  if ((sampled || end <= widened_until_) && tried_ < kMostTried) {
    ++tried_;
    if (TryAll(end)) {
      wrong = true;
      widened_until_ = end + kWidened;
    }
  }
  counts_.wrong_splits += wrong ? 1 : 0;
}

// Puts position `begin` into the queue from where on it beats those before it.
void PricedQueue::Push(int begin) {
  if (path_.charged[static_cast<size_t>(begin)] == kNone) return;
  int from = begin + 1;
  while (!queue_.empty()) {
    const Run& last = queue_.back();
    const int at = std::max(last.from, begin + 1);
    if (Better(begin, last.begin, at)) {
      if (last.from <= begin + 1) {
        queue_.pop_back();
        break;
      }
      queue_.pop_back();
      continue;
    }
    int low = at + 1;  // the first end for which it is better
    int high = count_ + 1;
    while (low < high) {
      const int middle = low + (high - low) / 2;
      if (Better(begin, last.begin, middle)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    from = low;
    break;
  }
  if (from <= count_) queue_.push_back({begin, from});
}

absl::StatusOr<std::optional<std::vector<SubSequence>>> PricedQueue::Solve(
    double price, const SolveContext& context) {
  price_ = price;
  path_.charged.assign(static_cast<size_t>(count_) + 1, kNone);
  path_.begin.assign(static_cast<size_t>(count_) + 1, 0);
  path_.charged[0] = 0;
  queue_.clear();
  queue_.push_back({0, 1});
  widened_until_ = tried_ = 0;
  for (int end = 1; end <= count_; ++end) {
    RETURN_IF_ERROR(context.CheckStop());
    while (queue_.size() > 1 && queue_[1].from <= end) queue_.pop_front();
    Settle(end, queue_.front().begin);
    Compare(end);
    if (end < count_) Push(end);
  }
  if (path_.charged.back() == kNone) return std::optional<std::vector<SubSequence>>();
  std::vector<SubSequence> sequences;
  for (int end = count_; end > 0; end = sequences.back().begin) {
    const int begin = path_.begin[static_cast<size_t>(end)];
    const int64_t share = Search(begin, end).share;
    sequences.push_back({begin, end, tables_.FastestMode(begin, end, share), share});
  }
  std::reverse(sequences.begin(), sequences.end());
  return std::optional<std::vector<SubSequence>>(std::move(sequences));
}

// Every sub-sequence over all its shares, at one of the prices of a pass.
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
  double from(int begin) const { return from_[static_cast<size_t>(begin)]; }
  int begin(int end) const { return begin_[static_cast<size_t>(end)]; }

  void Begin(double at_price) {
    price = at_price;
    std::fill(to_.begin(), to_.end(), kNone);
    to_[0] = 0;
  }
  // In order of their ends.
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
        least = std::min(least, Charged(begin, end) + from(end));
      }
    }
  }

 private:
  Triangle index_;
  std::vector<double> charged_;  // by sub-sequence
  std::vector<double> to_;  // D: the least charge of all before a position, and of all behind it
  std::vector<double> from_;
  std::vector<int> begin_;
};

// A sub-sequence that a faster solution may hold, with the shares that it may have there.
struct Kept {
  int begin = 0;
  int end = 0;
  int64_t first = 0;
  int64_t last = 0;
  double least = 0;  // no solution with it is faster than this
};

class Program {
 public:
  Program(const ModeTables& tables, int64_t share, const ConvexOptions& options,
          const SolveContext& context)
      : tables_(tables), share_(share), options_(options), context_(context) {}

  absl::StatusOr<std::optional<ConvexResult>> Run() {
    RETURN_IF_ERROR(FindPrice());
    result_.convex_seconds = result_.splits.seconds;
    if (options_.certify) RETURN_IF_ERROR(Certify());
    if (result_.splits.seconds == kNone) return std::optional<ConvexResult>();
    return std::optional<ConvexResult>(std::move(result_));
  }

 private:
  // Takes it where it fits and is faster; returns by how much it is over the budget.
  double Consider(std::vector<SubSequence> sequences) {
    const double over = static_cast<double>(TotalShare(sequences) - share_);
    const double seconds = TotalSeconds(sequences, tables_);
    if (over <= 0 && seconds < result_.splits.seconds) {
      result_.splits = {seconds, std::move(sequences)};
    }
    return over;
  }

  absl::Status FindPrice();
  absl::Status PriceAll(const std::vector<double>& prices);
  std::optional<std::vector<SubSequence>> PathOf(const PricedPairs& pairs);
  absl::Status RaiseBound();
  absl::Status Certify();
  absl::StatusOr<std::vector<Kept>> KeptBy(const PricedPairs& pairs) const;
  bool CutToWork(std::vector<Kept>* kept) const;
  absl::Status SolveKept(const PricedPairs& pairs);

  const ModeTables& tables_;
  const int64_t share_;
  const ConvexOptions& options_;
  const SolveContext& context_;
  ConvexResult result_{.splits = {kNone, {}}};
  double price_ = 0;
  std::vector<PricedPairs> passes_;  // of the last pass, one a price
  size_t best_ = 0;                  // of them: that with the highest bound
};

// Bisection over the price: the higher, the less memory is bought.
absl::Status Program::FindPrice() {
  PricedQueue queue(tables_, share_, &result_);
  constexpr double kAllButFree = 1e-6;
  constexpr double kBeyondAll = 1e4;  // of the step a slot: there the least share counts
  constexpr int kBisections = 10;
  const double all = tables_.Fastest(0, tables_.operators(), share_);
  constexpr double kLeastScale = 1e-200;  // no product of it becomes 0
  const double scale = all < kNone && all > 0 ? std::max(all, kLeastScale) : 1;
  double low = kAllButFree * scale / static_cast<double>(share_ + 1);
  double high = low;
  // By how much the cheapest path is over the budget; infinite where there is none.
  const auto over = [&](double price) -> absl::StatusOr<double> {
    ASSIGN_OR_RETURN(std::optional<std::vector<SubSequence>> path, queue.Solve(price, context_));
    return path.has_value() ? Consider(*std::move(path)) : kNone;
  };
  ASSIGN_OR_RETURN(double excess, over(high));
  while (excess > 0 && excess < kNone && high < kBeyondAll * scale) {
    low = high;
    high *= 4;
    ASSIGN_OR_RETURN(excess, over(high));
  }
  for (int i = 0; i < kBisections && high > low; ++i) {
    const double middle = std::sqrt(low * high);
    ASSIGN_OR_RETURN(excess, over(middle));
    (excess > 0 ? low : high) = middle;
  }
  price_ = high;
  return absl::OkStatus();
}

// One pass over the tables for all of the prices.
absl::Status Program::PriceAll(const std::vector<double>& prices) {
  const int count = tables_.operators();
  passes_.resize(prices.size(), PricedPairs(count));
  for (size_t p = 0; p < prices.size(); ++p) passes_[p].Begin(prices[p]);
  std::vector<double> cost(tables_.shares());
  const auto shares = static_cast<size_t>(share_) + 1;
  for (int end = 1; end <= count; ++end) {
    RETURN_IF_ERROR(context_.CheckStop());
    for (int begin = 0; begin < end; ++begin) {
      RETURN_IF_ERROR(context_.CheckStop());
      tables_.FillFastest(begin, end, cost.data());
      for (PricedPairs& pairs : passes_) {
        pairs.Set(begin, end, LeastAtPrice(cost.data(), pairs.price, shares));
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
std::optional<std::vector<SubSequence>> Program::PathOf(const PricedPairs& pairs) {
  const int count = tables_.operators();
  if (pairs.to(count) == kNone) return std::nullopt;
  std::vector<SubSequence> sequences;
  std::vector<double> cost(tables_.shares());
  for (int end = count; end > 0; end = sequences.back().begin) {
    const int begin = pairs.begin(end);
    tables_.FillFastest(begin, end, cost.data());
    int64_t best = 0;
    double least = kNone;
    for (int64_t share = 0; share <= share_; ++share) {
      const double charged =
          cost[static_cast<size_t>(share)] + pairs.price * static_cast<double>(share);
      if (charged >= least) continue;
      least = charged;
      best = share;
    }
    sequences.push_back({begin, end, tables_.FastestMode(begin, end, best), best});
  }
  std::reverse(sequences.begin(), sequences.end());
  return sequences;
}

// Raises the dual bound, a concave function of the price, around the convex program's price.
absl::Status Program::RaiseBound() {
  const int count = tables_.operators();
  const int passes = count <= 400 ? 3 : 2;
  double width = 2;
  double middle = price_;
  for (int pass = 0; pass < passes; ++pass) {
    const double step = std::sqrt(width);
    RETURN_IF_ERROR(
        PriceAll({middle / width, middle / step, middle, middle * step, middle * width}));
    if (passes_[0].to(count) == kNone) return absl::OkStatus();  // with all memory nothing fits
    best_ = 0;
    double highest = -kNone;
    for (size_t p = 0; p < passes_.size(); ++p) {
      Consider(*PathOf(passes_[p]));
      const double charge = passes_[p].price * static_cast<double>(share_);
      const double bound = passes_[p].to(count) - charge - kRounding * charge;
      if (bound <= highest) continue;
      highest = bound;
      best_ = p;
    }
    result_.bound_seconds = std::max(result_.bound_seconds, highest);
    if (result_.bound_seconds >= result_.splits.seconds * (1 - kNoise)) return absl::OkStatus();
    middle = passes_[best_].price;
    // Between the prices on both sides, unless it is the last one: then further on.
    if (best_ != 0 && best_ + 1 != passes_.size()) width = std::pow(step, 0.5);
  }
  if (result_.splits.seconds < kNone) return absl::OkStatus();
  // At a price beyond all times the least share counts.
  constexpr double kBeyond = 1e6;
  std::vector<PricedPairs> kept = std::move(passes_);
  passes_.clear();
  RETURN_IF_ERROR(PriceAll({kBeyond * (1 + kept[best_].to(count))}));
  Consider(*PathOf(passes_[0]));
  passes_ = std::move(kept);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Kept>> Program::KeptBy(const PricedPairs& pairs) const {
  const double charge = pairs.price * static_cast<double>(share_) * (1 + kRounding);
  const double most = result_.splits.seconds * (1 - kNoise);
  std::vector<Kept> kept;
  std::vector<double> cost(tables_.shares());
  for (int end = 1; end <= tables_.operators(); ++end) {
    RETURN_IF_ERROR(context_.CheckStop());
    for (int begin = 0; begin < end; ++begin) {
      const double rest = pairs.to(begin) + pairs.from(end) - charge;
      Kept one{begin, end, 0, share_, rest + pairs.Charged(begin, end)};
      if (one.least >= most) continue;
      tables_.FillFastest(begin, end, cost.data());
      const auto worth = [&](int64_t share) {
        const double charged =
            cost[static_cast<size_t>(share)] + pairs.price * static_cast<double>(share);
        return rest + charged < most;
      };
      while (one.first <= one.last && !worth(one.first)) ++one.first;
      while (one.last > one.first && !worth(one.last)) --one.last;
      if (one.first <= one.last) kept.push_back(one);
    }
  }
  return kept;
}

// The cheapest of them as far as they are no more than so much work, in the order of their ends;
// whether these are all.
bool Program::CutToWork(std::vector<Kept>* kept) const {
  const auto work_of = [this](const Kept& one) {
    return static_cast<double>(one.last - one.first + 1) * static_cast<double>(share_ + 1);
  };
  double work = 0;
  for (const Kept& one : *kept) work += work_of(one);
  if (work <= options_.most_work) return true;
  std::sort(kept->begin(), kept->end(),
            [](const Kept& a, const Kept& b) { return a.least < b.least; });
  work = 0;
  const auto too_much = [&](const Kept& one) {
    return (work += work_of(one)) > options_.most_work;
  };
  kept->erase(std::find_if(kept->begin(), kept->end(), too_much), kept->end());
  std::sort(kept->begin(), kept->end(), [](const Kept& a, const Kept& b) {
    return std::pair(a.end, a.begin) < std::pair(b.end, b.begin);
  });
  return false;
}

absl::Status Program::Certify() {
  RETURN_IF_ERROR(RaiseBound());
  if (result_.splits.seconds == kNone ||  // nothing fits: the least shares are too much
      result_.bound_seconds >= result_.splits.seconds * (1 - kNoise)) {
    result_.certified = true;
    return absl::OkStatus();
  }
  return SolveKept(passes_[best_]);
}

// The recurrence in full over what is left.
absl::Status Program::SolveKept(const PricedPairs& pairs) {
  ASSIGN_OR_RETURN(std::vector<Kept> kept, KeptBy(pairs));
  result_.kept = static_cast<int64_t>(kept.size());
  result_.certified = CutToWork(&kept);
  std::vector<std::vector<int>> begins(static_cast<size_t>(tables_.operators()) + 1);
  BudgetRows rows(tables_.operators(), tables_.shares());
  std::vector<double> cost(tables_.shares());
  for (const Kept& one : kept) {
    tables_.FillFastest(one.begin, one.end, cost.data());
    begins[static_cast<size_t>(one.end)].push_back(one.begin);
    RETURN_IF_ERROR(LowerRow(rows.row(one.begin), cost, static_cast<size_t>(one.first),
                             static_cast<size_t>(one.last), static_cast<size_t>(share_) + 1,
                             context_, rows.row(one.end)));
  }
  const double found = rows.row(tables_.operators())[share_];
  if (found < result_.splits.seconds) {
    ASSIGN_OR_RETURN(std::optional<Splits> splits,
                     TraceSplits(
                         tables_, rows, share_,
                         [&begins](int i) { return begins[static_cast<size_t>(i)]; }, context_));
    if (splits.has_value()) result_.splits = *std::move(splits);
  }
  if (result_.certified) result_.bound_seconds = result_.splits.seconds;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::optional<ConvexResult>> FindConvexSplits(const ModeTables& tables,
                                                             int64_t share,
                                                             const ConvexOptions& options,
                                                             const SolveContext& context) {
  return Program(tables, share, options, context).Run();
}

int64_t ConvexSplitsBytes(int operators, int64_t levels) {
  const int64_t pairs = int64_t{operators} * (operators + 1) / 2;
  // The prices of a pass and one more; what is kept, in vectors that grow.
  constexpr auto kPair =
      static_cast<int64_t>(6 * sizeof(double) + 3 * sizeof(Kept) + 3 * sizeof(int));
  return pairs * kPair + BudgetRows::Bytes(operators, static_cast<size_t>(levels) + 1);
}

}  // namespace stowage
