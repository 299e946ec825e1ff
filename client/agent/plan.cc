// Making a plan, in three passes over the operations:
// 1. CommandBuilder makes a command of each operation and a memory block of each value, gradient,
//    overhead and host copy. A block is alive from the operation that adds it until after the one
//    that drops it, in program order.
// 2. Place() gives the blocks of a region their offsets (layout.h).
// 3. AddWaits() adds the waits between queues (waits.h).
//
// Program order is a safe order of lifetimes for device memory, because the waits of "Time" make
// every command that adds a block start after the commands that free the memory it reuses: a
// PREFETCH waits for the last computation and the last RELEASE before it, and a computation follows
// them on its queue. In the host pool an OFFLOAD may reuse memory that an earlier PREFETCH still
// reads on another queue; AddWaits() adds that wait.
#include "client/agent/plan.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/agent/waits.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"
#include "solver/model/validate.h"
#include "solver/simulator/simulator.h"

namespace stowage {
namespace {

constexpr size_t kNever = SIZE_MAX;

// The commands of a schedule and the blocks that they use.
class CommandBuilder {
 public:
  // `device`: gets the blocks of device memory; null where a framework places them.
  CommandBuilder(const Chain& chain, const Platform& platform, Plan* plan, Region* device)
      : chain_(chain),
        prefetch_queue_(platform.half_duplex ? Queue::kToHost : Queue::kToDevice),
        plan_(plan),
        device_(device),
        values_(static_cast<size_t>(chain.length()) + 2),
        gradients_(static_cast<size_t>(chain.length()) + 2, kNoBlock) {
    values_[0].bytes = chain.input_bytes;
    values_[0].device = AddBlock(device_, chain.input_bytes);
  }

  int input() const { return values_[0].device; }  // value 0's block, before any Add()

  void Add(const Operation& operation) {
    const int l = operation.stage;
    switch (operation.kind) {
      case OperationKind::kOffload:
        Offload(l);
        break;
      case OperationKind::kRelease:
        Append(operation.kind, l, Queue::kCompute);
        EndBlock(device_, &values_[l].device);
        break;
      case OperationKind::kPrefetch:
        Prefetch(l);
        break;
      case OperationKind::kBackward:
        Backward(l);
        break;
      default:
        Forward(operation);
        break;
    }
    ++now_;
  }

  // Ends the block of δ^0, which outlives the last operation, and returns it.
  int Finish() {
    const int input_gradient = gradients_[0];
    EndBlock(device_, &gradients_[0]);
    return input_gradient;
  }

 private:
  struct Value {
    int64_t bytes = 0;
    bool saved = false;     // ā^l rather than a^l
    int device = kNoBlock;  // kNoBlock: not on the device
    int host = kNoBlock;
    int runs = 0;          // forwards so far
    size_t first_run = 0;  // the first one's command
  };

  // Returns the number of a block that is alive from the current operation on.
  int AddBlock(Region* region, int64_t bytes) {
    if (region == nullptr) return kNoBlock;
    region->blocks.push_back({bytes, now_, kNever});
    return static_cast<int>(region->blocks.size()) - 1;
  }

  // The block is free after the current operation.
  void EndBlock(Region* region, int* block) {
    if (*block == kNoBlock) return;  // the loss has no gradient
    region->blocks[static_cast<size_t>(*block)].end = now_ + 1;
    *block = kNoBlock;
  }

  // Alive during the current operation only.
  int AddWorkspace(int64_t bytes) {
    if (bytes == 0) return kNoBlock;
    int workspace = AddBlock(device_, bytes);
    const int added = workspace;
    EndBlock(device_, &workspace);
    return added;
  }

  Command* Append(OperationKind kind, int l, Queue queue) {
    Command command;
    command.kind = kind;
    command.stage = l;
    command.queue = queue;
    command.value = values_[l].device;
    plan_->commands.push_back(std::move(command));
    return &plan_->commands.back();
  }

