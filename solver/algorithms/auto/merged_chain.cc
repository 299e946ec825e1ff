#include "solver/algorithms/auto/merged_chain.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "solver/algorithms/pofo/part_sequences.h"
#include "solver/algorithms/rematerialization/rotor_minimum.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

// Weight of the size of an output between groups, beside a group's weight of 1.
constexpr double kOutputWeight = 0.5;

bool MayJoin(const Stage& a, const Stage& b) {
  return a.no_recompute == b.no_recompute && a.no_offload == b.no_offload;
}

// The sizes of a group, extended stage by stage.
class Group {
 public:
  Group(const Chain& chain, int first) : chain_(chain), first_(first), last_(first - 1) {}

  static Group Of(const Chain& chain, int first, int last) {
    Group group(chain, first);
    for (int l = first; l <= last; ++l) group.Extend();
    return group;
  }

  void Extend() {
    const int k = ++last_;
    const Stage& stage = chain_.stage(k);
    merged_.no_recompute |= stage.no_recompute;
    merged_.no_offload |= stage.no_offload;
    merged_.forward_seconds += stage.forward_seconds;
    merged_.backward_seconds += stage.backward_seconds;
    merged_.saved_bytes += stage.saved_bytes;
    saving_ = std::max(saving_, merged_.saved_bytes + stage.SaveOverheadBytes(0));
    knows_save_overhead_ |= stage.save_overhead_bytes.has_value();
    const int64_t read = k == first_ ? 0 : chain_.output_bytes(k - 1);
    sweeping_ = std::max(sweeping_, read + stage.OutputNeedBytes());
    backward_ =
        std::max(backward_, merged_.saved_bytes + chain_.gradient_bytes(k) +
                                chain_.gradient_bytes(k - 1) + stage.backward_overhead_bytes);
  }

  // The most that its forwards and backwards need, its input excluded.
  int64_t NeedBytes() const { return std::max({saving_, sweeping_, backward_}); }

  int64_t SweepOverheadBytes() const {
    return std::max<int64_t>(0, sweeping_ - chain_.output_bytes(last_));
  }

  Stage ToStage() const {
    Stage stage = merged_;
    const Stage& last = chain_.stage(last_);
    stage.output_bytes = last.output_bytes;
    // Of the forwards of a saved group, the last one's backward follows at once.
    if (last.replay_seconds.has_value() && !stage.no_recompute) {
      stage.replay_seconds = stage.forward_seconds - (last.forward_seconds - *last.replay_seconds);
    }
    stage.gradient_bytes = chain_.gradient_bytes(last_);
    const int64_t saving = std::max(saving_, sweeping_) - stage.saved_bytes;
    stage.forward_overhead_bytes = SweepOverheadBytes();
    if (knows_save_overhead_) {
      stage.save_overhead_bytes = saving;
    } else {
      stage.forward_overhead_bytes = std::max(stage.forward_overhead_bytes, saving);
    }
    stage.backward_overhead_bytes =
        std::max<int64_t>(0, backward_ - stage.saved_bytes - chain_.gradient_bytes(last_) -
                                 chain_.gradient_bytes(first_ - 1));
    return stage;
  }

 private:
  const Chain& chain_;
  const int first_;
  int last_;
  Stage merged_;                      // sums
  bool knows_save_overhead_ = false;  // some stage has save_overhead_bytes
  int64_t saving_ = 0;                // peak of FORWARD_SAVE first..last
  int64_t sweeping_ = 0;              // peak of the other forwards
  int64_t backward_ = 0;              // peak of BACKWARD last..first
};

// Chooses the last stage of each group: the groups minimize
//   Σ (1 + kOutputWeight * output / mean output + evenness * weight²)
// where a group's weight is its share of all time and saved bytes.
class Grouping {
 public:
  Grouping(const Chain& chain, const MergedChain::Options& options)
      : chain_(chain), options_(options) {
    double seconds = 0;
    double saved = 0;
    double outputs = 0;
    for (const Stage& stage : chain.stages) {
      seconds += stage.forward_seconds + stage.backward_seconds;
      saved += static_cast<double>(stage.saved_bytes);
      outputs += static_cast<double>(stage.output_bytes);
    }
    output_unit_ = kOutputWeight * chain.length() / std::max(1.0, outputs);
    weights_.push_back(0);
    for (const Stage& stage : chain.stages) {
      const double time = stage.forward_seconds + stage.backward_seconds;
      weights_.push_back(weights_.back() + (seconds > 0 ? time / seconds / 2 : 0) +
                         (saved > 0 ? static_cast<double>(stage.saved_bytes) / saved / 2 : 0));
    }
    FillFirst();
  }

  // Of the evenness that gives at most the stages aimed at, the largest.
  std::vector<int> Ends() const {
    double low = 0;
    double high = 16.0 * options_.stages * options_.stages;
    std::vector<int> best = EndsFor(low);
    constexpr int kSteps = 16;
    for (int step = 0; step < kSteps; ++step) {
      const double middle = (low + high) / 2;
      std::vector<int> ends = EndsFor(middle);
      if (static_cast<int>(ends.size()) <= options_.stages) {
        best = std::move(ends);
        low = middle;
      } else {
        high = middle;
      }
    }
    return best;
  }

