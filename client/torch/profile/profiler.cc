// Profiling a chain, one stage at a time. For stage l, each run measures
//   forward:   input a^(l-1) on the device -> ā^l; its overhead is the peak of allocated bytes
//              minus the bytes live before and the bytes of ā^l;
//   backward:  δ^l, all ones -> δ^(l-1); its overhead is the peak minus the bytes live before and
//              the bytes of δ^(l-1).
// Overheads are maxima over measured runs, since libraries keep workspaces that they allocate in a
// first one. A GPU is kept busy before each run for as long as the host takes to enqueue one, so
// that the GPU's time and the host's are measured apart; the medians of both, over all stages that
// do the same work, in the order of a step that stores everything, are the chain's times
// (step_times.h): within such a step the host is ahead of the GPU by what the operations so far
// have left. A last FORWARD_CHECKPOINT leaves a^l
// as the next stage's input. Gradients of parameters exist as zeros meanwhile, so that backward()
// allocates none.
#include "client/torch/profile/profiler.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/torch/base/torch_guarded.h"
#include "client/torch/join/graph_mode.h"
#include "client/torch/profile/stage_timer.h"
#include "client/torch/profile/state_backup.h"
#include "client/torch/profile/step_times.h"
#include "client/torch/stages/stage_probe.h"
#include "solver/base/status_macros.h"
#include "solver/model/modes.h"

namespace stowage {
namespace {

// Measures the stages of one TorchStages in order.
class Profiler {
 public:
  Profiler(TorchStages* stages, Device* device, MemoryMeter* meter, const ProfileOptions& options)
      : stages_(*stages), probe_(stages), timer_(stages, device, meter), options_(options) {}

  absl::Status Begin() {
    RETURN_IF_ERROR(timer_.Begin());
    chain_.input_bytes = probe_.ValueBytes(0);
    return absl::OkStatus();
  }

  // Measures the next stage; after the last one, the loss.
  absl::Status MeasureNext() {
    const int l = chain_.length() + 1;
    if (options_.progress) options_.progress(l);
    ASSIGN_OR_RETURN(Stage stage, MeasureStage(l));
    gradients_.push_back(probe_.gradient_parts(l));
    (l <= stages_.length() ? chain_.stages.emplace_back() : chain_.loss) = std::move(stage);
    return absl::OkStatus();
  }

  // Requires: the loss has been measured.
  Chain TakeChain() {
    const std::vector<OperationTimes> forwards = PooledMedians(forwards_, work_);
    const std::vector<OperationTimes> backwards = PooledMedians(backwards_, work_);
    std::vector<OperationTimes> step = forwards;
    step.insert(step.end(), backwards.rbegin(), backwards.rend());
    const std::vector<double> seconds = SecondsInAStep(step);
    for (size_t i = 0; i < forwards.size(); ++i) {
      Stage& stage = i < chain_.stages.size() ? chain_.stages[i] : chain_.loss;
      stage.forward_seconds = seconds[i];
      stage.backward_seconds = seconds[seconds.size() - 1 - i];
    }
    SetReplaySeconds(forwards, backwards);
    SetGradientBytes();
    return std::move(chain_);
  }

 private:
  // Of stages whose replays take less than their forwards, by more than measurements differ.
  void SetReplaySeconds(const std::vector<OperationTimes>& forwards,
                        const std::vector<OperationTimes>& backwards) {
    constexpr double kLeastGain = 0.05;
    std::vector<OperationRuns> runs;
    std::vector<std::string> work;
    for (size_t i = forwards.size(); i-- > 0;) {
      if (replays_[i].empty()) continue;
      runs.push_back(replays_[i]);
      work.push_back(work_[i]);
    }
    const std::vector<OperationTimes> replays = PooledMedians(runs, work);
    auto replay = replays.begin();
    std::vector<OperationTimes> step = forwards;
    for (size_t i = forwards.size(); i-- > 0;) {
      if (!replays_[i].empty()) step.push_back(*replay++);
      step.push_back(backwards[i]);
    }
    const std::vector<double> seconds = SecondsInAStep(step);
    size_t next = forwards.size();
    for (size_t i = forwards.size(); i-- > 0; ++next) {
      if (replays_[i].empty()) continue;
      Stage& stage = chain_.stages[i];
      const double replay_seconds = seconds[next++];
      if (replay_seconds < (1 - kLeastGain) * stage.forward_seconds) {
        stage.replay_seconds = replay_seconds;
      }
    }
  }

  // A stage's backward has shown what gradients its input has. One that passes by has the memory
  // that it got where it is computed: that of a skip may be a part of what a concatenation
  // received.
  void SetGradientBytes() {
    // The stage in whose backward it was allocated, since addresses are used again, and where.
    using Storage = std::pair<int, const void*>;
    struct Gradient {
      Storage storage;
      int64_t bytes;
    };
    std::vector<Gradient> behind;  // of the value after the stage
    for (int l = chain_.length() + 1; l >= 1; --l) {
      std::vector<Gradient> gradients;
      std::map<Storage, int64_t> storages;
      for (const GradientPart& part : gradients_[static_cast<size_t>(l) - 1]) {
        const bool passed = part.passed.has_value() && *part.passed < behind.size();
        gradients.push_back(passed ? behind[*part.passed]
                                   : Gradient{{l, part.storage}, part.bytes});
        storages[gradients.back().storage] = gradients.back().bytes;
      }
      int64_t bytes = 0;
      for (const auto& [storage, size] : storages) bytes += size;
      (l == 1 ? chain_.input_gradient_bytes
              : chain_.stages[static_cast<size_t>(l) - 2].gradient_bytes) = bytes;
      behind = std::move(gradients);
    }
  }

