#include "tests/support/training.h"

#include <ATen/ATen.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <cstdlib>
#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/torch/graph_mode.h"
#include "tests/support/chains.h"

namespace stowage {
namespace {

namespace nn = torch::nn;

template <typename Module>
TorchStage StageOf(std::string name, Module module) {
  return {.name = std::move(name),
          .forward = [module](const at::Tensor& input) mutable { return module(input); },
          .module = module.ptr()};
}

[[noreturn]] void Abort(const absl::Status& status) {
  std::cerr << status << '\n';
  std::abort();
}

FrameworkPlan PlanOf(const Chain& chain, const Schedule& schedule) {
  Platform platform;
  platform.memory_bytes = int64_t{1} << 40;
  platform.offload_bytes_per_second = 1e12;
  auto plan = MakeFrameworkPlan(chain, platform, schedule);
  if (!plan.ok()) Abort(plan.status());
  return *std::move(plan);
}

// The network's own stages if the plan is of another network: then its steps fail, as tests expect.
std::vector<TorchStage> InModesIfPossible(const std::vector<TorchStage>& stages,
                                          const FrameworkPlan& plan) {
  return InModes(stages, plan.execution).value_or(stages);
}

}  // namespace

Training ConvolutionTraining() {
  at::manual_seed(7);
  Training training;
  training.stages.push_back(StageOf("conv", nn::Conv2d(nn::Conv2dOptions(3, 8, 3).padding(1))));
  training.stages.push_back(StageOf("bn", nn::BatchNorm2d(8)));
  training.stages.push_back(StageOf("relu", nn::ReLU()));
  training.stages.push_back(StageOf("dropout", nn::Dropout(0.3)));
  nn::Sequential block(nn::Conv2d(nn::Conv2dOptions(8, 4, 3).padding(1)), nn::BatchNorm2d(4),
                       nn::ReLU(nn::ReLUOptions(true)), nn::Dropout(0.2));
  training.stages.push_back(
      {.name = "block",
       .forward = [block](const at::Tensor& input) mutable { return block->forward(input); },
       .module = block.ptr()});
  training.stages.push_back(
      {.name = "view", .forward = [](const at::Tensor& input) { return input.flatten(1); }});
  training.stages.push_back(StageOf("linear", nn::Linear(4 * 6 * 6, 5)));
  training.input = at::randn({4, 3, 6, 6});
  training.loss = [target = at::randint(5, {4}, at::kLong)](const at::Tensor& output) {
    return nn::functional::cross_entropy(output, target);
  };
  return training;
}

std::vector<at::Tensor> ParametersOf(const Training& training) {
  return TorchStages(training.stages, {}).Parameters();
}

at::Tensor PlainBackward(Training& training) {
  at::Tensor value = training.input;
  for (const TorchStage& stage : training.stages) value = stage.forward(value);
  const at::Tensor loss = training.loss(value);
  loss.backward();
  return loss.detach();
}

void OptimizerStep(Training& training) {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> parameters = ParametersOf(training);
  training.momenta.resize(parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& gradient = parameters[i].grad();
    if (!gradient.defined()) continue;
    at::Tensor& momentum = training.momenta[i];
    momentum = momentum.defined() ? momentum * 0.9 + gradient : gradient.clone();
    parameters[i].sub_(momentum * 0.05);
    gradient.zero_();
  }
}

std::vector<at::Tensor> StateOf(const Training& training) {
  std::vector<at::Tensor> state;
  const TorchStages stages(training.stages, {});
  for (const at::Tensor& parameter : stages.Parameters()) {
    state.push_back(parameter.detach().clone());
    state.push_back(parameter.grad().defined() ? parameter.grad().clone() : at::Tensor());
  }
  for (const at::Tensor& momentum : training.momenta) state.push_back(momentum);
  for (const at::Tensor& buffer : stages.Buffers()) state.push_back(buffer.clone());
  state.push_back(at::globalContext().defaultGenerator(at::kCPU).get_state());
  return state;
}

std::string Difference(const std::vector<at::Tensor>& one, const std::vector<at::Tensor>& other,
                       double tolerance) {
  if (one.size() != other.size()) return "not as many tensors";
  for (size_t i = 0; i < one.size(); ++i) {
    if (one[i].defined() != other[i].defined()) return absl::StrCat("tensor ", i, " is missing");
    if (!one[i].defined()) continue;
    if (tolerance > 0 ? !at::allclose(one[i], other[i], tolerance, tolerance)
                      : !at::equal(one[i], other[i])) {
      return absl::StrCat("tensor ", i, " of ", one.size(), " differs");
    }
  }
  return "";
}

Chain EqualChainWithModes(int stages, const std::vector<Group>& groups) {
  Chain chain = EqualChain(stages);
  for (Stage& stage : chain.stages) stage.graph = {.saved_bytes = stage.output_bytes};
  for (const Group& group : groups) {
    for (int l = group.first; l <= group.last; ++l) {
      chain.stages[static_cast<size_t>(l) - 1].fusion_group = absl::StrCat("from ", group.first);
    }
  }
  return chain;
}

std::vector<std::shared_ptr<const GraphUnit>> ScheduledTraining::units() const {
  std::vector<std::shared_ptr<const GraphUnit>> units;
  for (const TorchStage& stage : stages_.stages()) {
    if (stage.unit != nullptr) units.push_back(stage.unit);
  }
  return units;
}

ScheduledTraining::ScheduledTraining(const Training& training, const Chain& chain,
                                     const Schedule& schedule, const TorchOptions& options)
    : input_(training.input),
      loss_(training.loss),
      plan_(PlanOf(chain, schedule)),
      stages_(InModesIfPossible(training.stages, plan_), options) {
  auto executor = FrameworkExecutor::Create(&plan_, &device_);
  if (!executor.ok()) Abort(executor.status());
  executor_ = *std::move(executor);
}

absl::Status ScheduledTraining::Step() {
  stages_.Feed(input_, loss_);
  return executor_->Step(&stages_).status();
}

}  // namespace stowage
