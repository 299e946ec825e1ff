// The bound on time. A cut is an operation of which every schedule has exactly one: the first
// forward of stage l, or BACKWARD l. While it runs, every stage k < l has run forward, and BACKWARD
// k, which needs ā^k, is to come. So value k has one of three fates:
//
// - It stays on the device as ā^k.
// - It leaves: it is on the host as ā^k. Its OFFLOAD followed a forward of stage k and so forwards
//   1..k, and it had ended when the cut's operation began, which waits for the RELEASE. Its
//   PREFETCH is listed later, so it begins when that operation has ended; and BACKWARD k+1..1 come
//   after it, since the first of them needs value k on the device, and what is live on the host
//   cannot be computed again instead.
// - It runs again: it is absent, or it is a^k. Forward k, which has run, runs once more later.
//
// Value l-1 is read by the operation, hence on the device: it stays, or it is a^(l-1) and runs
// again. A no_recompute stage does not run again; a no_offload value does not leave, and none does
// without a link; the chain's input does not run again. Those that leave fit into the host's
// memory. Those that do not stay free at least the bytes by which all values and what the operation
// needs exceed the device's memory. So the makespan is at least
//
//   max(computing before, OFFLOADs) + the operation + max(computing after, PREFETCHes)
//
// where computing after includes what runs again, the OFFLOADs of those that leave follow one
// another, none before its value is ready, and the PREFETCHes follow one another, the last before
// the backwards that wait for it. The least of this over all fates that free enough is a bound on
// every schedule, and so is the largest such over all cuts.
#include "solver/bounds/cut_bound.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

namespace stowage {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

// One fate, or several that are still possible.
enum Fate : uint8_t {
  kStays = 1,
  kRunsAgain = 2,
  kLeaves = 4,
  kRunsAgainOrStays = kRunsAgain | kStays,
  kLeavesOrRunsAgain = kLeaves | kRunsAgain,
};

// Value k, as the cuts of the stages above k + 1 see it.
struct Value {
  int64_t bytes = 0;                // that it frees unless it stays
  uint8_t fates = kStays;           // that it may have
  double rerun_seconds = 0;         // forward k
  double rerun_seconds_a_byte = 0;  // stored: what is compared must not depend on rounding
  double ready_seconds = 0;         // forwards 1..k
  double rest_seconds = 0;          // backwards k+1..1
  double offload_seconds = 0;
  double prefetch_seconds = 0;

  bool IsLike(const Value& other) const {
    return bytes == other.bytes && rerun_seconds == other.rerun_seconds && fates == other.fates;
  }
};

struct Cut {
  int stage = 0;
  int64_t excess_bytes = 0;      // that must not stay
  double before_seconds = 0;     // computing that every schedule does before the operation,
  double operation_seconds = 0;  // the operation itself,
  double after_seconds = 0;      // and after it
};

// Chain and platform, as cuts see them. Immutable.
class Outline {
 public:
  Outline(const Chain& chain, const Platform& platform);

  Cut FirstForward(int l) const;
  Cut Backward(int l) const;
  Value ReadByCut(int l) const;  // value l, as a cut of stage l + 1 sees it

  int loss() const { return static_cast<int>(values_.size()); }  // L + 1
  const Value& value(int k) const { return values_[k]; }
  const std::vector<int>& cheapest_first() const { return cheapest_first_; }
  double offload_seconds_a_byte() const { return offload_seconds_a_byte_; }
  double prefetch_seconds_a_byte() const { return prefetch_seconds_a_byte_; }
  int64_t host_bytes() const { return host_bytes_; }

 private:
  void AddLink();

