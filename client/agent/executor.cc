#include "client/agent/executor.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/agent/guarded.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

using EventPointer = std::shared_ptr<const Event>;

absl::Status At(const Plan& plan, size_t index, const absl::Status& status) {
  if (status.ok()) return status;
  return {status.code(), absl::StrCat("operations[", index, "] ", plan.NameOf(plan.commands[index]),
                                      ": ", status.message())};
}

}  // namespace

// One step.
class PlanExecutor::Issue {
 public:
  Issue(PlanExecutor* executor, Stages* stages, HeldStages* holder, Timing timing)
      : plan_(executor->plan_),
        device_(executor->device_),
        arena_(executor->arena_),
        pool_(executor->pool_),
        stages_(*stages),
        holder_(holder),
        timing_(timing),
        ends_(plan_.commands.size()) {
    if (timing == Timing::kEveryCommand) starts_.resize(plan_.commands.size());
  }

  absl::Status All() {
    RETURN_IF_ERROR(Begin());
    for (size_t i = 0; i < plan_.commands.size(); ++i) RETURN_IF_ERROR(One(i));
    for (size_t queue = 0; queue < kQueues; ++queue) {
      ASSIGN_OR_RETURN(last_[queue], device_.Record(static_cast<Queue>(queue)));
    }
    return LaunchGuarded("the end of the step", [this](void* stream) {
      return stages_.End(Span(plan_.input_gradient), stream);
    });
  }

  // Requires: all has ended well.
  StepReport Report() const {
    StepReport report;
    const double begin = begin_->Seconds();
    for (const EventPointer& last : last_) {
      report.seconds = std::max(report.seconds, last->Seconds() - begin);
    }
    for (size_t i = 0; i < starts_.size(); ++i) {
      report.commands.push_back({starts_[i]->Seconds() - begin, ends_[i]->Seconds() - begin});
    }
    return report;
  }

 private:
  absl::Status Begin() {
    RETURN_IF_ERROR(LaunchGuarded("the beginning of the step", [this](void* stream) {
      return stages_.Begin(Span(plan_.input), stream);
    }));
    ASSIGN_OR_RETURN(begin_, device_.Record(Queue::kCompute));
    RETURN_IF_ERROR(device_.Wait(Queue::kToHost, begin_));
    return device_.Wait(Queue::kToDevice, begin_);
  }

  absl::Status LaunchGuarded(const char* what, std::function<absl::Status(void*)> call) {
    return device_.Launch(Queue::kCompute, [what, call = std::move(call)](void* stream) {
      absl::Status status = Guarded([&] { return call(stream); });
      if (status.ok()) return status;
      return absl::Status(status.code(), absl::StrCat(what, ": ", status.message()));
    });
  }

  // Errors name the operation, once: work may run, and fail, in the call that launches it.
  absl::Status One(size_t i) {
    const Command& command = plan_.commands[i];
    RETURN_IF_ERROR(At(plan_, i, Before(i)));
    RETURN_IF_ERROR(Enqueue(i, command));
    return At(plan_, i, After(i));
  }

  absl::Status Before(size_t i) {
    const Command& command = plan_.commands[i];
    for (const size_t other : command.waits) {
      RETURN_IF_ERROR(device_.Wait(command.queue, ends_[other]));
    }
    if (timing_ == Timing::kEveryCommand) {
      ASSIGN_OR_RETURN(starts_[i], device_.Record(command.queue));
    }
    return absl::OkStatus();
  }

  absl::Status After(size_t i) {
    const Command& command = plan_.commands[i];
    if (timing_ == Timing::kEveryCommand || command.awaited) {
      ASSIGN_OR_RETURN(ends_[i], device_.Record(command.queue));
    }
    return absl::OkStatus();
  }

  absl::Status Enqueue(size_t i, const Command& command) {
    switch (command.kind) {
      case OperationKind::kOffload:
        if (holder_ == nullptr) {
          return At(plan_, i, device_.Copy(command.queue, Span(command.value), Host(command)));
        }
        return LaunchCopyAt(i, Direction::kToHost, [this, &command](void* stream) {
          return holder_->CopyToHost(command.stage, Host(command), stream);
        });
      case OperationKind::kPrefetch:
        if (holder_ == nullptr) {
          return At(plan_, i, device_.Copy(command.queue, Host(command), Span(command.value)));
        }
        return LaunchCopyAt(i, Direction::kToDevice, [this, &command](void* stream) {
          return holder_->CopyToDevice(command.stage, Host(command), stream);
        });
      case OperationKind::kRelease:
        if (holder_ == nullptr) return absl::OkStatus();
        return LaunchAt(i, [this, &command](void*) { return holder_->Release(command.stage); });
      case OperationKind::kBackward:
        return LaunchAt(i, [this, &command](void* stream) {
          return stages_.Backward(BackwardOf(command, stream));
        });
      default:
        return LaunchAt(i, [this, &command](void* stream) {
          return stages_.Forward(ForwardOf(command, stream));
        });
    }
  }

