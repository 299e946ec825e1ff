#include "client/train/session.h"

#include <ATen/ATen.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/torch/graph_mode.h"
#include "client/torch/profiler.h"
#include "client/torch/torch_guarded.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

// The most that was live while each computation ran, in the order of commands.
class ObservedStages final : public HeldStages {
 public:
  ObservedStages(TorchStages* stages, MemoryMeter* meter, int64_t others)
      : stages_(*stages), meter_(*meter), others_(others) {}

  // By command; -1 for those that compute nothing.
  std::vector<int64_t> PeaksOf(const Plan& plan) const {
    std::vector<int64_t> peaks;
    size_t next = 0;
    for (const Command& command : plan.commands) {
      const bool computes =
          command.queue == Queue::kCompute && command.kind != OperationKind::kRelease;
      peaks.push_back(computes ? peaks_[next++] : -1);
    }
    return peaks;
  }

  absl::Status Begin(DeviceSpan input, void* stream) override {
    return stages_.Begin(input, stream);
  }
  absl::Status Forward(const ForwardCall& call) override {
    return Observed([&] { return stages_.Forward(call); });
  }
  absl::Status Backward(const BackwardCall& call) override {
    return Observed([&] { return stages_.Backward(call); });
  }
  absl::Status End(DeviceSpan input_gradient, void* stream) override {
    return stages_.End(input_gradient, stream);
  }
  absl::Status CopyToHost(int l, PinnedSpan to, void* stream) override {
    return stages_.CopyToHost(l, to, stream);
  }
  absl::Status Release(int l) override { return stages_.Release(l); }
  absl::Status CopyToDevice(int l, PinnedSpan from, void* stream) override {
    return stages_.CopyToDevice(l, from, stream);
  }
  void Abandon() override { stages_.Abandon(); }

 private:
  template <typename Call>
  absl::Status Observed(const Call& call) {
    meter_.ResetPeak();
    absl::Status status = call();
    peaks_.push_back(meter_.PeakBytes() - others_);
    return status;
  }

  TorchStages& stages_;
  MemoryMeter& meter_;
  const int64_t others_;
  std::vector<int64_t> peaks_;
};

TorchStages StagesOfNetwork(std::vector<TorchStage> stages, const TrainDevice& device,
                            const MemoryMeter& meter, bool verifies) {
  return TorchStages(
      std::move(stages),
      {.device = device.torch, .granularity = meter.Granularity(), .verifies = verifies});
}

void ListUnits(const std::vector<TorchStage>& stages, Measured* measured) {
  for (const TorchStage& stage : stages) {
    if (stage.unit == nullptr) continue;
    if (stage.unit->traced()) {
      measured->traced.push_back(stage.name);
    } else {
      measured->blocks.push_back(absl::StrCat(stage.name, ": ", stage.unit->why_not()));
    }
  }
}

}  // namespace

absl::StatusOr<double> StepPlainly(const Network& network, Device* device, at::Tensor* loss) {
  ASSIGN_OR_RETURN(const auto begin, device->Record(Queue::kCompute));
  RETURN_IF_ERROR(device->Launch(Queue::kCompute, [&](void*) {
    return TorchGuarded([&] {
      at::Tensor value = network.input.clone();
      for (const TorchStage& stage : network.stages) value = stage.forward(value);
      *loss = network.loss(value);
      value.reset();
      loss->backward();
      *loss = loss->detach();
      return absl::OkStatus();
    });
  }));
  ASSIGN_OR_RETURN(const auto end, device->Record(Queue::kCompute));
  RETURN_IF_ERROR(device->Synchronize());
  return end->Seconds() - begin->Seconds();
}

Session::Session(Network network, TrainDevice* device, MemoryMeter* meter, int steps, int seed)
    : network_(std::move(network)), device_(*device), meter_(*meter), steps_(steps), seed_(seed) {
  const TorchStages stages = StagesOfNetwork(network_.stages, device_, meter_, false);
  tensors_ = stages.Parameters();
  for (at::Tensor& buffer : stages.Buffers()) tensors_.push_back(buffer);
  for (const at::Tensor& tensor : tensors_) {
    first_.push_back(tensor.detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true));
  }
}