  const Chain& chain_;
  const Platform& platform_;
  std::vector<double> forwards_;     // seconds of forwards 1..l
  std::vector<double> backwards_;    // seconds of backwards 1..l
  std::vector<int64_t> kept_bytes_;  // of values 0..l-1, if all stay
  std::vector<Value> values_;        // 0..L
  std::vector<int> cheapest_first_;  // values that may run again, by seconds a byte
  // No value takes less, its latency included. 0 without a link.
  double offload_seconds_a_byte_ = 0;
  double prefetch_seconds_a_byte_ = 0;
  int64_t host_bytes_ = 0;
};

Outline::Outline(const Chain& chain, const Platform& platform)
    : chain_(chain), platform_(platform), values_(chain.stages.size() + 1) {
  forwards_.resize(values_.size() + 1);
  backwards_.resize(values_.size() + 1);
  kept_bytes_.resize(values_.size() + 1);
  for (int l = 1; l <= loss(); ++l) {
    forwards_[l] = forwards_[l - 1] + chain.stage(l).forward_seconds;
    backwards_[l] = backwards_[l - 1] + chain.stage(l).backward_seconds;
    Value& read = values_[l - 1];
    read.bytes = l == 1 ? chain.input_bytes : chain.saved_bytes(l - 1);
    read.ready_seconds = forwards_[l - 1];
    read.rest_seconds = backwards_[l];
    kept_bytes_[l] = kept_bytes_[l - 1] + read.bytes;
    if (l == 1 || read.bytes == 0 || chain.stage(l - 1).no_recompute) continue;
    read.fates |= kRunsAgain;
    read.rerun_seconds = chain.stage(l - 1).forward_seconds;
    read.rerun_seconds_a_byte = read.rerun_seconds / static_cast<double>(read.bytes);
    cheapest_first_.push_back(l - 1);
  }
  std::stable_sort(cheapest_first_.begin(), cheapest_first_.end(), [this](int a, int b) {
    return values_[a].rerun_seconds_a_byte < values_[b].rerun_seconds_a_byte;
  });
  if (platform.has_link()) AddLink();
}

void Outline::AddLink() {
  const double latency = platform_.transfer_latency_seconds;
  int64_t largest = 1;
  for (int k = 0; k < loss(); ++k) {
    Value& value = values_[k];
    if (value.bytes == 0 || (k > 0 && chain_.stage(k).no_offload)) continue;
    value.fates |= kLeaves;
    const auto bytes = static_cast<double>(value.bytes);
    value.offload_seconds = latency + bytes / platform_.offload_bytes_per_second;
    value.prefetch_seconds = latency + bytes / platform_.prefetch_rate();
    largest = std::max(largest, value.bytes);
  }
  const double latency_a_byte = latency / static_cast<double>(largest);
  offload_seconds_a_byte_ = latency_a_byte + 1 / platform_.offload_bytes_per_second;
  prefetch_seconds_a_byte_ = latency_a_byte + 1 / platform_.prefetch_rate();
  host_bytes_ = platform_.host_memory_bytes > 0 ? platform_.host_memory_bytes : kMaxTotalBytes;
}

Cut Outline::FirstForward(int l) const {
  const Stage& stage = chain_.stage(l);
  const bool saves = l == loss() || stage.no_recompute;
  const int64_t added = saves ? stage.saved_bytes : stage.output_bytes;
  return {.stage = l,
          .excess_bytes =
              kept_bytes_[l] + added + stage.forward_overhead_bytes - platform_.memory_bytes,
          .before_seconds = forwards_[l - 1],
          .operation_seconds = stage.forward_seconds,
          .after_seconds = forwards_.back() - forwards_[l] + backwards_.back()};
}

Cut Outline::Backward(int l) const {
  const Stage& stage = chain_.stage(l);
  int64_t needed =
      chain_.gradient_bytes(l) + chain_.gradient_bytes(l - 1) + stage.backward_overhead_bytes;
  // Without a link only what runs again counts. The last FORWARD_SAVE l is a cut, too, then: when
  // it runs does not matter, since what runs again does so after it.
  if (host_bytes_ == 0) needed = std::max(needed, stage.forward_overhead_bytes);
  return {.stage = l,
          .excess_bytes = kept_bytes_[l] + stage.saved_bytes + needed - platform_.memory_bytes,
          .before_seconds = forwards_.back() + backwards_.back() - backwards_[l],
          .operation_seconds = stage.backward_seconds,
          .after_seconds = backwards_[l - 1]};
}

Value Outline::ReadByCut(int l) const {
  Value value = values_[l];
  value.fates &= kRunsAgainOrStays;
  value.bytes = value.fates == kStays ? 0 : value.bytes - chain_.output_bytes(l);
  if (value.bytes == 0) value.fates = kStays;
  value.rerun_seconds_a_byte =
      value.fates == kStays ? 0 : value.rerun_seconds / static_cast<double>(value.bytes);
  return value;
}

// The least time that the fates at one cut leave. Fates are decided one value at a time; what the
// undecided ones add at least is estimated as if parts of values could run again or leave.
class CutBound {
 public:
  CutBound(const Outline& outline, const Cut& cut);