 private:
  // By last stage: the lowest first stage of a group that may be merged.
  void FillFirst() {
    int runs = 1;  // of neighbours that agree
    for (int l = 2; l <= chain_.length(); ++l) {
      if (!MayJoin(chain_.stage(l - 1), chain_.stage(l))) ++runs;
    }
    const bool joins_all = runs > options_.stages / 2;
    const int longest = std::max(2, 8 * chain_.length() / options_.stages);
    first_.push_back(1);
    int first = 1;
    for (int last = 1; last <= chain_.length(); ++last) {
      if (last > first && !joins_all && !MayJoin(chain_.stage(last - 1), chain_.stage(last)))
        first = last;
      first = std::max(first, last - longest + 1);
      while (first < last && !Fits(first, last)) ++first;
      first_.push_back(first);
    }
  }

  bool Fits(int first, int last) const {
    return Group::Of(chain_, first, last).NeedBytes() <= options_.max_group_bytes;
  }

  std::vector<int> EndsFor(double evenness) const {
    const int length = chain_.length();
    std::vector<double> cost(static_cast<size_t>(length) + 1,
                             std::numeric_limits<double>::infinity());
    std::vector<int> group_first(static_cast<size_t>(length) + 1, 1);
    cost[0] = 0;
    for (int last = 1; last <= length; ++last) {
      const double base = 1 + output_unit_ * static_cast<double>(chain_.stage(last).output_bytes);
      for (int first = last; first >= first_[last]; --first) {
        const double weight = weights_[last] - weights_[first - 1];
        const double alone = base + evenness * weight * weight;
        if (alone >= cost[last]) break;  // so have all longer groups
        const double total = cost[first - 1] + alone;
        if (total >= cost[last]) continue;
        cost[last] = total;
        group_first[last] = first;
      }
    }
    std::vector<int> ends;
    for (int last = length; last > 0; last = group_first[last] - 1) ends.push_back(last);
    std::reverse(ends.begin(), ends.end());
    return ends;
  }

  const Chain& chain_;
  const MergedChain::Options options_;
  double output_unit_ = 0;
  std::vector<double> weights_;  // of stages 1..l
  std::vector<int> first_;
};

void Append(OperationKind kind, int stage, Schedule* schedule) {
  schedule->operations.push_back({kind, stage});
}

// Whether value m, whose OFFLOAD is operation `at`, leaves before BACKWARD m+1 reads it.
bool LeavesBeforeItsReader(const Schedule& schedule, size_t at, int m) {
  for (size_t next = at + 1; next < schedule.operations.size(); ++next) {
    const Operation& operation = schedule.operations[next];
    if (operation == Operation{OperationKind::kRelease, m}) return true;
    if (operation == Operation{OperationKind::kBackward, m + 1}) return false;
  }
  return false;
}

}  // namespace

absl::StatusOr<MergedChain> MergedChain::Of(const Chain& chain, const Options& options,
                                            const SolveContext& context) {
  std::vector<int> ends = {0};
  if (chain.length() <= options.stages) {
    for (int l = 1; l <= chain.length(); ++l) ends.push_back(l);
  } else {
    const std::vector<int> chosen = Grouping(chain, options).Ends();
    ends.insert(ends.end(), chosen.begin(), chosen.end());
  }
  ends.push_back(chain.length() + 1);
  MergedChain merged(chain, std::move(ends));
  if (options.compact_bytes.has_value()) {
    for (int m = 1; m <= merged.chain().length(); ++m) {
      RETURN_IF_ERROR(merged.Compact(chain, m, *options.compact_bytes, context));
    }
  }
  return merged;
}

// Makes group m compact, unless it has one stage or may not be recomputed.
absl::Status MergedChain::Compact(const Chain& chain, int m, int64_t compact_bytes,
                                  const SolveContext& context) {
  const int count = last(m) - first(m) + 1;
  Stage& stage = merged_.stages[static_cast<size_t>(m) - 1];
  if (count == 1 || stage.no_recompute) return absl::OkStatus();
  // The group as a chain of its own, with a loss that takes nothing.
  Chain group;
  group.input_bytes = chain.output_bytes(first(m) - 1);
  group.input_gradient_bytes = chain.gradient_bytes(first(m) - 1);
  group.stages.assign(chain.stages.begin() + first(m) - 1, chain.stages.begin() + last(m));
  constexpr double kMaxForwards = 8;  // of each stage, more or less
  ASSIGN_OR_RETURN(
      const PartSequences sequences,
      PartSequences::Build(group,
                           {.memory_bytes = compact_bytes,
                            .max_recompute_seconds = kMaxForwards * stage.forward_seconds,
                            .max_steps_per_part = 8,
                            .all_splits_up_to = 4},
                           context));
  std::vector<Operation>& operations = recomputations_[static_cast<size_t>(m)];
  const auto fitting = sequences.Fastest(0, count - 1);
  int64_t peak = 0;
  if (!fitting.empty()) {
    peak = fitting.back().peak_bytes;
    sequences.AppendOperations(0, count - 1, sequences.IndexOf(fitting.back()), &operations);
  } else {
    ASSIGN_OR_RETURN(const RotorMinimum minimum,
                     RotorMinimum::Build(group, Saving::kAlways, context));
    std::optional<Schedule> least = minimum.LeastSchedule(0, count - 1);
    if (!least.has_value()) return absl::OkStatus();
    peak = minimum.min_bytes(0, count - 1);
    operations = std::move(least->operations);
  }
  stage.backward_seconds = 0;
  for (Operation& operation : operations) {
    operation.stage += first(m) - 1;
    const Stage& one = chain.stage(operation.stage);
    stage.backward_seconds +=
        IsForward(operation.kind) ? one.forward_seconds : one.backward_seconds;
  }
  stage.saved_bytes = stage.output_bytes;
  stage.save_overhead_bytes.reset();
  stage.forward_overhead_bytes = Group::Of(chain, first(m), last(m)).SweepOverheadBytes();
  stage.backward_overhead_bytes =
      std::max<int64_t>(0, peak - stage.output_bytes - chain.gradient_bytes(last(m)) -
                               chain.gradient_bytes(first(m) - 1));
  return absl::OkStatus();
}

