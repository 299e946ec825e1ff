#include "solver/simulator/simulator.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "solver/base/status_macros.h"
#include "solver/simulator/memory_walk.h"
#include "solver/simulator/queues.h"

namespace stowage {
namespace {

// Prefixes an error of MemoryWalk with the operation's path.
absl::Status AtOperation(const absl::Status& status, const ExecutedSchedule& executed,
                         size_t index) {
  const std::string path =
      OperationPath(executed.original_schedule(), index, executed.original_chain().length());
  return {status.code(), absl::StrCat(path, ": ", status.message())};
}

void FillTimes(const ExecutedSchedule& executed, const Queues& queues, Prediction& prediction) {
  prediction.makespan_seconds = queues.makespan_seconds();
  prediction.compute_seconds = queues.compute_seconds();
  prediction.idle_seconds = std::max(0.0, prediction.makespan_seconds - prediction.compute_seconds);
  prediction.overhead =
      RelativeExcess(prediction.makespan_seconds,
                     ComputeSeconds(executed.original_chain(), executed.original_units()));
}

}  // namespace

absl::StatusOr<ExecutedSchedule> ExecutedSchedule::Of(const Chain& chain, const ChainUnits& units,
                                                      const Schedule& schedule) {
  ExecutedSchedule executed(chain, units, schedule);
  if (!HasGraphOperations(schedule)) return executed;
  ASSIGN_OR_RETURN(executed.modes_, Execution::Of(chain, units, schedule));
  executed.converted_ = executed.modes_->FromChain(schedule);
  return executed;
}

absl::StatusOr<Simulation> Simulate(const Chain& chain, const Platform& platform,
                                    const Schedule& schedule, std::vector<TimelineEntry>* timeline,
                                    const std::stop_token& stop) {
  return Simulate(chain, ChainUnits(chain), platform, schedule, timeline, stop);
}

absl::StatusOr<Simulation> Simulate(const Chain& chain, const ChainUnits& units,
                                    const Platform& platform, const Schedule& schedule,
                                    std::vector<TimelineEntry>* timeline,
                                    const std::stop_token& stop) {
  ASSIGN_OR_RETURN(const ExecutedSchedule executed, ExecutedSchedule::Of(chain, units, schedule));
  return Simulate(executed, platform, timeline, stop);
}

absl::StatusOr<Simulation> Simulate(const ExecutedSchedule& executed, const Platform& platform,
                                    std::vector<TimelineEntry>* timeline,
                                    const std::stop_token& stop) {
  constexpr size_t kOperationsBetweenPolls = 1024;
  const Chain& chain = executed.chain();
  const std::vector<Operation>& operations = executed.schedule().operations;
  const std::optional<Execution>& modes = executed.modes();
  MemoryWalk memory(chain, platform, modes.has_value() ? &modes->numbers() : nullptr);
  Queues queues(chain, platform);
  Simulation simulation;
  Prediction& prediction = simulation.prediction;
  std::vector<bool> has_run(static_cast<size_t>(chain.length()) + 2);
  if (timeline != nullptr) {
    timeline->clear();
    timeline->reserve(operations.size());
  }
  // An empty schedule still holds the input.
  prediction.peak_memory_bytes = chain.input_bytes;
  // One pass: validity and memory first, since Queues requires a valid operation; then time.
  for (size_t i = 0; i < operations.size(); ++i) {
    if (i % kOperationsBetweenPolls == 0 && stop.stop_requested()) {
      return absl::CancelledError("the simulation was stopped");
    }
    const Operation& operation = operations[i];
    if (const absl::Status status = memory.Execute(operation); !status.ok()) {
      return AtOperation(status, executed, i);
    }
    const int l = operation.stage;
    const bool runs_first = IsForward(operation.kind) && !has_run[l];
    // Entering graph mode is paid by the first forward of each run of stages in graph mode, once.
    const bool enters = runs_first && modes.has_value() && modes->Enters(l);
    // Only a stage that says so runs faster there; l may be value 0, which has no stage.
    const bool replays = IsForward(operation.kind) && chain.stage(l).replay_seconds.has_value() &&
                         IsReplay(operations, i);
    const Queues::Span span = queues.Run(
        operation, {.entry_seconds = enters ? executed.original_chain().graph_entry_seconds : 0,
                    .replay = replays});
    if (IsForward(operation.kind)) {
      const Stage& stage = chain.stage(l);
      if (!runs_first) {
        prediction.recompute_seconds += replays ? stage.ReplaySeconds() : stage.forward_seconds;
      }
      has_run[l] = true;
    }
    // What a backward reruns for its stage's option counts, too.
    if (operation.kind == OperationKind::kBackward && memory.save_option(l) != 0) {
      const Stage& stage = chain.stage(l);
      prediction.recompute_seconds +=
          stage.BackwardSeconds(memory.save_option(l)) - stage.backward_seconds;
    }
    prediction.peak_memory_bytes = std::max(prediction.peak_memory_bytes, memory.memory_bytes());
    prediction.peak_host_bytes = std::max(prediction.peak_host_bytes, memory.host_bytes());
    if (simulation.feasible() && memory.IsOverLimit()) simulation.first_over_limit = i;
    if (timeline != nullptr) {
      timeline->push_back({span.start_seconds, span.end_seconds, memory.memory_bytes(),
                           memory.host_bytes(), span.waits_for});
    }
  }
  if (const absl::Status status = memory.Finish(); !status.ok()) {
    return AtOperation(status, executed, operations.size());
  }
  FillTimes(executed, queues, prediction);
  return simulation;
}

}  // namespace stowage