  template <typename Call>
  absl::Status LaunchAt(size_t i, Call call) {
    return device_.Launch(plan_.commands[i].queue, WorkAt(i, std::move(call)));
  }

  template <typename Call>
  absl::Status LaunchCopyAt(size_t i, Direction direction, Call call) {
    const Command& command = plan_.commands[i];
    return device_.LaunchCopy(command.queue, direction, Host(command).bytes,
                              WorkAt(i, std::move(call)));
  }

  template <typename Call>
  Work WorkAt(size_t i, Call call) {
    return [this, i, call = std::move(call)](void* stream) {
      return At(plan_, i, Guarded([&] { return call(stream); }));
    };
  }

  ForwardCall ForwardOf(const Command& command, void* stream) const {
    return {.stage = command.stage,
            .kind = command.kind,
            .run = command.run,
            .input = Input(command),
            .value = Span(command.value),
            .workspace = Span(command.workspace),
            .stream = stream};
  }

  BackwardCall BackwardOf(const Command& command, void* stream) const {
    return {.stage = command.stage,
            .input = Input(command),
            .value = Span(command.value),
            .gradient = Span(command.gradient),
            .input_gradient = Span(command.input_gradient),
            .workspace = Span(command.workspace),
            .stream = stream};
  }

  // a^(l-1), whatever else value l-1 holds behind it.
  DeviceSpan Input(const Command& command) const {
    DeviceSpan span = Span(command.input);
    span.bytes = std::min(span.bytes, plan_.chain().output_bytes(command.stage - 1));
    return span;
  }

  DeviceSpan Span(int block) const {
    if (block == kNoBlock || !plan_.places_values) return {};
    const auto index = static_cast<size_t>(block);
    return {arena_.data + plan_.device.layout.offsets[index], plan_.device.blocks[index].bytes};
  }

  PinnedSpan Host(const Command& command) const {
    const auto index = static_cast<size_t>(command.host);
    return {pool_.data + plan_.host.layout.offsets[index], plan_.host.blocks[index].bytes};
  }

  const Plan& plan_;
  Device& device_;
  const DeviceSpan arena_;
  const PinnedSpan pool_;
  Stages& stages_;
  HeldStages* const holder_;
  const Timing timing_;
  EventPointer begin_;
  std::vector<EventPointer> starts_;
  std::vector<EventPointer> ends_;
  std::array<EventPointer, kQueues> last_;
};

absl::StatusOr<std::unique_ptr<PlanExecutor>> PlanExecutor::Create(const Plan* plan,
                                                                   Device* device) {
  std::unique_ptr<PlanExecutor> executor(new PlanExecutor(plan, device));
  if (plan->device.layout.bytes > 0) {
    ASSIGN_OR_RETURN(executor->arena_, device->Allocate(plan->device.layout.bytes));
  }
  if (plan->host.layout.bytes > 0) {
    ASSIGN_OR_RETURN(executor->pool_, device->AllocatePinned(plan->host.layout.bytes));
  }
  return executor;
}

PlanExecutor::~PlanExecutor() {
  device_.Free(arena_);
  device_.FreePinned(pool_);
}

absl::StatusOr<StepReport> PlanExecutor::Step(Stages* stages, Timing timing) {
  if (!plan_.places_values) {
    return absl::FailedPreconditionError(
        "the plan leaves values to a framework: these stages need one with places_values");
  }
  return Run(stages, nullptr, timing);
}

absl::StatusOr<StepReport> PlanExecutor::Step(HeldStages* stages, Timing timing) {
  if (plan_.places_values) {
    return absl::FailedPreconditionError(
        "the plan places values: stages that hold them need one without places_values");
  }
  return Run(stages, stages, timing);
}

absl::StatusOr<StepReport> PlanExecutor::Run(Stages* stages, HeldStages* holder, Timing timing) {
  Issue issue(this, stages, holder, timing);
  absl::Status status = Guarded([&issue] { return issue.All(); });
  // Whatever has failed, what is under way still uses the step's memory.
  status.Update(device_.Synchronize());
  if (status.ok()) return issue.Report();
  if (holder != nullptr) holder->Abandon();
  return status;
}

}  // namespace stowage
