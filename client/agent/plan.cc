#include "client/agent/plan.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"
#include "solver/model/validate.h"
#include "solver/simulator/simulator.h"

namespace stowage {
namespace {

constexpr size_t kNever = SIZE_MAX;

// The commands of a schedule, one operation after another, and the blocks that they use.
class CommandList {
 public:
  CommandList(const Chain& chain, const Platform& platform, Plan* plan)
      : chain_(chain),
        prefetch_queue_(platform.half_duplex ? Queue::kToHost : Queue::kToDevice),
        plan_(plan),
        values_(static_cast<size_t>(chain.length()) + 2),
        gradients_(static_cast<size_t>(chain.length()) + 2, kNoBlock) {
    values_[0].bytes = chain.input_bytes;
    values_[0].device = Begin(&plan_->device, chain.input_bytes);
    plan_->input = values_[0].device;
  }

  void Add(const Operation& operation) {
    const int l = operation.stage;
    switch (operation.kind) {
      case OperationKind::kOffload:
        Offload(l);
        break;
      case OperationKind::kRelease:
        Append(operation.kind, l, Queue::kCompute);
        End(&plan_->device, &values_[l].device);
        break;
      case OperationKind::kPrefetch:
        Prefetch(l);
        break;
      case OperationKind::kBackward:
        Backward(l);
        break;
      default:
        Forward(operation.kind, l);
        break;
    }
    ++now_;
  }

  // δ^0 is what remains.
  void Finish() {
    plan_->input_gradient = gradients_[0];
    End(&plan_->device, &gradients_[0]);
  }

 private:
  struct Value {
    int64_t bytes = 0;
    bool saved = false;
    int device = kNoBlock;
    int host = kNoBlock;
    int runs = 0;
  };

  int Begin(Region* region, int64_t bytes) {
    region->blocks.push_back({bytes, now_, kNever});
    return static_cast<int>(region->blocks.size()) - 1;
  }

  // After the operation in work.
  void End(Region* region, int* block) {
    if (*block == kNoBlock) return;  // the loss's gradient
    region->blocks[static_cast<size_t>(*block)].end = now_ + 1;
    *block = kNoBlock;
  }

  int Workspace(int64_t bytes) {
    if (bytes == 0) return kNoBlock;
    const int workspace = Begin(&plan_->device, bytes);
    plan_->device.blocks.back().end = now_ + 1;
    return workspace;
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

  void Forward(OperationKind kind, int l) {
    Value& value = values_[l];
    value.saved = kind == OperationKind::kForwardSave;
    value.bytes = value.saved ? chain_.saved_bytes(l) : chain_.output_bytes(l);
    value.device = Begin(&plan_->device, value.bytes);
    Command* const command = Append(kind, l, Queue::kCompute);
    command->run = value.runs++;
    command->input = values_[l - 1].device;
    command->workspace = Workspace(chain_.stage(l).forward_overhead_bytes);
    if (kind == OperationKind::kForwardDiscard) End(&plan_->device, &values_[l - 1].device);
  }

  void Backward(int l) {
    Command* const command = Append(OperationKind::kBackward, l, Queue::kCompute);
    command->input = values_[l - 1].device;
    command->gradient = gradients_[l];
    gradients_[l - 1] = Begin(&plan_->device, chain_.gradient_bytes(l - 1));
    command->input_gradient = gradients_[l - 1];
    command->workspace = Workspace(chain_.stage(l).backward_overhead_bytes);
    End(&plan_->device, &gradients_[l]);
    End(&plan_->device, &values_[l].device);
    if (!values_[l - 1].saved) End(&plan_->device, &values_[l - 1].device);
  }

  void Offload(int l) {
    values_[l].host = Begin(&plan_->host, values_[l].bytes);
    Append(OperationKind::kOffload, l, Queue::kToHost)->host = values_[l].host;
  }

  void Prefetch(int l) {
    values_[l].device = Begin(&plan_->device, values_[l].bytes);
    Append(OperationKind::kPrefetch, l, prefetch_queue_)->host = values_[l].host;
    End(&plan_->host, &values_[l].host);
  }

  const Chain& chain_;
  const Queue prefetch_queue_;
  Plan* const plan_;
  std::vector<Value> values_;   // 0..L+1
  std::vector<int> gradients_;  // 0..L+1
  size_t now_ = 0;              // the operation in work
};

// Which commands wait for which, by the rules of "Time", as few as imply the rest; and copies into
// a part of the host's pool for those that still read it.
class Waits {
 public:
  explicit Waits(Plan* plan)
      : plan_(plan),
        offloads_(static_cast<size_t>(plan->chain().length()) + 2, kNever),
        prefetches_(offloads_) {
    ended_.reserve(plan->commands.size());
  }

  void AddToAll() {
    for (size_t index = 0; index < plan_->commands.size(); ++index) {
      AddTo(index);
      const Queue queue = plan_->commands[index].queue;
      ClockOf(queue)[static_cast<size_t>(queue)] = index + 1;
      ended_.push_back(ClockOf(queue));
    }
  }

