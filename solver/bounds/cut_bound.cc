// A lower bound on the makespan, from the cuts of a chain and the fates of the values at them
// (chain_cuts.h).
//
// Constraints on the fates: the values that leave fit into host memory, and the values that do not
// stay free at least the excess of the cut, which is the sum of all values plus the operation's own
// need minus device memory. With fixed fates the makespan is at least
//
//   max(compute before, OFFLOADs) + operation + max(compute after, PREFETCHes)
//
// Compute after includes the forwards that run again. The OFFLOADs run one after another, none
// before its value is ready. The PREFETCHes run one after another, each followed by the backwards
// that need it. The minimum over all fates that satisfy the constraints bounds every schedule from
// below, and so does the maximum of that over all cuts.
//
// Computation: the minimum over fates is a branch-and-bound (CutBound), whose relaxation lets parts
// of values leave or run again. CutSearch chooses the cuts. Both may stop early; the result stays a
// bound.
#include "solver/bounds/cut_bound.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "solver/base/checked_math.h"
#include "solver/bounds/chain_cuts.h"

namespace stowage {
namespace {

// The bound of one cut: the minimum over fates. Branch-and-bound decides the fates one value at a
// time. The relaxation for the undecided values lets fractions of a value run again or leave.
class CutBound {
 public:
  CutBound(const ChainCuts& chain_cuts, const Cut& cut);

  // The relaxation for all values. Infinite if no fates satisfy the constraints. O(stages).
  double Fluid() const { return Least(fates_).seconds; }
  // Best-first branch-and-bound with whole values. Decrements `decisions` for each branch and stops
  // at 0; the least estimate among the open nodes is still a lower bound. O(stages) per decision.
  double Whole(int64_t* decisions) const;

 private:
  using Fates = std::vector<uint8_t>;  // by value

  // The sums over the decided fates. If x bytes of the undecided values leave as well, the OFFLOADs
  // end no earlier than
  //   offload_line_seconds + x * seconds per byte.
  // Proof, for every k: with U the bytes of the undecided values below k, at least x - U of the x
  // bytes belong to values from k on. Their OFFLOADs and those of the decided values from k on run
  // one after another, none before value k is ready. If no value from k on leaves, the term is at
  // most before_seconds. The same holds for PREFETCHes.
  struct Tally {
    int64_t need_bytes = 0;  // the undecided values must free this much
    int64_t room_bytes = 0;  // this much of them may leave; negative: the host is too small
    double before_seconds = 0;
    double after_seconds = 0;     // compute after the cut
    double prefetch_seconds = 0;  // PREFETCHes and the backwards after them
    double offload_line_seconds = -kInfiniteSeconds;
    double prefetch_line_seconds = -kInfiniteSeconds;
  };
  // A mix of the relaxation: all cheaper values and a part of `value` run again, the rest leaves.
  struct Segment {
    int value = -1;
    double need_bytes = 0;  // after the cheaper values
    double rerun_seconds = 0;
    double min_bytes = 0;  // range of the bytes that leave
    double max_bytes = 0;
  };
  struct Estimate {
    double seconds = kInfiniteSeconds;
    double host_bytes = 0;  // bytes of undecided values that leave
    int open = -1;          // a value of which only a part has a fate; -1: exact
  };
  struct Node {
    Estimate estimate;
    Fates fates;
  };

  // The values in the order of their stages; the last one is read by the cut.
  int count() const { return cut_.values + 1; }
  const ValueAtCut& value(int k) const { return k == cut_.values ? read_ : chain_cuts_.value(k); }
  Tally AddUp(const Fates& fates) const;
  double Seconds(const Tally& tally, double rerun_seconds, double host_bytes) const;
  Estimate Least(const Fates& fates) const;
  Estimate LeastOfMixes(const Tally& tally, const Fates& fates) const;
  void Consider(const Tally& tally, const Segment& segment, Estimate* best) const;
  int LastToLeave(const Fates& fates, double bytes) const;
  Fates Decided(const Fates& fates, int k, Fate fate) const;

