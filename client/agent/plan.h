// A schedule as what three in-order queues are told to do: commands, which of them waits for which,
// and where in two blocks of memory every value lies. Pure; made once, executed every step.
// Source: solver/README.md, "Operations and schedules", "Time", "Host memory".
#ifndef STOWAGE_CLIENT_AGENT_PLAN_H_
#define STOWAGE_CLIENT_AGENT_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/agent/device.h"
#include "client/agent/layout.h"
#include "solver/model/chain.h"
#include "solver/model/modes.h"
#include "solver/model/platform.h"
#include "solver/model/prediction.h"
#include "solver/model/schedule.h"

namespace stowage {

inline constexpr int kNoBlock = -1;

// One operation: command i is operation i of the schedule. A RELEASE is on the compute queue, where
// all that follows waits for its copy. Blocks are numbers in Plan::device, or kNoBlock where there
// is nothing of the kind.
struct Command {
  OperationKind kind = OperationKind::kForwardSave;
  int stage = 0;  // l, of Plan::chain()
  Queue queue = Queue::kCompute;
  std::vector<size_t> waits;  // commands of other queues that must have ended before this begins
  bool awaited = false;       // whether another command waits for this one
  int run = 0;                // of a forward: how often its stage has run before in this step
  int input = kNoBlock;       // of a computation: value l-1
  int value = kNoBlock;       // value l: what a forward adds, a backward reads, a copy moves
  int gradient = kNoBlock;    // of a backward: δ^l,
  int input_gradient = kNoBlock;  // and δ^(l-1)
  int workspace = kNoBlock;       // of a computation: its overhead
  int host = kNoBlock;            // of a copy: a number in Plan::host
};

// Blocks of memory and their places.
struct Region {
  std::vector<MemoryBlock> blocks;  // moments are operations
  Layout layout;
  int64_t peak_bytes = 0;  // the most alive at once, aligned
};

struct PlanOptions {
  int64_t alignment = 256;  // bytes, of every block
  // Whether the agent places values, gradients and overheads; false where a framework's allocator
  // does, and only host copies are placed.
  bool places_values = true;
  // The most that the arena and the pool may take, which is a little more than the schedule's
  // peaks.
  int64_t arena_bytes = INT64_MAX;
  int64_t pool_bytes = INT64_MAX;
};

// Its stages are those of the execution: what graph mode runs as one is one stage, and its forward
// and backward are one call each of Stages. Where a schedule has no modes they are the chain's.
struct Plan {
  Execution execution;
  bool places_values = true;
  std::vector<Command> commands;  // in program order
  Region device;                  // without a layout unless places_values
  Region host;
  int input = kNoBlock;           // value 0 at the beginning
  int input_gradient = kNoBlock;  // δ^0 at the end
  Prediction prediction;

  const Chain& chain() const { return execution.chain(); }
  // "BACKWARD 4", "BACKWARD 2-4 graph": in the numbers of the schedule.
  std::string NameOf(const Command& command) const;
};

// `schedule` may run some stages in graph mode: give the executor stages that know how (those of
// client/torch/graph_mode.h, or any that number theirs as the execution does).
// Errors: INVALID_ARGUMENT for what Violations() and Simulate() name, as where the schedule is of
// another chain, and where it needs more memory than the platform has; RESOURCE_EXHAUSTED where the
// arena or the pool would take more than the options allow: solve for that much less.
absl::StatusOr<Plan> MakePlan(const Chain& chain, const Platform& platform,
                              const Schedule& schedule, const PlanOptions& options = {});

}  // namespace stowage

#endif  // STOWAGE_CLIENT_AGENT_PLAN_H_
