// Turns a schedule into a plan: commands for three in-order queues, the waits between them, and an
// offset for every block of memory that the agent allocates. Pure; made once, executed every step.
// Source: solver/README.md, "Operations and schedules", "Time", "Host memory".
#ifndef STOWAGE_CLIENT_AGENT_PLAN_H_
#define STOWAGE_CLIENT_AGENT_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/agent/command.h"
#include "solver/model/chain.h"
#include "solver/model/modes.h"
#include "solver/model/platform.h"
#include "solver/model/prediction.h"
#include "solver/model/schedule.h"

namespace stowage {

// What both kinds of plan have. Stages are those of the execution: a unit in graph mode is one
// stage, with one forward call and one backward call. Without modes they are the chain's stages.
struct Plan {
  Execution execution;
  std::vector<Command> commands;  // in program order
  Region host;                    // the pinned pool: host copies of offloaded values
  Prediction prediction;

  const Chain& chain() const { return execution.chain(); }
  // "BACKWARD 4", "BACKWARD 2-4 graph": with the stage numbers of the schedule.
  std::string NameOf(const Command& command) const;
};

// The agent places values, gradients and overheads, in one arena: for ArenaStages.
struct ArenaPlan : Plan {
  Region device;                  // the arena
  int input = kNoBlock;           // value 0, written before the first command
  int input_gradient = kNoBlock;  // δ^0, read after the last command
};

// A framework's allocator places them, and the agent only the host copies: for FrameworkStages.
struct FrameworkPlan : Plan {};

// Limits are in bytes. Arena and pool are a little larger than the schedule's peaks.
struct ArenaPlanOptions {
  int64_t alignment = 256;  // bytes, of every block
  int64_t arena_bytes = INT64_MAX;
  int64_t pool_bytes = INT64_MAX;
};
struct FrameworkPlanOptions {
  int64_t alignment = 256;  // bytes, of every host copy
  int64_t pool_bytes = INT64_MAX;
};

// A schedule may run units in graph mode: the stages that execute the plan are then numbered like
// the execution's, as those of client/torch/join/graph_mode.h.
// Errors of both: INVALID_ARGUMENT for what Violations() and Simulate() report, also for a schedule
// of another chain and for one that needs more memory than the platform has; RESOURCE_EXHAUSTED
// where arena or pool exceed their limit: solve again for that many bytes less. UNIMPLEMENTED where
// an arena's schedule has a save_option: only frameworks know how to save less of a stage.
absl::StatusOr<ArenaPlan> MakeArenaPlan(const Chain& chain, const Platform& platform,
                                        const Schedule& schedule,
                                        const ArenaPlanOptions& options = {});
absl::StatusOr<FrameworkPlan> MakeFrameworkPlan(const Chain& chain, const Platform& platform,
                                                const Schedule& schedule,
                                                const FrameworkPlanOptions& options = {});

}  // namespace stowage

#endif  // STOWAGE_CLIENT_AGENT_PLAN_H_