  const ChainCuts& chain_cuts_;
  const Cut cut_;
  const ValueAtCut read_;
  std::vector<int> cheapest_first_;
  Fates fates_;
};

CutBound::CutBound(const ChainCuts& chain_cuts, const Cut& cut)
    : chain_cuts_(chain_cuts), cut_(cut), read_(chain_cuts.ReadByCut(cut.stage - 1)) {
  const int read = cut.values;
  fates_.reserve(count());
  for (int k = 0; k <= read; ++k) fates_.push_back(value(k).fates);
  cheapest_first_.reserve(count());
  for (const int k : chain_cuts.cheapest_first()) {
    if (k < read) cheapest_first_.push_back(k);
  }
  if (read_.fates == kStays) return;
  const auto dearer = std::partition_point(
      cheapest_first_.begin(), cheapest_first_.end(),
      [this](int k) { return value(k).rerun_seconds_a_byte <= read_.rerun_seconds_a_byte; });
  cheapest_first_.insert(dearer, read);
}

CutBound::Tally CutBound::AddUp(const Fates& fates) const {
  const double offload = chain_cuts_.offload_seconds_a_byte();
  const double prefetch = chain_cuts_.prefetch_seconds_a_byte();
  Tally tally{.need_bytes = cut_.excess_bytes,
              .room_bytes = chain_cuts_.host_bytes(),
              .after_seconds = cut_.after_seconds};
  double offload_seconds = 0;
  int64_t undecided_bytes = 0;
  for (int k = 0; k < count(); ++k) {
    const ValueAtCut& v = value(k);
    if (fates[k] == kRunsAgain) {
      tally.need_bytes -= v.bytes;
      tally.after_seconds += v.rerun_seconds;
    }
    if ((fates[k] & kLeaves) == 0) continue;
    const auto below = static_cast<double>(undecided_bytes);
    tally.offload_line_seconds =
        std::max(tally.offload_line_seconds, v.ready_seconds - below * offload);
    tally.prefetch_line_seconds =
        std::max(tally.prefetch_line_seconds, v.rest_seconds - below * prefetch);
    if (fates[k] != kLeaves) {
      undecided_bytes += v.bytes;
      continue;
    }
    tally.need_bytes -= v.bytes;
    tally.room_bytes -= v.bytes;
    offload_seconds = std::max(offload_seconds, v.ready_seconds) + v.offload_seconds;
    tally.prefetch_seconds = std::max(tally.prefetch_seconds, v.rest_seconds) + v.prefetch_seconds;
    tally.offload_line_seconds += v.offload_seconds;
    tally.prefetch_line_seconds += v.prefetch_seconds;
  }
  tally.before_seconds = std::max(cut_.before_seconds, offload_seconds);
  tally.room_bytes = std::min(tally.room_bytes, undecided_bytes);
  return tally;
}

double CutBound::Seconds(const Tally& tally, double rerun_seconds, double host_bytes) const {
  const double offloads =
      tally.offload_line_seconds + host_bytes * chain_cuts_.offload_seconds_a_byte();
  const double prefetches =
      tally.prefetch_line_seconds + host_bytes * chain_cuts_.prefetch_seconds_a_byte();
  return std::max(tally.before_seconds, offloads) + cut_.operation_seconds +
         std::max({tally.after_seconds + rerun_seconds, tally.prefetch_seconds, prefetches});
}

CutBound::Estimate CutBound::Least(const Fates& fates) const {
  const Tally tally = AddUp(fates);
  if (tally.room_bytes < 0) return {};
  if (tally.need_bytes > 0) return LeastOfMixes(tally, fates);
  return {.seconds = tally.before_seconds + cut_.operation_seconds +
                     std::max(tally.after_seconds, tally.prefetch_seconds)};
}

// The minimum of the relaxation. Starts with everything leaving and converts bytes to running
// again, the cheapest values first. The time is a convex function along this path, so the minimum
// is in the first segment whose end is not lower than the lowest so far, or in the segment before
// it.
CutBound::Estimate CutBound::LeastOfMixes(const Tally& tally, const Fates& fates) const {
  Estimate best;
  int64_t need = tally.need_bytes;
  if (need <= tally.room_bytes) {
    best.host_bytes = static_cast<double>(need);
    best.seconds = Seconds(tally, 0, best.host_bytes);
  }
  double lowest_end = best.seconds;
  double rerun_seconds = 0;
  Segment before;
  for (size_t i = 0; i < cheapest_first_.size() && need > 0; ++i) {
    const int k = cheapest_first_[i];
    if (fates[k] == kRunsAgain || (fates[k] & kRunsAgain) == 0) continue;
    const ValueAtCut& v = value(k);
    Segment segment{.value = k,
                    .need_bytes = static_cast<double>(need),
                    .rerun_seconds = rerun_seconds,
                    .max_bytes = static_cast<double>(std::min(need, tally.room_bytes))};
    const int64_t part = std::min(need, v.bytes);
    need -= part;
    rerun_seconds += v.rerun_seconds_a_byte * static_cast<double>(part);
    if (need > tally.room_bytes) continue;
    segment.min_bytes = static_cast<double>(need);
    const double end = Seconds(tally, rerun_seconds, segment.min_bytes);
    if (end >= lowest_end || need == 0) Consider(tally, segment, &best);
    if (end >= lowest_end) break;
    lowest_end = end;
    before = segment;
  }
  if (before.value >= 0) Consider(tally, before, &best);
  if (best.open < 0) best.open = LastToLeave(fates, best.host_bytes);
  return best;
}

// The time along a segment is piecewise linear: its minimum is at an end or where two lines cross.
void CutBound::Consider(const Tally& tally, const Segment& segment, Estimate* best) const {
  const double slope = value(segment.value).rerun_seconds_a_byte;
  const auto try_bytes = [&](double bytes) {
    bytes = std::clamp(bytes, segment.min_bytes, segment.max_bytes);
    const double rerun = segment.rerun_seconds + slope * (segment.need_bytes - bytes);
    const double seconds = Seconds(tally, rerun, bytes);
    if (seconds < best->seconds) *best = {seconds, bytes, segment.value};
  };
  try_bytes(segment.min_bytes);
  try_bytes(segment.max_bytes);
  if (segment.min_bytes == segment.max_bytes) return;
  const double offload = chain_cuts_.offload_seconds_a_byte();
  const double prefetch = chain_cuts_.prefetch_seconds_a_byte();
  const double computing = tally.after_seconds + segment.rerun_seconds + slope * segment.need_bytes;
  try_bytes((tally.before_seconds - tally.offload_line_seconds) / offload);
  try_bytes((tally.prefetch_seconds - tally.prefetch_line_seconds) / prefetch);
  try_bytes((computing - tally.prefetch_line_seconds) / (prefetch + slope));
  if (slope > 0) try_bytes((computing - tally.prefetch_seconds) / slope);
}

// The last undecided value that leaves when `bytes` leave in ascending order of stages: the value
// to branch on if no value is split between running again and leaving.
int CutBound::LastToLeave(const Fates& fates, double bytes) const {
  int last = -1;
  for (int k = 0; k < count() && bytes > 0; ++k) {
    if (fates[k] == kLeaves || (fates[k] & kLeaves) == 0) continue;
    last = k;
    bytes -= static_cast<double>(value(k).bytes);
  }
  return last;
}

// Breaks the symmetry of interchangeable values. The lower one is ready earlier and needed later,
// so some optimum has the lowest of them leave, the next run again and the highest stay. Deciding
// one value therefore restricts the fates of the others.
CutBound::Fates CutBound::Decided(const Fates& fates, int k, Fate fate) const {
  Fates decided = fates;
  decided[k] = fate;
  const uint8_t below = fate == kLeaves ? kLeaves : kLeavesOrRunsAgain;
  const uint8_t above = fate == kStays ? kStays : kRunsAgainOrStays;
  for (int i = 0; i < cut_.values; ++i) {
    if (i == k || !value(i).IsLike(value(k))) continue;
    if (i < k && fate != kStays && (fates[i] & below) != 0) decided[i] &= below;
    if (i > k && fate != kLeaves && (fates[i] & above) != 0) decided[i] &= above;
  }
  return decided;
}

double CutBound::Whole(int64_t* decisions) const {
  const auto later = [](const Node& a, const Node& b) {
    return a.estimate.seconds > b.estimate.seconds;
  };
  std::vector<Node> heap;
  heap.push_back({Least(fates_), fates_});
  while (!heap.empty()) {
    if (heap.front().estimate.open < 0 || *decisions == 0) break;
    --*decisions;
    std::pop_heap(heap.begin(), heap.end(), later);
    const Node node = std::move(heap.back());
    heap.pop_back();
    const int open = node.estimate.open;
    for (const Fate fate : {kStays, kRunsAgain, kLeaves}) {
      if ((node.fates[open] & fate) == 0) continue;
      Node next{{}, Decided(node.fates, open, fate)};
      next.estimate = Least(next.fates);
      if (next.estimate.seconds == kInfiniteSeconds) continue;
      heap.push_back(std::move(next));
      std::push_heap(heap.begin(), heap.end(), later);
    }
  }
  if (heap.empty()) return kInfiniteSeconds;
  return heap.front().estimate.seconds;
}

// Maximizes the bound over cuts: all cuts of a short chain, a sample of a long one.
class CutSearch {
 public:
  explicit CutSearch(const ChainCuts& chain_cuts)
      : chain_cuts_(chain_cuts), seen_(static_cast<size_t>(chain_cuts.loss()) + 1) {}

