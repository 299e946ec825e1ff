#include "solver/algorithms/modes/convex_splits.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "solver/base/checked_math.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

// w(j,i) of a sub-sequence and the share that attains it.
struct Priced {
  double charged = kInfiniteSeconds;  // seconds + price * share
  int64_t share = 0;                  // slots
};

// The solution of the recurrence at one price.
struct PricedPath {
  std::vector<double> charged;  // D(i), by position
  std::vector<int> begin;       // the j that attains it
};

// Solves the recurrence at one price after another, by a monotone queue over unimodal searches.
// Invariant at position i: queue_ splits the ends i..N into runs, and for the ends of a run its
// `begin` is the best of the positions pushed so far.
class PricedQueue {
 public:
  PricedQueue(const ModeTables& tables, int64_t share, ConvexSplits* counts)
      : tables_(tables), count_(tables.operators()), max_share_(share), counts_(*counts) {}

  // The path with the least charge at that price; nullopt when there is none. Errors: CANCELLED.
  absl::StatusOr<std::optional<std::vector<SubSequence>>> Solve(double price,
                                                                const SolveContext& context);

 private:
  // For ends from `from` up to the next run's, the sub-sequence begins at `begin`.
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
    // Of two sub-sequences with the same end the longer one stops fitting first.
    return old == kInfiniteSeconds || Charged(begin, end) < old;
  }
  void Push(int begin);
  void LowerTo(int end, int begin);
  bool TryAllBegins(int end);
  void CheckQueue(int end);

  const ModeTables& tables_;
  const int count_;
  const int64_t max_share_;
  ConvexSplits& counts_;
  double price_ = 0;  // λ
  PricedPath path_;
  std::deque<Run> queue_;
  int try_all_until_ = 0;  // the last position at which all splits are to be tried
  int tried_all_ = 0;      // at how many positions they were
};

// Lowers *best to min over shares of cost(share) + price * share. `cost` falls; if it is convex,
// as assumed, the sum is unimodal and the ternary search finds its minimum.
template <typename Cost>
void PricedQueue::SearchMode(const Cost& cost, Priced* best) const {
  int64_t low = 0;
  int64_t high = max_share_;
  if (cost(high) == kInfiniteSeconds) return;
  // Bisect for the first share that fits.
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    const bool is_possible = cost(middle) != kInfiniteSeconds;
    (is_possible ? high : low) = is_possible ? middle : middle + 1;
  }
  // Ternary search from there; the last few shares one by one.
  high = max_share_;
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
  if (tables_.Graph(begin, end, max_share_) < kInfiniteSeconds) {
    SearchMode([&](int64_t share) { return tables_.Graph(begin, end, share); }, &best);
  }
  return best;
}

// D(end) = min(D(end), D(begin) + w(begin,end)).
void PricedQueue::LowerTo(int end, int begin) {
  const double charged = Charged(begin, end);
  double& least = path_.charged[static_cast<size_t>(end)];
  if (charged >= least) return;
  least = charged;
  path_.begin[static_cast<size_t>(end)] = begin;
}

// Evaluates the recurrence in full at `end`; true if that lowers D(end).
bool PricedQueue::TryAllBegins(int end) {
  const double before = path_.charged[static_cast<size_t>(end)];
  for (int begin = 0; begin < end; ++begin) LowerTo(end, begin);
  return path_.charged[static_cast<size_t>(end)] < before * (1 - kTimeNoise);
}

// Compares the queue's split at `end` with that of the previous position and with the newest run's,
// and at a sample of positions with all. Where another one is better the assumptions fail, and all
// splits are tried for the next positions, kMaxTriedAll times a path at most: no more work than
// the queue itself.
void PricedQueue::CheckQueue(int end) {
  constexpr int kSamples = 4;
  constexpr int kPositionsAfter = 4;
  constexpr int kMaxTriedAll = 16;
  const auto at = static_cast<size_t>(end);
  const double before = path_.charged[at];
  LowerTo(end, path_.begin[at - 1]);
  LowerTo(end, queue_.back().begin);
  bool wrong = path_.charged[at] < before * (1 - kTimeNoise);
  if (wrong) try_all_until_ = end + kPositionsAfter;
  const bool sampled = end % (1 + count_ / kSamples) == 0;
  if ((sampled || end <= try_all_until_) && tried_all_ < kMaxTriedAll) {
    ++tried_all_;
    if (TryAllBegins(end)) {
      wrong = true;
      try_all_until_ = end + kPositionsAfter;
    }
  }
  counts_.wrong_splits += wrong ? 1 : 0;
}

