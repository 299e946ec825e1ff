#include "solver/algorithms/rematerialization/periodic.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <utility>
#include <vector>

#include "solver/base/status_macros.h"
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

// The cost of one number of segments. The schedule is recreated from the number when needed.
struct Trial {
  int segments = 0;
  double seconds = 0;
  int64_t peak_bytes = 0;
};

// Holds every trial, so one solve answers all budgets.
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
    return Candidate{PeriodicSchedule(chain_, best->segments), "periodic", Limit::kHeuristic, {}};
  }

 private:
  Chain chain_;
  std::vector<Trial> trials_;
};

// Simulates every number of segments that the options allow. O(L) each.
absl::StatusOr<std::vector<Trial>> TryAll(const Instance& instance, const SolveContext& context) {
  const int fixed = instance.options().segments;
  const int first = fixed > 0 ? fixed : 1;
  const int last = fixed > 0 ? fixed : instance.chain().length();
  std::vector<Trial> trials;
  for (int segments = first; segments <= last; ++segments) {
    RETURN_IF_ERROR(context.CheckStop());
    ASSIGN_OR_RETURN(const Simulation simulation,
                     Simulate(instance.chain(), instance.platform(),
                              PeriodicSchedule(instance.chain(), segments)));
    trials.push_back({segments, simulation.prediction.makespan_seconds,
                      simulation.prediction.peak_memory_bytes});
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
    ASSIGN_OR_RETURN(const std::vector<Trial> trials, TryAll(instance, context));
    assert(!trials.empty());
    const auto least = std::min_element(
        trials.begin(), trials.end(),
        [](const Trial& a, const Trial& b) { return a.peak_bytes < b.peak_bytes; });
    return least->peak_bytes;
  }

  absl::StatusOr<std::unique_ptr<const Solution>> Solve(
      const Instance& instance, const SolveContext& context) const override {
    ASSIGN_OR_RETURN(std::vector<Trial> trials, TryAll(instance, context));
    return std::make_unique<PeriodicSolution>(instance.chain(), std::move(trials));
  }
};

}  // namespace

Schedule PeriodicSchedule(const Chain& chain, int segments) {
  assert(segments >= 1 && segments <= chain.length());
  Schedule schedule;
  const auto add = [&schedule](OperationKind kind, int l) {
    schedule.operations.push_back({kind, l});
  };
  const std::vector<Segment> cut = Cut(chain, segments);
  // The forward sweep: save a segment, or checkpoint its input only.
  for (const Segment& segment : cut) {
    for (int l = segment.first; l <= segment.last; ++l) {
      if (segment.saved) {
        add(OperationKind::kForwardSave, l);
      } else {
        add(l == segment.first ? OperationKind::kForwardCheckpoint : OperationKind::kForwardDiscard,
            l);
      }
    }
  }
  // The backward sweep, recomputing every segment that is not saved.
  for (auto segment = cut.rbegin(); segment != cut.rend(); ++segment) {
    for (int l = segment->first; l <= segment->last && !segment->saved; ++l) {
      add(OperationKind::kForwardSave, l);
    }
    for (int l = segment->last; l >= segment->first; --l) add(OperationKind::kBackward, l);
  }
  return schedule;
}

std::unique_ptr<Solver> MakePeriodic() { return std::make_unique<Periodic>(); }

}  // namespace stowage