void Session::Restore() {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (!at::equal(tensors_[i].detach().to(at::kCPU), first_[i])) tensors_[i].copy_(first_[i]);
    tensors_[i].mutable_grad() = at::Tensor();
  }
  at::manual_seed(static_cast<uint64_t>(seed_));
}

absl::StatusOr<Measured> Session::Train(const Step& step, const std::function<at::Tensor()>& loss) {
  Restore();
  torch::optim::SGD optimizer(StagesOfNetwork(network_.stages, device_, meter_, false).Parameters(),
                              torch::optim::SGDOptions(0.01).momentum(0.9));
  std::vector<double> seconds;
  Measured measured;
  for (int i = -kUnmeasured; i < steps_; ++i) {
    // Gradients stay where they are: they are no activations.
    for (const auto& group : optimizer.param_groups()) {
      for (const at::Tensor& parameter : group.params()) {
        if (parameter.grad().defined()) parameter.grad().zero_();
      }
    }
    const int64_t others = meter_.LiveBytes();
    meter_.ResetPeak();
    ASSIGN_OR_RETURN(const double once, step());
    if (i >= 0) {
      seconds.push_back(once);
      measured.peak_bytes = std::max(measured.peak_bytes, meter_.PeakBytes() - others);
    }
    optimizer.step();
  }
  measured.step_seconds = MedianOf(std::move(seconds));
  measured.loss = loss().item<double>();
  return measured;
}

absl::StatusOr<Measured> Session::TrainPlainly() {
  at::Tensor loss;
  return Train([&] { return StepPlainly(network_, device_.agent.get(), &loss); },
               [&] { return loss; });
}

absl::StatusOr<Measured> Session::TrainUnder(const Plan& plan, bool verifies) {
  ASSIGN_OR_RETURN(const auto executor, PlanExecutor::Create(&plan, device_.agent.get()));
  ASSIGN_OR_RETURN(const std::vector<TorchStage> in_modes,
                   InModes(network_.stages, plan.execution));
  TorchStages stages = StagesOfNetwork(in_modes, device_, meter_, verifies);
  const auto step = [&]() -> absl::StatusOr<double> {
    stages.Feed(network_.input.clone(), network_.loss);
    ASSIGN_OR_RETURN(const StepReport report, executor->Step(&stages));
    return report.seconds;
  };
  ASSIGN_OR_RETURN(Measured measured, Train(step, [&] { return stages.loss(); }));
  measured.verified = stages.verified();
  ListUnits(in_modes, &measured);
  return measured;
}

std::vector<at::Tensor> Session::Gradients() const {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& tensor : tensors_) {
    if (!tensor.requires_grad()) continue;
    const at::Tensor& gradient = tensor.grad();
    gradients.push_back(gradient.defined() ? gradient.to(at::kCPU, /*non_blocking=*/false,
                                                         /*copy=*/true)
                                           : at::Tensor());
  }
  return gradients;
}

absl::StatusOr<MeasuredStep> Session::Trace(const Plan& plan) {
  ASSIGN_OR_RETURN(const auto executor, PlanExecutor::Create(&plan, device_.agent.get()));
  ASSIGN_OR_RETURN(std::vector<TorchStage> in_modes, InModes(network_.stages, plan.execution));
  TorchStages stages = StagesOfNetwork(std::move(in_modes), device_, meter_, false);
  MeasuredStep measured;
  // The first step of these stages takes a little more memory than others.
  for (int i = 0; i < kUnmeasured; ++i) {
    ObservedStages observed(&stages, &meter_, meter_.LiveBytes());
    stages.Feed(network_.input.clone(), network_.loss);
    ASSIGN_OR_RETURN(StepReport report, executor->Step(&observed, Timing::kEveryCommand));
    measured = {std::move(report.commands), observed.PeaksOf(plan)};
  }
  return measured;
}

}  // namespace stowage