  // The caller keeps the chain's input. A chain with costs in graph mode has no input_unread.
  bool MayLoseInput(int l) const { return l > 1 && !options_.graph_mode; }

  // All but the times, which TakeChain() adds.
  absl::StatusOr<Stage> MeasureStage(int l) {
    Stage stage;
    const bool is_loss = l > stages_.length();
    stage.name = is_loss ? "" : stages_.stage(l).name;
    stage.no_recompute = !is_loss && stages_.stage(l).no_recompute;
    stage.input_unread = MayLoseInput(l);
    const StageOutput input = probe_.Output(l - 1);
    OperationRuns forwards;
    OperationRuns backwards;
    std::string work;
    int64_t forward_bytes = 0;
    for (int run = -options_.warmups; run < options_.repeats; ++run) {
      probe_.SetOutput(l - 1, input);
      RETURN_IF_ERROR(timer_.Forward({.stage = l}));
      const int64_t new_bytes = timer_.new_bytes();
      stage.saved_bytes = probe_.ValueBytes(l);
      if (work.empty() && !is_loss) work = probe_.WorkOf(l);
      stage.input_unread = stage.input_unread && !probe_.NeedsInput(l);
      RETURN_IF_ERROR(timer_.Backward(l));
      const int64_t backward_overhead = timer_.new_bytes() - probe_.GradientBytes(l - 1);
      probe_.SetGradients(l - 1, {});
      if (run < 0) continue;
      forward_bytes = std::max(forward_bytes, new_bytes);
      stage.backward_overhead_bytes = std::max(stage.backward_overhead_bytes, backward_overhead);
      forwards.push_back(timer_.last_forward());
      backwards.push_back(timer_.last_backward());
    }
    forwards_.push_back(std::move(forwards));
    backwards_.push_back(std::move(backwards));
    work_.push_back(std::move(work));
    stage.no_offload = probe_.shared(l);
    // What it has passed on would be counted nowhere.
    if (options_.stays_on_device && probe_.passed_bytes(l) > 0) stage.input_unread = false;
    probe_.SetOutput(l - 1, input);
    replays_.emplace_back();
    if (!is_loss && !stage.no_recompute && !options_.graph_mode) {
      ASSIGN_OR_RETURN(replays_.back(), MeasureReplays(l));
    }
    if (!is_loss) RETURN_IF_ERROR(MeasureOutput(l, &stage));
    const int64_t save_overhead =
        std::max<int64_t>(std::max(forward_bytes, stage.OutputNeedBytes()) - stage.saved_bytes, 0);
    if (is_loss || options_.graph_mode) {
      stage.forward_overhead_bytes = std::max(stage.forward_overhead_bytes, save_overhead);
    } else if (save_overhead != stage.forward_overhead_bytes) {
      stage.save_overhead_bytes = save_overhead;
    }
    return stage;
  }

  // Replays that end early; none if the stage's cannot.
  absl::StatusOr<OperationRuns> MeasureReplays(int l) {
    RETURN_IF_ERROR(timer_.Forward({.stage = l,
                                    .kind = OperationKind::kForwardCheckpoint,
                                    .repeated = true,
                                    .replayed = true}));
    if (!probe_.EndsEarly(l)) return OperationRuns();
    OperationRuns replays;
    for (int run = -options_.warmups; run < options_.repeats; ++run) {
      const absl::Status status = timer_.Forward({.stage = l, .run = 1, .replay = true});
      // A stage that does not compute the same twice is an error only of a step that recomputes it.
      if (absl::IsFailedPrecondition(status)) return OperationRuns();
      RETURN_IF_ERROR(status);
      if (run >= 0) replays.push_back(timer_.last_forward());
    }
    return replays;
  }

  // Adds the output's bytes to `stage`. Leaves the output as the only live value.
  absl::Status MeasureOutput(int l, Stage* stage) {
    probe_.SetOutput(l, {});  // which the forward would free first
    RETURN_IF_ERROR(timer_.Forward({.stage = l, .kind = OperationKind::kForwardCheckpoint}));
    stage->output_bytes = probe_.ValueBytes(l);
    stage->forward_overhead_bytes = std::max<int64_t>(timer_.new_bytes() - stage->output_bytes, 0);
    if (options_.stays_on_device) {
      stage->saved_bytes =
          std::max(stage->saved_bytes - probe_.passed_bytes(l), stage->output_bytes);
    }
    probe_.SetOutput(l - 1, {});
    return absl::OkStatus();
  }