  void Forward(const Operation& operation) {
    const OperationKind kind = operation.kind;
    const int l = operation.stage;
    Value& value = values_[l];
    value.saved = Saves(kind);
    value.bytes =
        value.saved ? chain_.stage(l).SavedBytes(operation.save_option) : chain_.output_bytes(l);
    value.device = AddBlock(device_, value.bytes);
    Command* const command = Append(kind, l, Queue::kCompute);
    command->save_option = operation.save_option;
    command->run = value.runs++;
    if (command->run == 0) value.first_run = now_;
    plan_->commands[value.first_run].repeated = command->run > 0;
    command->input = values_[l - 1].device;
    command->workspace =
        AddWorkspace(value.saved ? chain_.stage(l).SaveOverheadBytes(operation.save_option)
                                 : chain_.stage(l).forward_overhead_bytes);
    if (Discards(kind)) EndBlock(device_, &values_[l - 1].device);
  }

  void Backward(int l) {
    Command* const command = Append(OperationKind::kBackward, l, Queue::kCompute);
    command->input = values_[l - 1].device;
    command->gradient = gradients_[l];
    gradients_[l - 1] = AddBlock(device_, chain_.gradient_bytes(l - 1));
    command->input_gradient = gradients_[l - 1];
    command->workspace = AddWorkspace(chain_.stage(l).backward_overhead_bytes);
    EndBlock(device_, &gradients_[l]);
    EndBlock(device_, &values_[l].device);
    // A backward drops its input unless that is ā^(l-1), which the next backward reads.
    if (!values_[l - 1].saved) EndBlock(device_, &values_[l - 1].device);
  }

  void Offload(int l) {
    values_[l].host = AddBlock(&plan_->host, values_[l].bytes);
    Append(OperationKind::kOffload, l, Queue::kToHost)->host = values_[l].host;
  }

  void Prefetch(int l) {
    values_[l].device = AddBlock(device_, values_[l].bytes);
    Append(OperationKind::kPrefetch, l, prefetch_queue_)->host = values_[l].host;
    EndBlock(&plan_->host, &values_[l].host);
  }

