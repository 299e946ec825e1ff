// Measuring training. Invariants: every training runs kUnmeasured + steps steps from the same
// initial state; gradients of parameters are zeroed, never freed, so that they count as memory that
// is not the step's; a step's peak is the meter's peak minus the bytes live before the step.
#include "tests/gpu/session.h"

#include <ATen/ATen.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/torch/base/torch_guarded.h"
#include "client/torch/join/graph_mode.h"
#include "client/torch/profile/plain_step.h"
#include "client/torch/profile/timed_step.h"
#include "solver/base/quantile.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

// Stages over the session's modules: every training gets new ones, with the same parameters.
TorchStages StagesOfNetwork(std::vector<TorchStage> stages, const TorchDevice& device,
                            const MemoryMeter& meter) {
  return TorchStages(std::move(stages),
                     {.device = device.torch, .granularity = meter.Granularity()});
}

// Lists how the graph-mode units ran.
void ListUnits(const std::vector<TorchStage>& stages, TrainingMeasurement* measured) {
  for (const TorchStage& stage : stages) {
    if (stage.unit == nullptr) continue;
    if (stage.unit->traced()) {
      measured->traced.push_back(stage.name);
    } else {
      measured->as_block.push_back(absl::StrCat(stage.name, ": ", stage.unit->block_reason()));
    }
  }
}

}  // namespace

// On the compute queue, so that it is timed like a step under a schedule.
absl::StatusOr<double> StepWithoutSchedule(const Network& network, Device* device,
                                           at::Tensor* loss) {
  ASSIGN_OR_RETURN(const auto begin, device->Record(Queue::kCompute));
  RETURN_IF_ERROR(device->Launch(Queue::kCompute, [&](void*) {
    return TorchGuarded([&] {
      ASSIGN_OR_RETURN(*loss, PlainStep(network.stages, network.input.clone(), network.loss));
      return absl::OkStatus();
    });
  }));
  ASSIGN_OR_RETURN(const auto end, device->Record(Queue::kCompute));
  RETURN_IF_ERROR(device->Synchronize());
  return end->Seconds() - begin->Seconds();
}

Session::Session(Network network, TorchDevice* device, MemoryMeter* meter,
                 const SessionOptions& options)
    : network_(std::move(network)), device_(*device), meter_(*meter), options_(options) {
  const TorchStages stages = StagesOfNetwork(network_.stages, device_, meter_);
  tensors_ = stages.Parameters();
  for (at::Tensor& buffer : stages.Buffers()) tensors_.push_back(buffer);
  for (const at::Tensor& tensor : tensors_) {
    initial_.push_back(tensor.detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true));
  }
}

void Session::RestoreInitialState() {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    // Some tensors are read-only, such as expanded buffers; those never change.
    const at::Tensor initial = initial_[i].to(tensors_[i].device());
    if (!at::equal(tensors_[i].detach(), initial)) tensors_[i].copy_(initial);
    tensors_[i].mutable_grad() = at::Tensor();
  }
  at::manual_seed(static_cast<uint64_t>(options_.seed));
}

absl::StatusOr<TrainingMeasurement> Session::Train(const Step& step,
                                                   const std::function<at::Tensor()>& loss) {
  // The parameters are the session's own tensors, so the optimizer changes them in place;
  // RestoreInitialState() undoes that for the next training.
  RestoreInitialState();
  torch::optim::SGD optimizer(StagesOfNetwork(network_.stages, device_, meter_).Parameters(),
                              torch::optim::SGDOptions(0.01).momentum(0.9));
  std::vector<double> seconds;
  TrainingMeasurement measured;
  for (int i = -kUnmeasured; i < options_.steps; ++i) {
    // Zeroed in place: their memory is not the step's.
    for (const auto& group : optimizer.param_groups()) {
      for (const at::Tensor& parameter : group.params()) {
        if (parameter.grad().defined()) parameter.grad().zero_();
      }
    }
    const int64_t live_before_bytes = meter_.LiveBytes();
    meter_.ResetPeak();
    ASSIGN_OR_RETURN(const double step_seconds, step());
    if (i >= 0) {
      seconds.push_back(step_seconds);
      measured.peak_bytes = std::max(measured.peak_bytes, meter_.PeakBytes() - live_before_bytes);
    }
    optimizer.step();
  }
  measured.step_seconds = MedianOf(std::move(seconds));
  measured.loss = loss().item<double>();
  return measured;
}

absl::StatusOr<TrainingMeasurement> Session::TrainWithoutSchedule() {
  at::Tensor loss;
  return Train([&] { return StepWithoutSchedule(network_, device_.agent.get(), &loss); },
               [&] { return loss; });
}

absl::StatusOr<TrainingMeasurement> Session::TrainUnder(const FrameworkPlan& plan,
                                                        Verification verification) {
  ASSIGN_OR_RETURN(const auto executor, FrameworkExecutor::Create(&plan, device_.agent.get()));
  ASSIGN_OR_RETURN(const std::vector<TorchStage> in_modes,
                   InModes(network_.stages, plan.execution));
  TorchStages stages = StagesOfNetwork(in_modes, device_, meter_);
  int steps = 0;
  const auto step = [&]() -> absl::StatusOr<double> {
    stages.Feed(network_.input.clone(), network_.loss);
    stages.set_verifies(verification == Verification::kRecomputations && steps++ < kUnmeasured);
    ASSIGN_OR_RETURN(const StepReport report, executor->Step(&stages));
    return report.seconds;
  };
  ASSIGN_OR_RETURN(TrainingMeasurement measured, Train(step, [&] { return stages.loss(); }));
  measured.verified_recomputations = stages.verified_recomputations();
  ListUnits(in_modes, &measured);
  return measured;
}

std::vector<at::Tensor> Session::Gradients() const {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& tensor : tensors_) {
    if (!tensor.requires_grad()) continue;
    const at::Tensor& gradient = tensor.grad();
    gradients.push_back(gradient.defined() ? gradient.clone() : at::Tensor());
  }
  return gradients;
}

absl::StatusOr<std::vector<MeasuredStep>> Session::Trace(const FrameworkPlan& plan, int repeats) {
  ASSIGN_OR_RETURN(const auto executor, FrameworkExecutor::Create(&plan, device_.agent.get()));
  ASSIGN_OR_RETURN(std::vector<TorchStage> in_modes, InModes(network_.stages, plan.execution));
  TorchStages stages = StagesOfNetwork(std::move(in_modes), device_, meter_);
  std::vector<MeasuredStep> measured;
  // The first step of new stages takes a little more memory than later ones.
  for (int i = 1 - kUnmeasured; i < repeats; ++i) {
    stages.Feed(network_.input.clone(), network_.loss);
    ASSIGN_OR_RETURN(MeasuredStep step, TimedStep(plan, executor.get(), &stages, &meter_));
    if (i >= 0) measured.push_back(std::move(step));
  }
  return measured;
}

}  // namespace stowage
