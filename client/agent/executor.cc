// Executing a plan. Invariants of one step:
// - Commands are enqueued in program order, each on its queue, so that a queue runs its commands in
//   program order. Everything else that must be ordered is in Command::waits, as events.
// - Begin() runs on the compute queue, and both copy queues wait for it. End() is the last work of
//   the compute queue.
// - Work may run in the call that enqueues it (on an accelerator) or later on another thread (on
//   the host). Its error names the operation in both cases, and exactly once.
// - Synchronize() returns before Step() does, also after an error: work that is still enqueued uses
//   the step's memory and this step's objects.
#include "client/agent/executor.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/agent/guarded.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

using EventPointer = std::shared_ptr<const Event>;

ForwardCall CallOf(const Command& command, void* stream) {
  return {.stage = command.stage,
          .kind = command.kind,
          .run = command.run,
          .repeated = command.repeated,
          .replayed = command.replayed,
          .replay = command.replay,
          .save_option = command.save_option,
          .stream = stream};
}

// One step of either kind of plan; a subclass says what a command does.
class PlanStep {
 public:
  PlanStep(const Plan& plan, Device* device, PinnedSpan pool, Timing timing)
      : plan_(plan), device_(*device), pool_(pool), timing_(timing), ends_(plan.commands.size()) {
    if (timing == Timing::kEveryCommand) starts_.resize(plan.commands.size());
  }
  virtual ~PlanStep() = default;
  PlanStep(const PlanStep&) = delete;
  PlanStep& operator=(const PlanStep&) = delete;

  absl::StatusOr<StepReport> Run() {
    absl::Status status = Guarded([this] { return EnqueueAll(); });
    // Also after an error: enqueued work uses the step's memory until the device is idle.
    status.Update(device_.Synchronize());
    if (status.ok()) return Report();
    Abandon();
    return status;
  }

 protected:
  virtual absl::Status Begin(void* stream) = 0;
  virtual absl::Status End(void* stream) = 0;
  // Enqueues command `index`; its waits are enqueued already. Errors name the operation.
  virtual absl::Status Enqueue(size_t index) = 0;
  // Cleans up after a step that failed; the device is idle.
  virtual void Abandon() = 0;

  const Command& command(size_t index) const { return plan_.commands[index]; }
  Device& device() { return device_; }

  // `status` with the operation before its message.
  absl::Status NameOperation(size_t index, const absl::Status& status) const {
    if (status.ok()) return status;
    return {status.code(), absl::StrCat("operations[", index, "] ", plan_.NameOf(command(index)),
                                        ": ", status.message())};
  }

  template <typename Call>
  absl::Status Launch(size_t index, Call call) {
    return device_.Launch(command(index).queue, WorkOf(index, std::move(call)));
  }

  template <typename Call>
  absl::Status LaunchCopy(size_t index, Direction direction, Call call) {
    return device_.LaunchCopy(command(index).queue, direction, HostSpan(command(index)).bytes,
                              WorkOf(index, std::move(call)));
  }

  PinnedSpan HostSpan(const Command& command) const {
    const auto index = static_cast<size_t>(command.host);
    return {pool_.data + plan_.host.layout.offsets[index], plan_.host.blocks[index].bytes};
  }

 private:
  absl::Status EnqueueAll() {
    RETURN_IF_ERROR(EnqueueBegin());
    for (size_t i = 0; i < plan_.commands.size(); ++i) RETURN_IF_ERROR(EnqueueWithEvents(i));
    // The step ends when the last command of every queue has.
    for (size_t queue = 0; queue < kQueues; ++queue) {
      ASSIGN_OR_RETURN(last_[queue], device_.Record(static_cast<Queue>(queue)));
    }
    return LaunchOutside("the end of the step", [this](void* stream) { return End(stream); });
  }

  absl::Status EnqueueBegin() {
    RETURN_IF_ERROR(
        LaunchOutside("the beginning of the step", [this](void* stream) { return Begin(stream); }));
    ASSIGN_OR_RETURN(begin_, device_.Record(Queue::kCompute));
    RETURN_IF_ERROR(device_.Wait(Queue::kToHost, begin_));
    return device_.Wait(Queue::kToDevice, begin_);
  }