  const Chain& chain_;
  const Queue prefetch_queue_;
  Plan* const plan_;
  Region* const device_;
  std::vector<Value> values_;   // 0..L+1
  std::vector<int> gradients_;  // 0..L+1
  size_t now_ = 0;              // the current operation
};

// The simulator's prediction of a schedule that is valid and fits.
absl::StatusOr<Prediction> Check(const Chain& chain, const Platform& platform,
                                 const Schedule& schedule) {
  RETURN_IF_ERROR(ViolationsStatus(Violations(chain)));
  RETURN_IF_ERROR(ViolationsStatus(Violations(platform)));
  RETURN_IF_ERROR(ViolationsStatus(Violations(schedule)));
  ASSIGN_OR_RETURN(const Simulation simulation, Simulate(chain, platform, schedule));
  if (simulation.feasible()) return simulation.prediction;
  const Prediction& prediction = simulation.prediction;
  return absl::InvalidArgumentError(absl::StrCat(
      "the schedule does not fit the platform: ",
      OperationPath(schedule, *simulation.first_over_limit, chain.length()),
      " is over a limit; in all it needs ", FormatBytes(prediction.peak_memory_bytes),
      " of the device's ", FormatBytes(platform.memory_bytes), " and ",
      FormatBytes(prediction.peak_host_bytes), " of the host's",
      platform.host_memory_bytes > 0 ? absl::StrCat(" ", FormatBytes(platform.host_memory_bytes))
                                     : ""));
}

struct RegionLimits {
  int64_t alignment = 0;  // bytes
  int64_t bytes = 0;
};

absl::Status Place(absl::string_view name, const RegionLimits& limits, Region* region) {
  region->peak_bytes = PeakOf(region->blocks, limits.alignment);
  region->layout = LayOut(region->blocks, limits.alignment);
  const int64_t bytes = region->layout.bytes;
  if (bytes <= limits.bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the ", name, " takes ", FormatBytes(bytes), ", ", bytes - limits.bytes,
                   " bytes more than its limit; solve for that many bytes less"));
}

absl::Status CheckOwnWays(const Chain& chain, const Schedule& schedule) {
  for (size_t i = 0; i < schedule.operations.size(); ++i) {
    if (schedule.operations[i].save_option == 0) continue;
    return absl::UnimplementedError(
        absl::StrCat(OperationPath(schedule, i, chain.length()),
                     ": stages in an arena are saved in their own way only; solve the chain again "
                     "without save_options"));
  }
  return absl::OkStatus();
}

// Checks the schedule and fills in everything but blocks and commands.
absl::Status StartPlan(const Chain& chain, const Platform& platform, const Schedule& schedule,
                       Plan* plan) {
  ASSIGN_OR_RETURN(plan->prediction, Check(chain, platform, schedule));
  ASSIGN_OR_RETURN(plan->execution, Execution::Of(chain, ChainUnits(chain), schedule));
  return absl::OkStatus();
}

void AddCommands(const Schedule& schedule, const Execution& execution, CommandBuilder* builder) {
  for (const Operation& operation : schedule.operations) {
    builder->Add(execution.FromChain(operation));
  }
}

// Whether BACKWARD l is the next computation after FORWARD_SAVE l, command `index`. Not where
// OFFLOAD l is between, which would copy what a replay leaves out.
bool MayEndEarly(const std::vector<Command>& commands, size_t index) {
  const Command& forward = commands[index];
  if (!Saves(forward.kind) || forward.save_option != 0) return false;
  const auto next = std::find_if(
      commands.begin() + static_cast<std::ptrdiff_t>(index) + 1, commands.end(),
      [&](const Command& command) {
        return IsCompute(command.kind) ||
               (command.kind == OperationKind::kOffload && command.stage == forward.stage);
      });
  return next != commands.end() && next->kind == OperationKind::kBackward &&
         next->stage == forward.stage;
}

// Marks the replays of stages for which a replay takes less, and the forwards before them.
void MarkReplays(Plan* plan) {
  std::vector<size_t> latest(static_cast<size_t>(plan->chain().length()) + 2, kNever);
  for (size_t i = 0; i < plan->commands.size(); ++i) {
    Command& command = plan->commands[i];
    if (!IsForward(command.kind)) continue;
    const size_t before = std::exchange(latest[static_cast<size_t>(command.stage)], i);
    if (before == kNever || Saves(plan->commands[before].kind)) continue;
    if (!plan->chain().stage(command.stage).replay_seconds.has_value()) continue;
    command.replay = MayEndEarly(plan->commands, i);
    plan->commands[before].replayed = command.replay;
  }
}

// Waits come last: they depend on the offsets of host copies.
absl::Status PlacePoolAndAddWaits(const RegionLimits& limits, Plan* plan) {
  RETURN_IF_ERROR(Place("pool of host copies", limits, &plan->host));
  AddWaits(plan->chain().length(), plan->host, &plan->commands);
  return absl::OkStatus();
}

}  // namespace

std::string Plan::NameOf(const Command& command) const {
  return OperationName(execution.ToChain({command.kind, command.stage}));
}

absl::StatusOr<ArenaPlan> MakeArenaPlan(const Chain& chain, const Platform& platform,
                                        const Schedule& schedule, const ArenaPlanOptions& options) {
  RETURN_IF_ERROR(CheckOwnWays(chain, schedule));
  ArenaPlan plan;
  RETURN_IF_ERROR(StartPlan(chain, platform, schedule, &plan));
  CommandBuilder builder(plan.chain(), platform, &plan, &plan.device);
  plan.input = builder.input();
  AddCommands(schedule, plan.execution, &builder);
  plan.input_gradient = builder.Finish();
  RETURN_IF_ERROR(Place("arena", {options.alignment, options.arena_bytes}, &plan.device));
  RETURN_IF_ERROR(PlacePoolAndAddWaits({options.alignment, options.pool_bytes}, &plan));
  return plan;
}

absl::StatusOr<FrameworkPlan> MakeFrameworkPlan(const Chain& chain, const Platform& platform,
                                                const Schedule& schedule,
                                                const FrameworkPlanOptions& options) {
  FrameworkPlan plan;
  RETURN_IF_ERROR(StartPlan(chain, platform, schedule, &plan));
  CommandBuilder builder(plan.chain(), platform, &plan, /*device=*/nullptr);
  AddCommands(schedule, plan.execution, &builder);
  MarkReplays(&plan);
  RETURN_IF_ERROR(PlacePoolAndAddWaits({options.alignment, options.pool_bytes}, &plan));
  return plan;
}

}  // namespace stowage