 private:
  // By queue: up to before which command all of its are known to have ended.
  using Clock = std::array<size_t, kQueues>;

  void AddTo(size_t index) {
    const Command& command = plan_->commands[index];
    const int l = command.stage;
    switch (command.kind) {
      case OperationKind::kOffload:
        WaitFor(last_compute_, index);
        WaitFor(prefetches_[l], index);
        WaitForReadersOf(command.host, index);
        offloads_[l] = index;
        return;
      case OperationKind::kRelease:
        WaitFor(offloads_[l], index);
        last_release_ = index;
        return;
      case OperationKind::kPrefetch:
        WaitFor(last_compute_, index);
        WaitFor(last_release_, index);
        prefetches_[l] = index;
        all_prefetches_.push_back(index);
        return;
      case OperationKind::kBackward:
        WaitFor(prefetches_[l], index);
        break;
      default:
        prefetches_[l] = kNever;  // a new value
        break;
    }
    WaitFor(prefetches_[l - 1], index);
    last_compute_ = index;
  }

  void WaitFor(size_t other, size_t index) {
    if (other == kNever) return;
    Command& command = plan_->commands[index];
    Clock& clock = ClockOf(command.queue);
    if (clock[static_cast<size_t>(plan_->commands[other].queue)] > other) return;
    command.waits.push_back(other);
    plan_->commands[other].awaited = true;
    for (size_t queue = 0; queue < kQueues; ++queue) {
      clock[queue] = std::max(clock[queue], ended_[other][queue]);
    }
  }

  // The latest PREFETCH that may still read where OFFLOAD `index` writes; those before it end
  // before it.
  void WaitForReadersOf(int host, size_t index) {
    const auto begin = [this](int block) {
      return plan_->host.layout.offsets[static_cast<size_t>(block)];
    };
    const auto end = [this, &begin](int block) {
      return begin(block) + plan_->host.blocks[static_cast<size_t>(block)].bytes;
    };
    const Clock& clock = ClockOf(plan_->commands[index].queue);
    for (auto other = all_prefetches_.rbegin(); other != all_prefetches_.rend(); ++other) {
      const Command& reader = plan_->commands[*other];
      if (clock[static_cast<size_t>(reader.queue)] > *other) return;
      if (begin(reader.host) < end(host) && begin(host) < end(reader.host)) {
        return WaitFor(*other, index);
      }
    }
  }

  Clock& ClockOf(Queue queue) { return clocks_[static_cast<size_t>(queue)]; }

  Plan* const plan_;
  std::array<Clock, kQueues> clocks_ = {};
  std::vector<Clock> ended_;        // by command: what is known once it has ended
  std::vector<size_t> offloads_;    // by value: its latest
  std::vector<size_t> prefetches_;  // by value: its latest, if it is of the value that is live
  std::vector<size_t> all_prefetches_;
  size_t last_compute_ = kNever;
  size_t last_release_ = kNever;
};

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
      OperationPath(schedule, *simulation.first_over_limit), " is over a limit; in all it needs ",
      FormatBytes(prediction.peak_memory_bytes), " of the device's ",
      FormatBytes(platform.memory_bytes), " and ", FormatBytes(prediction.peak_host_bytes),
      " of the host's",
      platform.host_memory_bytes > 0 ? absl::StrCat(" ", FormatBytes(platform.host_memory_bytes))
                                     : ""));
}

absl::Status Place(absl::string_view name, int64_t alignment, int64_t most_bytes, Region* region) {
  region->peak_bytes = PeakOf(region->blocks, alignment);
  region->layout = LayOut(region->blocks, alignment);
  const int64_t bytes = region->layout.bytes;
  if (bytes <= most_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the ", name, " takes ", FormatBytes(bytes), ", ", bytes - most_bytes,
                   " bytes more than it may; solve for so much less memory"));
}

}  // namespace

std::string Plan::NameOf(const Command& command) const {
  return OperationName(execution.ToChain({command.kind, command.stage}));
}

absl::StatusOr<Plan> MakePlan(const Chain& chain, const Platform& platform,
                              const Schedule& schedule, const PlanOptions& options) {
  Plan plan;
  ASSIGN_OR_RETURN(plan.prediction, Check(chain, platform, schedule));
  ASSIGN_OR_RETURN(plan.execution, Execution::Of(chain, schedule));
  plan.places_values = options.places_values;
  CommandList commands(plan.chain(), platform, &plan);
  for (const Operation& operation : schedule.operations) {
    commands.Add(plan.execution.FromChain(operation));
  }
  commands.Finish();
  if (options.places_values) {
    RETURN_IF_ERROR(Place("arena", options.alignment, options.arena_bytes, &plan.device));
  }
  RETURN_IF_ERROR(Place("pool of host copies", options.alignment, options.pool_bytes, &plan.host));
  Waits(&plan).AddToAll();
  return plan;
}

}  // namespace stowage