  // With parts of values. Infinite when no fates free enough. O(stages).
  double Fluid() const { return Least(fates_).seconds; }
  // With whole values: decides the most promising fates first, and counts `decisions` down. At 0 it
  // ends: the least that is estimated of what is left is a bound, too. O(stages) each.
  double Whole(int64_t* decisions) const;

 private:
  using Fates = std::vector<uint8_t>;  // by value, 0..stage-1

  // The decided fates, added up. If x bytes of the undecided values leave, too, the OFFLOADs end no
  // sooner than `offload_line_seconds` + x times the seconds a byte: at least x - U of the x belong
  // to values from k on, U being the bytes of the undecided ones below k, and those and the decided
  // ones from k on follow one another, none before value k is ready. If there are none from k on,
  // this says no more than `before_seconds`. PREFETCHes alike.
  struct Tally {
    int64_t need_bytes = 0;  // that the undecided must free
    int64_t room_bytes = 0;  // that may leave of them; negative: the decided exceed the host
    double before_seconds = 0;
    double after_seconds = 0;     // computing
    double prefetch_seconds = 0;  // and the backwards that wait
    double offload_line_seconds = -kNone;
    double prefetch_line_seconds = -kNone;
  };
  // Part of value `value` runs again, all cheaper ones do, and the rest of the need leaves.
  struct Segment {
    int value = -1;
    double need_bytes = 0;  // that the cheaper ones leave
    double rerun_seconds = 0;
    double least_bytes = 0;  // that leave
    double most_bytes = 0;
  };
  struct Estimate {
    double seconds = kNone;
    double host_bytes = 0;  // that leave of the undecided
    int open = -1;          // the value of which it takes a part; none: it is exact
  };
  struct Node {
    Estimate estimate;
    Fates fates;
  };

  const Value& value(int k) const { return k + 1 == cut_.stage ? read_ : outline_.value(k); }
  Tally AddUp(const Fates& fates) const;
  double Seconds(const Tally& tally, double rerun_seconds, double host_bytes) const;
  Estimate Least(const Fates& fates) const;
  Estimate LeastOfMixes(const Tally& tally, const Fates& fates) const;
  void Consider(const Tally& tally, const Segment& segment, Estimate* best) const;
  int LastToLeave(const Fates& fates, double bytes) const;
  Fates Decided(const Fates& fates, int k, Fate fate) const;