Chain MergedChain::Evenly(const Chain& chain, int stages) {
  std::vector<int> ends = {0};
  const int64_t length = chain.length();
  for (int64_t m = 1; m <= stages; ++m) ends.push_back(static_cast<int>(length * m / stages));
  ends.push_back(chain.length() + 1);
  return MergedChain(chain, std::move(ends)).merged_;
}

MergedChain::MergedChain(const Chain& chain, std::vector<int> ends) : ends_(std::move(ends)) {
  merged_.input_bytes = chain.input_bytes;
  merged_.input_gradient_bytes = chain.input_gradient_bytes;
  merged_.loss = chain.loss;
  merged_.loss.save_options.clear();  // as merged stages have none
  for (int m = 1; m + 1 < static_cast<int>(ends_.size()); ++m) {
    merged_.stages.push_back(Group::Of(chain, first(m), last(m)).ToStage());
  }
  recomputations_.resize(ends_.size());
}

bool MergedChain::compact() const {
  return std::any_of(recomputations_.begin(), recomputations_.end(),
                     [](const auto& operations) { return !operations.empty(); });
}

int MergedChain::FirstValue(int m, bool saved) const {
  return saved ? first(m) : ends_[static_cast<size_t>(m)];
}

void MergedChain::AppendSweep(OperationKind kind, int m, Schedule* expanded) const {
  Append(kind, first(m), expanded);
  for (int l = first(m) + 1; l <= last(m); ++l) {
    Append(OperationKind::kForwardDiscard, l, expanded);
  }
}

Schedule MergedChain::Expand(const Schedule& schedule) const {
  Schedule expanded;
  std::vector<bool> saved(ends_.size(), false);  // by merged value: ā, not a
  int gradient = merged_.length() + 1;           // δ of this merged stage is on the device
  for (size_t at = 0; at < schedule.operations.size(); ++at) {
    const Operation& operation = schedule.operations[at];
    const int m = operation.stage;
    const auto index = static_cast<size_t>(m);
    const bool compact = !recomputations_[index].empty();
    // A compact group saves its output only, which BACKWARD m+1 drops once it has read it.
    const bool dropped = compact && gradient <= m;
    switch (operation.kind) {
      case OperationKind::kForwardSave:
        if (compact) {
          saved[index] = false;
          if (!dropped) AppendSweep(OperationKind::kForwardCheckpoint, m, &expanded);
          break;
        }
        saved[index] = true;
        for (int l = first(m); l <= last(m); ++l) Append(operation.kind, l, &expanded);
        break;
      case OperationKind::kForwardSaveDiscard:
        // Only of the loss, which is alone in its group: no merged stage is input_unread.
        Append(operation.kind, last(m), &expanded);
        break;
      case OperationKind::kForwardCheckpoint:
      case OperationKind::kForwardDiscard:
        saved[index] = false;
        AppendSweep(operation.kind, m, &expanded);
        break;
      case OperationKind::kBackward:
        gradient = m - 1;
        if (compact) {
          expanded.operations.insert(expanded.operations.end(), recomputations_[index].begin(),
                                     recomputations_[index].end());
          break;
        }
        for (int l = last(m); l >= first(m); --l) Append(operation.kind, l, &expanded);
        break;
      case OperationKind::kPrefetch:
        if (dropped) break;
        // BACKWARD last(m) comes first.
        for (int l = ends_[index]; l >= FirstValue(m, saved[index]); --l) {
          Append(operation.kind, l, &expanded);
        }
        break;
      case OperationKind::kOffload:
        if (compact && !LeavesBeforeItsReader(schedule, at, m)) break;
        [[fallthrough]];
      case OperationKind::kRelease:
        if (dropped) break;
        for (int l = FirstValue(m, saved[index]); l <= ends_[index]; ++l) {
          Append(operation.kind, l, &expanded);
        }
    }
  }
  return expanded;
}

}  // namespace stowage
