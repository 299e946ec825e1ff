#include "solver/algorithms/rematerialization/periodic.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "solver/base/status_macros.h"
#include "solver/model/modes.h"
#include "solver/simulator/simulator.h"

namespace stowage {
namespace {

// Consecutive stages that the first sweep handles in the same way.
struct Segment {
  int first = 0;
  int last = 0;
  bool saved = false;  // saved in the first sweep, not recomputed
};

// Appends [first, last] split at its no_recompute stages, each of which becomes a saved segment.
void AppendCut(const Chain& chain, int first, int last, std::vector<Segment>* segments) {
  int begin = first;
  for (int l = first; l <= last; ++l) {
    if (!chain.stage(l).no_recompute) continue;
    if (begin < l) segments->push_back({begin, l - 1, /*saved=*/false});
    segments->push_back({l, l, /*saved=*/true});
    begin = l + 1;
  }
  if (begin <= last) segments->push_back({begin, last, /*saved=*/false});
}

// `count` segments of equal length, the last one with the remainder and the loss.
std::vector<Segment> Cut(const Chain& chain, int count) {
  std::vector<Segment> segments;
  const int stages = chain.length() / count;
  for (int i = 0; i + 1 < count; ++i) {
    AppendCut(chain, i * stages + 1, (i + 1) * stages, &segments);
  }
  segments.push_back({(count - 1) * stages + 1, chain.length() + 1, /*saved=*/true});
  return segments;
}

void Append(OperationKind kind, int stage, Schedule* schedule) {
  schedule->operations.push_back({kind, stage});
}

// Forwards of [first, last] that keep the input of `first` and the last output.
void AppendSweep(int first, int last, Schedule* schedule) {
  for (int l = first; l <= last; ++l) {
    Append(l == first ? OperationKind::kForwardCheckpoint : OperationKind::kForwardDiscard, l,
           schedule);
  }
}

void AppendBackwards(int first, int last, Schedule* schedule) {
  for (int l = last; l >= first; --l) Append(OperationKind::kBackward, l, schedule);
}

// The last stage of the first half of [first, last], which has two stages at least: that with the
// smallest output within the middle half, of equal ones the nearest to the middle.
int LastOfHalf(const Chain& chain, int first, int last) {
  const int middle = first + (last - first) / 2;
  const int reach = (last - first) / 4;
  int best = middle;
  for (int distance = 1; distance <= reach; ++distance) {
    for (const int l : {middle - distance, middle + distance}) {
      if (chain.stage(l).output_bytes < chain.stage(best).output_bytes) best = l;
    }
  }
  return best;
}

// Recomputes a segment from its input, and runs its backwards: parts of more than `leaf` stages
// half by half, the second half first.
void AppendRecomputed(const Chain& chain, const Segment& part, int leaf, Schedule* schedule) {
  const int first = part.first;
  const int last = part.last;
  if (last - first < leaf) {
    for (int l = first; l <= last; ++l) Append(OperationKind::kForwardSave, l, schedule);
    return AppendBackwards(first, last, schedule);
  }
  const int middle = LastOfHalf(chain, first, last);
  AppendSweep(first, middle, schedule);
  AppendRecomputed(chain, {middle + 1, last}, leaf, schedule);
  AppendRecomputed(chain, {first, middle}, leaf, schedule);
}

// The forward sweep saves a segment, or checkpoints its input only; the backward sweep recomputes
// every segment that is not saved.
Schedule ScheduleOf(const Chain& chain, const std::vector<Segment>& cut, int leaf) {
  Schedule schedule;
  for (const Segment& segment : cut) {
    if (!segment.saved) {
      AppendSweep(segment.first, segment.last, &schedule);
      continue;
    }
    for (int l = segment.first; l <= segment.last; ++l) {
      Append(OperationKind::kForwardSave, l, &schedule);
    }
  }
  for (auto segment = cut.rbegin(); segment != cut.rend(); ++segment) {
    if (segment->saved) {
      AppendBackwards(segment->first, segment->last, &schedule);
    } else {
      AppendRecomputed(chain, *segment, leaf, &schedule);
    }
  }
  return schedule;
}

// The cost of one number of segments. The schedule is recreated from the number when needed.
struct Trial {
  int segments = 0;
  double seconds = 0;
  int64_t peak_bytes = 0;
};

// Holds the trials, so one solve answers all budgets that it was made for.
class PeriodicSolution final : public Solution {
 public:
  PeriodicSolution(Chain chain, std::vector<Trial> trials)
      : chain_(std::move(chain)), trials_(std::move(trials)) {}

  absl::StatusOr<std::optional<Candidate>> ScheduleWithin(int64_t memory_bytes,
                                                          const SolveContext&) const override {
    const Trial* best = nullptr;
    for (const Trial& trial : trials_) {
      if (trial.peak_bytes > memory_bytes) continue;
      if (best == nullptr ||
          std::pair(trial.seconds, trial.peak_bytes) < std::pair(best->seconds, best->peak_bytes)) {
        best = &trial;
      }
    }
    if (best == nullptr) return std::optional<Candidate>();
    // kHeuristic: other checkpoints than equidistant ones may be faster.
    return Candidate{
        PeriodicSchedule(chain_, best->segments), "periodic", Guarantee::kHeuristic, {}};
  }

 private:
  Chain chain_;
  std::vector<Trial> trials_;
};

// The cost of each number of segments, without its schedule. Immutable.
class Estimates {
 public:
  explicit Estimates(const Chain& chain)
      : chain_(chain), eager_seconds_(EagerSeconds(chain)), reruns_{0}, saved_{0} {
    for (const Stage& stage : chain.stages) {
      reruns_.push_back(reruns_.back() + (stage.no_recompute ? 0 : stage.forward_seconds));
      saved_.push_back(saved_.back() + stage.saved_bytes);
    }
  }