  const Outline& outline_;
  const Cut cut_;
  const Value read_;
  std::vector<int> cheapest_first_;
  Fates fates_;
};

CutBound::CutBound(const Outline& outline, const Cut& cut)
    : outline_(outline), cut_(cut), read_(outline.ReadByCut(cut.stage - 1)) {
  const int read = cut.stage - 1;
  fates_.reserve(cut.stage);
  for (int k = 0; k <= read; ++k) fates_.push_back(value(k).fates);
  cheapest_first_.reserve(cut.stage);
  for (const int k : outline.cheapest_first()) {
    if (k < read) cheapest_first_.push_back(k);
  }
  if (read_.fates == kStays) return;
  const auto dearer = std::partition_point(
      cheapest_first_.begin(), cheapest_first_.end(),
      [this](int k) { return value(k).rerun_seconds_a_byte <= read_.rerun_seconds_a_byte; });
  cheapest_first_.insert(dearer, read);
}

CutBound::Tally CutBound::AddUp(const Fates& fates) const {
  const double offload = outline_.offload_seconds_a_byte();
  const double prefetch = outline_.prefetch_seconds_a_byte();
  Tally tally{.need_bytes = cut_.excess_bytes,
              .room_bytes = outline_.host_bytes(),
              .after_seconds = cut_.after_seconds};
  double offload_seconds = 0;
  int64_t undecided_bytes = 0;
  for (int k = 0; k < cut_.stage; ++k) {
    const Value& v = value(k);
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
      tally.offload_line_seconds + host_bytes * outline_.offload_seconds_a_byte();
  const double prefetches =
      tally.prefetch_line_seconds + host_bytes * outline_.prefetch_seconds_a_byte();
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

// Walks from all that is needed leaving to all of it running again, cheapest first. The time is
// convex along the way, so the least is in the first segment that ends higher than it began, or in
// the one before.
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
    const Value& v = value(k);
    Segment segment{.value = k,
                    .need_bytes = static_cast<double>(need),
                    .rerun_seconds = rerun_seconds,
                    .most_bytes = static_cast<double>(std::min(need, tally.room_bytes))};
    const int64_t part = std::min(need, v.bytes);
    need -= part;
    rerun_seconds += v.rerun_seconds_a_byte * static_cast<double>(part);
    if (need > tally.room_bytes) continue;
    segment.least_bytes = static_cast<double>(need);
    const double end = Seconds(tally, rerun_seconds, segment.least_bytes);
    if (end >= lowest_end || need == 0) Consider(tally, segment, &best);
    if (end >= lowest_end) break;
    lowest_end = end;
    before = segment;
  }
  if (before.value >= 0) Consider(tally, before, &best);
  if (best.open < 0) best.open = LastToLeave(fates, best.host_bytes);
  return best;
}

// The time along a segment is made of straight lines: it is least at an end or where two cross.
void CutBound::Consider(const Tally& tally, const Segment& segment, Estimate* best) const {
  const double slope = value(segment.value).rerun_seconds_a_byte;
  const auto try_bytes = [&](double bytes) {
    bytes = std::clamp(bytes, segment.least_bytes, segment.most_bytes);
    const double rerun = segment.rerun_seconds + slope * (segment.need_bytes - bytes);
    const double seconds = Seconds(tally, rerun, bytes);
    if (seconds < best->seconds) *best = {seconds, bytes, segment.value};
  };
  try_bytes(segment.least_bytes);
  try_bytes(segment.most_bytes);
  if (segment.least_bytes == segment.most_bytes) return;
  const double offload = outline_.offload_seconds_a_byte();
  const double prefetch = outline_.prefetch_seconds_a_byte();
  const double computing = tally.after_seconds + segment.rerun_seconds + slope * segment.need_bytes;
  try_bytes((tally.before_seconds - tally.offload_line_seconds) / offload);
  try_bytes((tally.prefetch_seconds - tally.prefetch_line_seconds) / prefetch);
  try_bytes((computing - tally.prefetch_line_seconds) / (prefetch + slope));
  if (slope > 0) try_bytes((computing - tally.prefetch_seconds) / slope);
}

// The undecided value that is the last to leave if `bytes` do and the lowest go first.
int CutBound::LastToLeave(const Fates& fates, double bytes) const {
  int last = -1;
  for (int k = 0; k < cut_.stage && bytes > 0; ++k) {
    if (fates[k] == kLeaves || (fates[k] & kLeaves) == 0) continue;
    last = k;
    bytes -= static_cast<double>(value(k).bytes);
  }
  return last;
}

// Of values alike the lower one is ready sooner and awaited later. So some of the best fates let,
// among those, the lowest leave, the next run again and the highest stay: only these are tried.
CutBound::Fates CutBound::Decided(const Fates& fates, int k, Fate fate) const {
  Fates decided = fates;
  decided[k] = fate;
  const uint8_t below = fate == kLeaves ? kLeaves : kLeavesOrRunsAgain;
  const uint8_t above = fate == kStays ? kStays : kRunsAgainOrStays;
  for (int i = 0; i + 1 < cut_.stage; ++i) {
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
      if (next.estimate.seconds == kNone) continue;
      heap.push_back(std::move(next));
      std::push_heap(heap.begin(), heap.end(), later);
    }
  }
  if (heap.empty()) return kNone;
  return heap.front().estimate.seconds;
}