  TorchStages& stages_;
  StageProbe probe_;
  StageTimer timer_;
  const ProfileOptions options_;
  Chain chain_;                          // the stages measured so far
  std::vector<OperationRuns> forwards_;  // of those stages, then of the loss
  std::vector<OperationRuns> backwards_;
  std::vector<OperationRuns> replays_;                // empty: as long as the forward
  std::vector<std::string> work_;                     // StageProbe::WorkOf()
  std::vector<std::vector<GradientPart>> gradients_;  // of those stages' inputs
};

absl::StatusOr<Chain> Measure(TorchStages* stages, Device* device, MemoryMeter* meter,
                              const ProfileOptions& options) {
  Profiler profiler(stages, device, meter, options);
  RETURN_IF_ERROR(profiler.Begin());
  for (int l = 1; l <= stages->length() + 1; ++l) RETURN_IF_ERROR(profiler.MeasureNext());
  return profiler.TakeChain();
}

// Adds the costs of units to `chain` from `executed`, the measured chain of the execution.
// GraphCosts has no output size, so a unit whose output is larger or smaller than in eager mode
// gets no costs.
void AddGraphCosts(const Execution& execution, const Chain& executed, Chain* chain) {
  const auto stage = [chain](int l) -> Stage& { return chain->stages[static_cast<size_t>(l) - 1]; };
  for (int e = 1; e <= executed.length(); ++e) {
    const Stage& measured = executed.stage(e);
    const Unit unit = execution.unit(e);
    Stage& last = stage(unit.last);
    if (!unit.has_graph || measured.output_bytes != last.output_bytes) continue;
    for (int l = unit.first; l < unit.last; ++l) stage(l).graph = GraphCosts();
    last.graph = {.forward_seconds = measured.forward_seconds,
                  .backward_seconds = measured.backward_seconds,
                  .saved_bytes = measured.saved_bytes,
                  .forward_overhead_bytes = measured.forward_overhead_bytes,
                  .backward_overhead_bytes = measured.backward_overhead_bytes};
    last.no_offload = last.no_offload || measured.no_offload;
    // The modes may differ in the size of the input's gradient; the chain has one number for both.
    std::optional<int64_t>& gradient =
        unit.first == 1 ? chain->input_gradient_bytes : stage(unit.first - 1).gradient_bytes;
    gradient = std::max(gradient.value_or(0), executed.gradient_bytes(e - 1));
  }
}

// Measures each unit in eager mode and right after it in graph mode, so that a change of the
// machine's speed affects both.
absl::Status MeasureAlternating(const Execution& execution, Profiler* eager, Profiler* graph) {
  RETURN_IF_ERROR(eager->Begin());
  RETURN_IF_ERROR(graph->Begin());
  for (int e = 1; e <= execution.chain().length() + 1; ++e) {
    const Unit unit = execution.unit(e);
    for (int l = unit.first; l <= unit.last; ++l) RETURN_IF_ERROR(eager->MeasureNext());
    RETURN_IF_ERROR(graph->MeasureNext());
  }
  return absl::OkStatus();
}

// Measures the chain in both modes.
absl::StatusOr<Chain> MeasureModes(TorchStages* stages, Device* device, MemoryMeter* meter,
                                   const ProfileOptions& options) {
  const Execution execution = AllInGraphMode(stages->stages());
  ASSIGN_OR_RETURN(std::vector<TorchStage> units, InModes(stages->stages(), execution));
  TorchStages in_graph_mode(std::move(units), stages->options());
  in_graph_mode.FeedAs(*stages);
  Profiler eager(stages, device, meter, options);
  Profiler graph(&in_graph_mode, device, meter, options);
  absl::Status status = MeasureAlternating(execution, &eager, &graph);
  // `in_graph_mode` is destroyed on return, so the device must be idle.
  status.Update(device->Synchronize());
  RETURN_IF_ERROR(status);
  Chain chain = eager.TakeChain();
  for (int l = 1; l <= stages->length(); ++l) {
    Stage& stage = chain.stages[static_cast<size_t>(l) - 1];
    stage.fusion_group = stages->stage(l).fusion_group;
    stage.control_flow = IsEager(stages->stage(l));
  }
  AddGraphCosts(execution, graph.TakeChain(), &chain);
  return chain;
}

}  // namespace

absl::StatusOr<Chain> ProfileChain(TorchStages* stages, Device* device, MemoryMeter* meter,
                                   const ProfileOptions& options) {
  absl::StatusOr<Chain> chain;
  std::optional<StateBackup> backup;
  absl::Status status = TorchGuarded([&] {
    backup.emplace(*stages);
    backup->SetGradientsToZero();
    chain = options.graph_mode ? MeasureModes(stages, device, meter, options)
                               : Measure(stages, device, meter, options);
    return chain.status();
  });
  // Also after an error: enqueued work uses the stages.
  status.Update(device->Synchronize());
  stages->Abandon();
  if (backup.has_value()) {
    status.Update(TorchGuarded([&backup] {
      backup->Restore();
      return absl::OkStatus();
    }));
  }
  if (!status.ok()) return status;
  return chain;
}

}  // namespace stowage