  // The makespan, up to the rounding of sums: all segments but the last run forward twice, and the
  // second time their last stage is a replay. O(segments).
  double Seconds(int segments) const {
    const int last_input = LastInput(segments);
    const int stages = chain_.length() / segments;
    double seconds = eager_seconds_ + reruns_[static_cast<size_t>(last_input)];
    for (int l = stages; l <= last_input; l += stages) {
      seconds -= chain_.stage(l).forward_seconds - chain_.stage(l).ReplaySeconds();
    }
    return seconds;
  }

  // A lower bound on the peak: before the loss every segment's input is on the device, and all that
  // the last one saved. O(segments).
  int64_t LeastPeakBytes(int segments) const {
    const int last_input = LastInput(segments);
    const int stages = chain_.length() / segments;
    int64_t bytes = saved_.back() - saved_[static_cast<size_t>(last_input)];
    for (int l = 0; l <= last_input; l += stages) bytes += chain_.output_bytes(l);
    return bytes;
  }

 private:
  // The stage before the last segment; 0: the chain's input.
  int LastInput(int segments) const { return (segments - 1) * (chain_.length() / segments); }

  const Chain& chain_;
  const double eager_seconds_;
  std::vector<double> reruns_;  // by l: seconds of the forwards 1..l that may run again
  std::vector<int64_t> saved_;  // by l: saved bytes of stages 1..l
};

// Which numbers of segments are simulated.
enum class Extent {
  kAll,
  kWinners,  // only those that may be the fastest within the instance's budget
};

// Simulates the numbers of segments that the options allow. O(L) each.
absl::StatusOr<std::vector<Trial>> TryAll(const Instance& instance, Extent extent,
                                          const SolveContext& context) {
  constexpr double kRoundingOfSums = 1e-9;
  const int fixed = instance.options().segments;
  const int first = fixed > 0 ? fixed : 1;
  const int last = fixed > 0 ? fixed : instance.chain().length();
  const int64_t memory_bytes = instance.platform().memory_bytes;
  const Estimates estimates(instance.chain());
  std::vector<Trial> trials;
  double fastest = std::numeric_limits<double>::infinity();  // of those that fit
  for (int segments = first; segments <= last; ++segments) {
    RETURN_IF_ERROR(context.CheckStop());
    if (extent == Extent::kWinners &&
        (estimates.Seconds(segments) > (1 + kRoundingOfSums) * fastest ||
         estimates.LeastPeakBytes(segments) > memory_bytes)) {
      continue;
    }
    const Schedule schedule = PeriodicSchedule(instance.chain(), segments);
    ASSIGN_OR_RETURN(const Simulation simulation,
                     Simulate(instance.chain(), instance.platform(), schedule));
    const Prediction& prediction = simulation.prediction;
    trials.push_back({segments, prediction.makespan_seconds, prediction.peak_memory_bytes});
    if (prediction.peak_memory_bytes <= memory_bytes && prediction.makespan_seconds < fastest) {
      fastest = prediction.makespan_seconds;
      if (context.improved) context.improved({schedule, "periodic", Guarantee::kHeuristic, {}});
    }
    context.Report(static_cast<double>(segments - first + 1) / (last - first + 1));
  }
  return trials;
}

class Periodic final : public Solver {
 public:
  int64_t WorkingBytes(const Instance& instance) const override {
    constexpr int64_t kBytesPerStage = 256;  // one schedule, its simulation, and the trials
    return (instance.chain().length() + 2) * kBytesPerStage;
  }

  absl::StatusOr<std::optional<int64_t>> LeastBytes(const Instance& instance,
                                                    const SolveContext& context) const override {
    SolveContext quiet = context;
    quiet.improved = nullptr;
    ASSIGN_OR_RETURN(const std::vector<Trial> trials, TryAll(instance, Extent::kAll, quiet));
    assert(!trials.empty());
    const auto least = std::min_element(
        trials.begin(), trials.end(),
        [](const Trial& a, const Trial& b) { return a.peak_bytes < b.peak_bytes; });
    return least->peak_bytes;
  }

  absl::StatusOr<std::unique_ptr<const Solution>> Solve(
      const Instance& instance, const SolveContext& context) const override {
    // Lower budgets may have another winner.
    const bool one_budget = context.lowest_bytes >= instance.platform().memory_bytes;
    ASSIGN_OR_RETURN(std::vector<Trial> trials,
                     TryAll(instance, one_budget ? Extent::kWinners : Extent::kAll, context));
    return std::make_unique<PeriodicSolution>(instance.chain(), std::move(trials));
  }
};

}  // namespace

Schedule PeriodicSchedule(const Chain& chain, int segments) {
  assert(segments >= 1 && segments <= chain.length());
  return ScheduleOf(chain, Cut(chain, segments), /*leaf=*/chain.length());
}

Schedule HalvingSchedule(const Chain& chain, int leaf) {
  assert(leaf >= 1);
  const int loss = chain.length() + 1;  // the last stage
  std::vector<Segment> cut;
  int first = 1;
  while (loss - first >= leaf) {
    const int last = LastOfHalf(chain, first, loss - 1);
    AppendCut(chain, first, last, &cut);
    first = last + 1;
  }
  cut.push_back({first, loss, /*saved=*/true});
  return ScheduleOf(chain, cut, leaf);
}

std::unique_ptr<Solver> MakePeriodic() { return std::make_unique<Periodic>(); }

}  // namespace stowage