// Looks at all cuts of a short chain, at some of a long one.
class CutSearch {
 public:
  explicit CutSearch(const Outline& outline)
      : outline_(outline), seen_(static_cast<size_t>(outline.loss()) + 1) {}

  double Seconds();

 private:
  struct Found {
    double seconds = 0;
    Cut cut;
  };

  void LookAround();
  void Look(int l);
  void Add(const Cut& cut);
  double Refine();

  const Outline& outline_;
  std::vector<bool> seen_;    // by stage
  std::vector<Found> found_;  // the first is the best
};

double CutSearch::Seconds() {
  LookAround();
  return found_.empty() ? 0 : Refine();
}

// Evenly spaced stages, the loss among them, then ever closer to the best one.
void CutSearch::LookAround() {
  constexpr int kStages = 24;
  int step = (outline_.loss() + kStages - 1) / kStages;
  for (int l = outline_.loss(); l >= 1; l -= step) Look(l);
  while (step > 1 && !found_.empty()) {
    step = (step + 1) / 2;
    const int best = found_.front().cut.stage;
    Look(best - step);
    Look(best + step);
  }
}

void CutSearch::Look(int l) {
  if (l < 1 || l > outline_.loss() || seen_[l]) return;
  seen_[l] = true;
  Add(outline_.Backward(l));
  // Without a link Backward() counts FORWARD_SAVE l, which needs no less than the first forward.
  if (outline_.host_bytes() > 0) Add(outline_.FirstForward(l));
}

void CutSearch::Add(const Cut& cut) {
  if (cut.excess_bytes <= 0) return;
  const double seconds = CutBound(outline_, cut).Fluid();
  if (seconds == kNone) return;
  found_.push_back({seconds, cut});
  if (seconds > found_.front().seconds) std::swap(found_.front(), found_.back());
}

// With whole values the best cuts first: all cuts of a short chain, a few of a long one.
double CutSearch::Refine() {
  constexpr int64_t kSteps = 10'000;  // decisions times values
  constexpr int64_t kStepsOfACut = 2'500;
  std::sort(found_.begin(), found_.end(),
            [](const Found& a, const Found& b) { return a.seconds > b.seconds; });
  double best = found_.front().seconds;
  int64_t steps = kSteps;
  for (const Found& found : found_) {
    const int64_t steps_of_one = found.cut.stage + 5;
    const int64_t most = std::min(steps, kStepsOfACut) / steps_of_one;
    if (most <= 0) break;
    int64_t left = most;
    const double seconds = CutBound(outline_, found.cut).Whole(&left);
    if (seconds != kNone) best = std::max(best, seconds);
    steps -= (most - left + 1) * steps_of_one;
  }
  return best;
}

}  // namespace

double CutBoundSeconds(const Chain& chain, const Platform& platform) {
  const Outline outline(chain, platform);
  return CutSearch(outline).Seconds();
}

}  // namespace stowage
