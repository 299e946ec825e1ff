#include "solver/simulator/simulator.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "solver/base/status_macros.h"
#include "solver/simulator/memory_walk.h"
#include "solver/simulator/queues.h"

namespace stowage {
namespace {

// Prefixes an error of MemoryWalk with the operation's path.
absl::Status AtOperation(const absl::Status& status, const Chain& chain, const Schedule& schedule,
                         size_t index) {
  return {status.code(),
          absl::StrCat(OperationPath(schedule, index, chain.length()), ": ", status.message())};
}

bool OverLimit(const MemoryWalk& memory, const Platform& platform) {
  return memory.memory_bytes() > platform.memory_bytes ||
         (platform.host_memory_bytes > 0 && memory.host_bytes() > platform.host_memory_bytes);
}

void FillTimes(const Chain& chain, const Queues& queues, Prediction& prediction) {
  prediction.makespan_seconds = queues.makespan_seconds();
  prediction.compute_seconds = queues.compute_seconds();
  prediction.idle_seconds = std::max(0.0, prediction.makespan_seconds - prediction.compute_seconds);
  prediction.overhead = RelativeExcess(prediction.makespan_seconds, ComputeSeconds(chain));
}

}  // namespace

absl::StatusOr<ExecutedChain> ExecutedChain::Of(const Chain& chain, const Schedule& schedule) {
  if (!HasGraphOperations(schedule)) return ExecutedChain(chain, std::nullopt);
  ASSIGN_OR_RETURN(Execution execution, Execution::Of(chain, schedule));
  return ExecutedChain(chain, std::move(execution));
}

absl::StatusOr<Simulation> Simulate(const Chain& chain, const Platform& platform,
                                    const Schedule& schedule, std::vector<TimelineEntry>* timeline,
                                    const std::stop_token& stop) {
  ASSIGN_OR_RETURN(const ExecutedChain executed, ExecutedChain::Of(chain, schedule));
  return Simulate(executed, platform, schedule, timeline, stop);
}

absl::StatusOr<Simulation> Simulate(const ExecutedChain& executed_chain, const Platform& platform,
                                    const Schedule& schedule, std::vector<TimelineEntry>* timeline,
                                    const std::stop_token& stop) {
  constexpr size_t kOperationsBetweenPolls = 1024;
  const Chain& chain = executed_chain.original();
  const Chain& executed = executed_chain.plain();
  const std::optional<Execution>& execution = executed_chain.execution();
  MemoryWalk memory(executed, platform, execution.has_value() ? &execution->numbers() : nullptr);
  Queues queues(executed, platform);
  Simulation simulation;
  Prediction& prediction = simulation.prediction;
  std::vector<bool> has_run(static_cast<size_t>(executed.length()) + 2);
  if (timeline != nullptr) {
    timeline->clear();
    timeline->reserve(schedule.operations.size());
  }
  // An empty schedule still holds the input.
  prediction.peak_memory_bytes = chain.input_bytes;
  // One pass: validity and memory first, since Queues requires a valid operation; then time.
  for (size_t i = 0; i < schedule.operations.size(); ++i) {
    if (i % kOperationsBetweenPolls == 0 && stop.stop_requested()) {
      return absl::CancelledError("the simulation was stopped");
    }
    Operation operation = schedule.operations[i];
    if (execution.has_value()) operation = execution->FromChain(operation);
    if (const absl::Status status = memory.Execute(operation); !status.ok()) {
      return AtOperation(status, chain, schedule, i);
    }
    const int l = operation.stage;
    const bool runs_first = IsForward(operation.kind) && !has_run[l];
    // Entering graph mode is paid by the first forward of each run of stages in graph mode, once.
    const bool enters = runs_first && execution.has_value() && execution->Enters(l);
    // Only a stage that says so runs faster there; l may be value 0, which has no stage.
    const bool replays = IsForward(operation.kind) &&
                         executed.stage(l).replay_seconds.has_value() &&
                         IsReplay(schedule.operations, i);
    const Queues::Span span = queues.Run(
        operation, {.entry_seconds = enters ? chain.graph_entry_seconds : 0, .replay = replays});
    if (IsForward(operation.kind)) {
      const Stage& stage = executed.stage(l);
      if (!runs_first) {
        prediction.recompute_seconds += replays ? stage.ReplaySeconds() : stage.forward_seconds;
      }
      has_run[l] = true;
    }
    // What a backward reruns for its stage's option counts, too.
    if (operation.kind == OperationKind::kBackward && memory.save_option(l) != 0) {
      const Stage& stage = executed.stage(l);
      prediction.recompute_seconds +=
          stage.BackwardSeconds(memory.save_option(l)) - stage.backward_seconds;
    }
    prediction.peak_memory_bytes = std::max(prediction.peak_memory_bytes, memory.memory_bytes());
    prediction.peak_host_bytes = std::max(prediction.peak_host_bytes, memory.host_bytes());
    if (simulation.feasible() && OverLimit(memory, platform)) simulation.first_over_limit = i;
    if (timeline != nullptr) {
      timeline->push_back({span.start_seconds, span.end_seconds, memory.memory_bytes(),
                           memory.host_bytes(), span.waits_for});
    }
  }
  if (const absl::Status status = memory.Finish(); !status.ok()) {
    return AtOperation(status, chain, schedule, schedule.operations.size());
  }
  FillTimes(chain, queues, prediction);
  return simulation;
}

}  // namespace stowage