  // Work that is no operation; `what` names it in errors.
  template <typename Call>
  absl::Status LaunchOutside(const char* what, Call call) {
    return device_.Launch(Queue::kCompute, [what, call = std::move(call)](void* stream) {
      absl::Status status = Guarded([&] { return call(stream); });
      if (status.ok()) return status;
      return absl::Status(status.code(), absl::StrCat(what, ": ", status.message()));
    });
  }

  absl::Status EnqueueWithEvents(size_t index) {
    RETURN_IF_ERROR(NameOperation(index, EnqueueWaits(index)));
    RETURN_IF_ERROR(Enqueue(index));
    return NameOperation(index, RecordEnd(index));
  }

  absl::Status EnqueueWaits(size_t index) {
    const Command& command = plan_.commands[index];
    for (const size_t other : command.waits) {
      RETURN_IF_ERROR(device_.Wait(command.queue, ends_[other]));
    }
    // After the waits, so that a command's time does not include them.
    if (timing_ == Timing::kEveryCommand) {
      ASSIGN_OR_RETURN(starts_[index], device_.Record(command.queue));
    }
    return absl::OkStatus();
  }

  absl::Status RecordEnd(size_t index) {
    const Command& command = plan_.commands[index];
    if (timing_ == Timing::kEveryCommand || command.awaited) {
      ASSIGN_OR_RETURN(ends_[index], device_.Record(command.queue));
    }
    return absl::OkStatus();
  }

  template <typename Call>
  DeviceWork WorkOf(size_t index, Call call) {
    return [this, index, call = std::move(call)](void* stream) {
      return NameOperation(index, Guarded([&] { return call(stream); }));
    };
  }

  // Requires: every event has happened.
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

  const Plan& plan_;
  Device& device_;
  const PinnedSpan pool_;
  const Timing timing_;
  EventPointer begin_;
  std::vector<EventPointer> starts_;  // by command; empty unless every command is timed
  std::vector<EventPointer> ends_;    // by command; null where nothing waits and nothing is timed
  std::array<EventPointer, kQueues> last_;
};

// Copies run between arena and pool; a RELEASE only orders others, by its waits.
class ArenaStep final : public PlanStep {
 public:
  struct Memory {
    DeviceSpan arena;
    PinnedSpan pool;
  };

  ArenaStep(const ArenaPlan& plan, Device* device, const Memory& memory, ArenaStages* stages,
            Timing timing)
      : PlanStep(plan, device, memory.pool, timing),
        plan_(plan),
        arena_(memory.arena),
        stages_(*stages) {}

 private:
  absl::Status Begin(void* stream) override { return stages_.Begin(Span(plan_.input), stream); }
  absl::Status End(void* stream) override {
    return stages_.End(Span(plan_.input_gradient), stream);
  }
  void Abandon() override {}

  absl::Status Enqueue(size_t index) override {
    const Command& command = plan_.commands[index];
    switch (command.kind) {
      case OperationKind::kOffload:
        return NameOperation(index,
                             device().Copy(command.queue, Span(command.value), HostSpan(command)));
      case OperationKind::kPrefetch:
        return NameOperation(index,
                             device().Copy(command.queue, HostSpan(command), Span(command.value)));
      case OperationKind::kRelease:
        return absl::OkStatus();
      case OperationKind::kBackward:
        return Launch(index, [this, &command](void* stream) { return Backward(command, stream); });
      default:
        return Launch(index, [this, &command](void* stream) { return Forward(command, stream); });
    }
  }

  absl::Status Forward(const Command& command, void* stream) {
    return stages_.Forward(CallOf(command, stream), {.input = Input(command),
                                                     .value = Span(command.value),
                                                     .workspace = Span(command.workspace)});
  }

  absl::Status Backward(const Command& command, void* stream) {
    return stages_.Backward({.stage = command.stage, .stream = stream},
                            {.input = Input(command),
                             .value = Span(command.value),
                             .gradient = Span(command.gradient),
                             .input_gradient = Span(command.input_gradient),
                             .workspace = Span(command.workspace)});
  }

