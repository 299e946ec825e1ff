#include "solver/algorithms/modes/convex_splits.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <deque>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "solver/base/status_macros.h"

namespace stowage {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

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

// The convex program: a monotone queue over unimodal searches.
class PricedQueue {
 public:
  PricedQueue(const ModeTables& tables, int64_t share, ConvexSplits* counts)
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
  ConvexSplits& counts_;
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
  return path_.charged[static_cast<size_t>(end)] < before * (1 - kTimeNoise);
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
  const bool second_is_better = path_.charged[at] < before * (1 - kTimeNoise);
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

// What a step is about as long as; above 0.
double ScaleOf(const ModeTables& tables, int64_t share) {
  double seconds = tables.Fastest(0, tables.operators(), share);
  if (seconds == kNone) {
    seconds = 0;
    for (int i = 0; i < tables.operators(); ++i) {
      const double one = tables.Fastest(i, i + 1, share);
      if (one < kNone) seconds += one;
    }
  }
  constexpr double kLeast = 1e-200;  // no product of it becomes 0
  return seconds > 0 ? std::max(seconds, kLeast) : 1;
}

}  // namespace

// Bisection over the price: the higher, the less memory is bought.
absl::StatusOr<ConvexSplits> FindConvexSplits(const ModeTables& tables, int64_t share,
                                              const SolveContext& context) {
  ConvexSplits result{.splits = {kNone, {}}};
  PricedQueue queue(tables, share, &result);
  constexpr double kAllButFree = 1e-6;
  constexpr double kBeyondAll = 1e4;  // of the step a slot: there the least share counts
  constexpr int kBisections = 10;
  const double scale = ScaleOf(tables, share);
  double low = kAllButFree * scale / static_cast<double>(share + 1);
  double high = low;
  // By how much the cheapest path is over the budget; infinite where there is none.
  const auto over = [&](double price) -> absl::StatusOr<double> {
    ASSIGN_OR_RETURN(std::optional<std::vector<SubSequence>> path, queue.Solve(price, context));
    if (!path.has_value()) return kNone;
    return static_cast<double>(Offer(tables, *std::move(path), share, &result.splits) - share);
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
  result.price = high;
  return result;
}

}  // namespace stowage