  double Seconds();

 private:
  struct BoundedCut {
    double seconds = 0;
    Cut cut;
  };

  void SampleStages();
  int LargestExcess(int first, int last, Cut (ChainCuts::*cut)(int) const) const;
  void EvaluateStage(int l);
  void Evaluate(const Cut& cut);
  double Refine();

  const ChainCuts& chain_cuts_;
  std::vector<bool> seen_;        // by stage
  std::vector<BoundedCut> cuts_;  // with a positive excess; the first has the largest bound
};

double CutSearch::Seconds() {
  SampleStages();
  return cuts_.empty() ? 0 : Refine();
}

// Evaluates every stage of a short chain. Of a long one, those with the largest excess in each of
// some even spans, since a single large stage can be the only one that exceeds the memory; then
// bisects around the best one.
void CutSearch::SampleStages() {
  constexpr int kValues = 8192;  // the fewest cuts times the length of a chain
  constexpr int kMinStages = 24;
  const int loss = chain_cuts_.loss();
  const int stages = std::max(kMinStages, kValues / loss);
  int step = (loss + stages - 1) / stages;
  for (int last = loss; last >= 1; last -= step) {
    const int first = std::max(1, last - step + 1);
    EvaluateStage(LargestExcess(first, last, &ChainCuts::Backward));
    if (chain_cuts_.host_bytes() == 0) continue;
    EvaluateStage(LargestExcess(first, last, &ChainCuts::FirstForward));
  }
  while (step > 1 && !cuts_.empty()) {
    step = (step + 1) / 2;
    const int best = cuts_.front().cut.stage;
    EvaluateStage(best - step);
    EvaluateStage(best + step);
  }
}

// The stage from `first` to `last` whose cut has the largest excess; of several the last one.
int CutSearch::LargestExcess(int first, int last, Cut (ChainCuts::*cut)(int) const) const {
  int stage = last;
  int64_t largest = (chain_cuts_.*cut)(last).excess_bytes;
  for (int l = last - 1; l >= first; --l) {
    const int64_t excess = (chain_cuts_.*cut)(l).excess_bytes;
    if (excess <= largest) continue;
    largest = excess;
    stage = l;
  }
  return stage;
}

void CutSearch::EvaluateStage(int l) {
  if (l < 1 || l > chain_cuts_.loss() || seen_[l]) return;
  seen_[l] = true;
  Evaluate(chain_cuts_.Backward(l));
  // Without a link, Backward() includes FORWARD_SAVE l, which needs at least as much as the first
  // forward.
  if (chain_cuts_.host_bytes() > 0) Evaluate(chain_cuts_.FirstForward(l));
}

void CutSearch::Evaluate(const Cut& cut) {
  if (cut.excess_bytes <= 0) return;
  const double seconds = CutBound(chain_cuts_, cut).Fluid();
  if (seconds == kInfiniteSeconds) return;
  cuts_.push_back({seconds, cut});
  if (seconds > cuts_.front().seconds) std::swap(cuts_.front(), cuts_.back());
}

// Branch-and-bound on the cuts with the largest relaxed bounds first, until the steps are used up:
// all cuts of a short chain, a few of a long one.
double CutSearch::Refine() {
  constexpr int64_t kSteps = 10'000;  // decisions times values
  constexpr int64_t kStepsOfACut = 2'500;
  std::sort(cuts_.begin(), cuts_.end(),
            [](const BoundedCut& a, const BoundedCut& b) { return a.seconds > b.seconds; });
  double best = cuts_.front().seconds;
  int64_t steps = kSteps;
  for (const BoundedCut& candidate : cuts_) {
    const int64_t steps_of_one = candidate.cut.values + 6;
    const int64_t most = std::min(steps, kStepsOfACut) / steps_of_one;
    if (most <= 0) break;
    int64_t left = most;
    const double seconds = CutBound(chain_cuts_, candidate.cut).Whole(&left);
    if (seconds != kInfiniteSeconds) best = std::max(best, seconds);
    steps -= (most - left + 1) * steps_of_one;
  }
  return best;
}

}  // namespace

double CutBoundSeconds(const Chain& chain, const Platform& platform) {
  const ChainCuts chain_cuts(chain, platform);
  return CutSearch(chain_cuts).Seconds();
}

}  // namespace stowage