  // a^(l-1): the first part of value l-1, which may be ā^(l-1).
  DeviceSpan Input(const Command& command) const {
    DeviceSpan span = Span(command.input);
    span.bytes = std::min(span.bytes, plan_.chain().output_bytes(command.stage - 1));
    return span;
  }

  DeviceSpan Span(int block) const {
    if (block == kNoBlock) return {};
    const auto index = static_cast<size_t>(block);
    return {arena_.data + plan_.device.layout.offsets[index], plan_.device.blocks[index].bytes};
  }

  const ArenaPlan& plan_;
  const DeviceSpan arena_;
  ArenaStages& stages_;
};

// Copies and releases are calls of the stages, since only the framework has the values' addresses.
class FrameworkStep final : public PlanStep {
 public:
  FrameworkStep(const FrameworkPlan& plan, Device* device, PinnedSpan pool, FrameworkStages* stages,
                Timing timing)
      : PlanStep(plan, device, pool, timing), stages_(*stages) {}

 private:
  absl::Status Begin(void* stream) override { return stages_.Begin(stream); }
  absl::Status End(void* stream) override { return stages_.End(stream); }
  void Abandon() override { stages_.Abandon(); }

  absl::Status Enqueue(size_t index) override {
    const Command& command = this->command(index);
    const int l = command.stage;
    switch (command.kind) {
      case OperationKind::kOffload:
        return LaunchCopy(index, Direction::kToHost, [this, l, &command](void* stream) {
          return stages_.CopyToHost(l, HostSpan(command), stream);
        });
      case OperationKind::kPrefetch:
        return LaunchCopy(index, Direction::kToDevice, [this, l, &command](void* stream) {
          return stages_.CopyToDevice(l, HostSpan(command), stream);
        });
      case OperationKind::kRelease:
        return Launch(index, [this, l](void*) { return stages_.Release(l); });
      case OperationKind::kBackward:
        return Launch(index, [this, l](void* stream) {
          return stages_.Backward({.stage = l, .stream = stream});
        });
      default:
        return Launch(index, [this, &command](void* stream) {
          return stages_.Forward(CallOf(command, stream));
        });
    }
  }

  FrameworkStages& stages_;
};

absl::Status AllocatePool(const Plan& plan, Device* device, PinnedSpan* pool) {
  if (plan.host.layout.bytes == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(*pool, device->AllocatePinned(plan.host.layout.bytes));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ArenaExecutor>> ArenaExecutor::Create(const ArenaPlan* plan,
                                                                     Device* device) {
  std::unique_ptr<ArenaExecutor> executor(new ArenaExecutor(plan, device));
  if (plan->device.layout.bytes > 0) {
    ASSIGN_OR_RETURN(executor->arena_, device->Allocate(plan->device.layout.bytes));
  }
  RETURN_IF_ERROR(AllocatePool(*plan, device, &executor->pool_));
  return executor;
}

ArenaExecutor::~ArenaExecutor() {
  device_.Free(arena_);
  device_.FreePinned(pool_);
}

absl::StatusOr<StepReport> ArenaExecutor::Step(ArenaStages* stages, Timing timing) {
  return ArenaStep(plan_, &device_, {arena_, pool_}, stages, timing).Run();
}

absl::StatusOr<std::unique_ptr<FrameworkExecutor>> FrameworkExecutor::Create(
    const FrameworkPlan* plan, Device* device) {
  std::unique_ptr<FrameworkExecutor> executor(new FrameworkExecutor(plan, device));
  RETURN_IF_ERROR(AllocatePool(*plan, device, &executor->pool_));
  return executor;
}

FrameworkExecutor::~FrameworkExecutor() { device_.FreePinned(pool_); }

absl::StatusOr<StepReport> FrameworkExecutor::Step(FrameworkStages* stages, Timing timing) {
  return FrameworkStep(plan_, &device_, pool_, stages, timing).Run();
}

}  // namespace stowage