// Appends a run that begins sub-sequences at `begin`. By the quadrangle inequality, once it is
// better than an older run at some end it is better at all later ends.
void PricedQueue::Push(int begin) {
  if (path_.charged[static_cast<size_t>(begin)] == kInfiniteSeconds) return;
  int from = begin + 1;
  while (!queue_.empty()) {
    const Run& last = queue_.back();
    const int at = std::max(last.from, begin + 1);
    // Better than the last run from its start on: that run is never used again.
    if (Better(begin, last.begin, at)) {
      if (last.from <= begin + 1) {
        queue_.pop_back();
        break;
      }
      queue_.pop_back();
      continue;
    }
    // Bisect for the first end for which it is better.
    int low = at + 1;
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
  path_.charged.assign(static_cast<size_t>(count_) + 1, kInfiniteSeconds);
  path_.begin.assign(static_cast<size_t>(count_) + 1, 0);
  path_.charged[0] = 0;
  queue_.clear();
  queue_.push_back({0, 1});
  try_all_until_ = tried_all_ = 0;
  for (int end = 1; end <= count_; ++end) {
    RETURN_IF_ERROR(context.CheckStop());
    while (queue_.size() > 1 && queue_[1].from <= end) queue_.pop_front();
    LowerTo(end, queue_.front().begin);
    CheckQueue(end);
    if (end < count_) Push(end);
  }
  if (path_.charged.back() == kInfiniteSeconds) return std::optional<std::vector<SubSequence>>();
  // Backtrack; the shares are searched again rather than stored.
  std::vector<SubSequence> sequences;
  for (int end = count_; end > 0; end = sequences.back().begin) {
    const int begin = path_.begin[static_cast<size_t>(end)];
    const int64_t share = Search(begin, end).share;
    sequences.push_back({begin, end, tables_.FastestMode(begin, end, share), share});
  }
  std::reverse(sequences.begin(), sequences.end());
  return std::optional<std::vector<SubSequence>>(std::move(sequences));
}

// The order of magnitude of a step's time, from which prices are derived; above 0.
double ScaleOf(const ModeTables& tables, int64_t share) {
  double seconds = tables.Fastest(0, tables.operators(), share);
  if (seconds == kInfiniteSeconds) {
    seconds = 0;
    for (int i = 0; i < tables.operators(); ++i) {
      const double one = tables.Fastest(i, i + 1, share);
      if (one < kInfiniteSeconds) seconds += one;
    }
  }
  constexpr double kMin = 1e-200;  // so that its products with prices do not underflow
  return seconds > 0 ? std::max(seconds, kMin) : 1;
}

}  // namespace

// The higher the price, the fewer slots the best path takes. Raise it until the path fits the
// budget, then bisect (geometrically) for the lowest price at which it does.
absl::StatusOr<ConvexSplits> FindConvexSplits(const ModeTables& tables, int64_t share,
                                              const SolveContext& context) {
  ConvexSplits result{.splits = {kInfiniteSeconds, {}}};
  PricedQueue queue(tables, share, &result);
  constexpr double kMinPrice = 1e-6;  // of a step's time, for the whole budget
  constexpr double kMaxPrice = 1e4;   // of a step's time, a slot: paths use the least shares
  constexpr int kBisections = 10;
  const double scale = ScaleOf(tables, share);
  double low = kMinPrice * scale / static_cast<double>(share + 1);
  double high = low;
  // The slots by which the path at a price exceeds the budget; infinite: there is no path. Paths
  // that fit are offered to the result.
  const auto over = [&](double price) -> absl::StatusOr<double> {
    ASSIGN_OR_RETURN(std::optional<std::vector<SubSequence>> path, queue.Solve(price, context));
    if (!path.has_value()) return kInfiniteSeconds;
    return static_cast<double>(KeepIfFaster(tables, *std::move(path), share, &result.splits) -
                               share);
  };
  ASSIGN_OR_RETURN(double excess, over(high));
  while (excess > 0 && excess < kInfiniteSeconds && high < kMaxPrice * scale) {
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
