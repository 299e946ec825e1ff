#include "client/torch/fit.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/torch/base/memory_meter.h"
#include "client/torch/fit/fit_network.h"
#include "client/torch/fit/scheduled_steps.h"
#include "client/torch/fit/shape_plan.h"
#include "client/torch/fit/shape_planner.h"
#include "client/torch/profile/plain_step.h"
#include "solver/base/prefixed.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

constexpr size_t kMaxPlans = 8;  // each holds its copies in host memory

[[noreturn]] void Throw(const absl::Status& status) {
  const std::string message(status.message());
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
      C10_THROW_ERROR(ValueError, message);
    case absl::StatusCode::kResourceExhausted:
      C10_THROW_ERROR(OutOfMemoryError, message);
    default:
      C10_THROW_ERROR(Error, message);
  }
}

template <typename Value>
Value OrThrow(absl::StatusOr<Value> value) {
  if (!value.ok()) Throw(value.status());
  return *std::move(value);
}

// "8x3x32x32 float".
std::string ShapeOf(const at::Tensor& tensor) {
  return absl::StrCat(absl::StrJoin(tensor.sizes(), "x"), " ", c10::toString(tensor.scalar_type()));
}

// "8x512 Long, mask 8x512 Bool".
std::string ShapeOf(const TorchInput& input) {
  std::string shape = ShapeOf(input.tensor);
  for (const auto& [name, tensor] : input.sides) {
    absl::StrAppend(&shape, ", ", name, " ", ShapeOf(tensor));
  }
  return shape;
}

}  // namespace

class Fit::Parts {
 public:
  static absl::StatusOr<std::unique_ptr<Parts>> Create(std::vector<TorchStage> stages,
                                                       const TorchInput& input,
                                                       const TorchLoss& loss,
                                                       const FitOptions& options) {
    ASSIGN_OR_RETURN(std::unique_ptr<FitNetwork> network,
                     FitNetwork::Open(std::move(stages), input, loss, options));
    auto parts = std::make_unique<Parts>(std::move(network));
    RETURN_IF_ERROR(parts->PlanFor(input, loss).status());
    return parts;
  }
  explicit Parts(std::unique_ptr<FitNetwork> network)
      : network_(std::move(network)), planner_(network_.get()) {}

  absl::StatusOr<MeasuredStep> TimedStepOf(const TorchInput& input, const TorchLoss& loss) {
    RETURN_IF_ERROR(CheckFed(input, loss));
    ASSIGN_OR_RETURN(ShapePlan* const plan, PlanFor(input, loss));
    if (plan->scheduled != nullptr) return plan->scheduled->Timed(input, loss);
    return absl::InvalidArgumentError("a step is plain training, of which nothing is timed");
  }

  const FitPlan& LastPlan() const { return plans_.front(); }

  absl::StatusOr<at::Tensor> Step(const TorchInput& input, const TorchLoss& loss) {
    RETURN_IF_ERROR(CheckFed(input, loss));
    ASSIGN_OR_RETURN(ShapePlan* const plan, PlanFor(input, loss));
    MemoryMeter& meter = *network_->meter();
    const int64_t gradient_bytes = network_->GradientBytes();
    const int64_t before_bytes = meter.LiveBytes();
    meter.ResetPeak();
    ASSIGN_OR_RETURN(const StepResult result, plan->scheduled == nullptr
                                                  ? RunPlain(input, loss)
                                                  : plan->scheduled->Step(input, loss));
    // A schedule's memory includes the input, which the caller has already.
    plan->steps.Add(result.seconds, meter.PeakBytes() - before_bytes + StridedBytes(input.tensor),
                    network_->GradientBytes() - gradient_bytes);
    return result.loss;
  }

  std::string Summary() const {
    std::string text = network_->Summary();
    for (const ShapePlan& plan : plans_) text += SummaryOf(plan, network_->options().servers);
    return text;
  }

  std::string Report() const {
    std::string text;
    for (const ShapePlan& plan : plans_) text += ReportOf(plan);
    return text;
  }

 private:
  // The plan used last is the first.
  absl::StatusOr<ShapePlan*> PlanFor(const TorchInput& input, const TorchLoss& loss) {
    const std::string shape = ShapeOf(input);
    const std::vector<bool> state = network_->State();
    const auto found = std::find_if(plans_.begin(), plans_.end(), [&](const ShapePlan& plan) {
      return plan.shape == shape && plan.state == state;
    });
    if (found != plans_.end()) {
      plans_.splice(plans_.begin(), plans_, found);
      ShapePlan& plan = plans_.front();
      if (plan.pending != nullptr && plan.pending->ReadyWithin(0)) {
        RETURN_IF_ERROR(
            Prefixed(absl::StrCat("input ", shape), planner_.FinishSolve(&plan, input, loss)));
      }
      return &plan;
    }
    absl::StatusOr<ShapePlan> made = planner_.MakePlan(shape, input, loss, plans_);
    if (!made.ok()) return Prefixed(absl::StrCat("input ", shape), made.status());
    plans_.push_front(*std::move(made));
    if (plans_.size() > kMaxPlans) plans_.pop_back();
    return &plans_.front();
  }

  // Timed on the device's queue, which is LibTorch's current stream on a GPU.
  absl::StatusOr<StepResult> RunPlain(const TorchInput& input, const TorchLoss& loss) {
    Device& device = *network_->device();
    ASSIGN_OR_RETURN(const auto begin, device.Record(Queue::kCompute));
    StepResult result;
    ASSIGN_OR_RETURN(result.loss, PlainStep(network_->stages(), input, loss));
    ASSIGN_OR_RETURN(const auto end, device.Record(Queue::kCompute));
    RETURN_IF_ERROR(device.Synchronize());
    result.seconds = end->Seconds() - begin->Seconds();
    return result;
  }

  const std::unique_ptr<FitNetwork> network_;
  ShapePlanner planner_;
  std::list<ShapePlan> plans_;
};

Fit::Fit(torch::nn::Sequential network, const TorchInput& input, const TorchLoss& loss,
         const FitOptions& options)
    : Fit(StagesOf(std::move(network)), input, loss, options) {}

Fit::Fit(std::vector<TorchStage> stages, const TorchInput& input, const TorchLoss& loss,
         const FitOptions& options)
    : parts_(OrThrow(Parts::Create(std::move(stages), input, loss, options))) {}

Fit::~Fit() = default;
Fit::Fit(Fit&& other) noexcept = default;
Fit& Fit::operator=(Fit&& other) noexcept = default;

at::Tensor Fit::step(const TorchInput& input, const TorchLoss& loss) {
  return OrThrow(parts_->Step(input, loss));
}

MeasuredStep Fit::timed_step(const TorchInput& input, const TorchLoss& loss) {
  return OrThrow(parts_->TimedStepOf(input, loss));
}

const FitPlan& Fit::plan() const { return parts_->LastPlan(); }

std::string Fit::summary() const { return parts_->Summary(); }

std::string Fit::report() const { return parts_->Report(); }

}  // namespace stowage
