#include "tests/support/training.h"

#include <ATen/ATen.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/torch/join/graph_mode.h"
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

Training UNetTraining(c10::Device device) {
  at::manual_seed(9);
  // By level, two blocks each; the last level is the bottom and has no way up.
  struct Parts {
    std::vector<nn::Sequential> down;
    std::vector<nn::Sequential> up;
    nn::Conv2d head = nn::Conv2d(nn::Conv2dOptions(4, 5, 1));
  };
  constexpr size_t kLevels = 4;
  const auto block = [&device](int64_t in, int64_t out, double dropout) {
    nn::Sequential made(nn::Conv2d(nn::Conv2dOptions(in, out, 3).padding(1)), nn::BatchNorm2d(out),
                        nn::ReLU(nn::ReLUOptions().inplace(true)), nn::Dropout(dropout));
    made->to(device);
    return made;
  };
  auto parts = std::make_shared<Parts>();
  for (const int64_t channels : {4, 8, 16, 32, 64}) {
    parts->down.push_back(block(channels == 4 ? 3 : channels / 2, channels, 0));
    parts->down.push_back(block(channels, channels, 0.1));
    if (channels == 64) continue;
    parts->up.push_back(block(3 * channels, channels, 0));
    parts->up.push_back(block(channels, channels, 0.1));
  }
  parts->head->to(device);
  const auto pool = [](const at::Tensor& value) { return at::max_pool2d(value, 2); };
  const auto raise = [](const at::Tensor& value, const at::Tensor& skip) {
    return at::cat({at::upsample_nearest2d(value, {skip.size(2), skip.size(3)}), skip}, 1);
  };

  Training training;
  const auto add = [&training](const std::string& name, nn::Sequential module) {
    training.stages.push_back(
        {.name = name,
         .forward = [module](const at::Tensor& value) mutable { return module->forward(value); },
         .module = module.ptr()});
  };
  for (size_t level = 0; level < kLevels; ++level) {
    const bool pools = level % 2 == 1;
    add(absl::StrCat("down", level, ".1"), parts->down[2 * level]);
    const auto down = [parts, level, pool, pools](const Tensors& taken) -> Tensors {
      const at::Tensor value = parts->down[2 * level + 1]->forward(taken.front());
      return {pools ? pool(value) : value, value};
    };
    training.stages.push_back({.name = absl::StrCat("down", level, ".2"),
                               .tuple_forward = down,
                               .saves = {absl::StrCat("skip", level)},
                               .module = parts->down[2 * level + 1].ptr()});
    if (!pools) training.stages.push_back({.name = absl::StrCat("pool", level), .forward = pool});
  }
  add("bottom.1", parts->down[2 * kLevels]);
  add("bottom.2", parts->down[2 * kLevels + 1]);
  for (size_t level = kLevels; level-- > 0;) {
    const auto up = [parts, level, raise](const Tensors& taken) -> Tensors {
      return {parts->up[2 * level]->forward(raise(taken[0], taken[1]))};
    };
    training.stages.push_back({.name = absl::StrCat("up", level, ".1"),
                               .tuple_forward = up,
                               .reads = {absl::StrCat("skip", level)},
                               .module = parts->up[2 * level].ptr()});
    add(absl::StrCat("up", level, ".2"), parts->up[2 * level + 1]);
  }
  training.stages.push_back(
      {.name = "head",
       .forward = [parts](const at::Tensor& value) { return parts->head->forward(value); },
       .module = parts->head.ptr()});
  training.forward = [parts, pool, raise](const TorchInput& input) {
    std::vector<at::Tensor> skips;
    at::Tensor value = input.tensor;
    for (size_t i = 0; i < parts->down.size(); ++i) {
      value = parts->down[i]->forward(value);
      if (i % 2 == 0 || skips.size() == kLevels) continue;
      skips.push_back(value);
      value = pool(value);
    }
    for (size_t level = kLevels; level-- > 0;) {
      value = parts->up[2 * level]->forward(raise(value, skips[level]));
      value = parts->up[2 * level + 1]->forward(value);
    }
    return parts->head->forward(value);
  };
  training.input = at::randn({2, 3, 64, 64}).to(device);
  training.loss =
      [target = at::randint(5, {2, 64, 64}, at::kLong).to(device)](const at::Tensor& output) {
        return nn::functional::cross_entropy(output, target);
      };
  return training;
}

Training TupleTraining(c10::Device device) {
  at::manual_seed(10);
  struct Parts final : nn::Module {
    nn::Embedding table = register_module("table", nn::Embedding(20, 64));
    nn::Linear gate = register_module("gate", nn::Linear(64, 64));
    nn::LayerNorm norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({64})));
    nn::Linear last = register_module("last", nn::Linear(64, 64));
  };
  auto parts = std::make_shared<Parts>();
  parts->to(device);
  const auto mix = [](const at::Tensor& x, const at::Tensor& g, const at::Tensor& mask) {
    const at::Tensor scores = at::matmul(x, x.transpose(1, 2)).masked_fill(mask, -1e9);
    return at::matmul(at::softmax(scores, 2), x) * g;
  };
  const auto drop = [](const at::Tensor& h, const at::Tensor& g) {
    return at::dropout(h, 0.2, true) + g;
  };
  const auto gate = [](const at::Tensor& h, const at::Tensor& g, const at::Tensor& first) {
    return h * first + g.tanh() * g;
  };
  const auto cross = [](const at::Tensor& y, const at::Tensor& second, const at::Tensor& first,
                        const at::Tensor& mask) {
    return y + (second * first.tanh()).masked_fill(mask.transpose(1, 2), 0);
  };

  Training training;
  training.stages = {{.name = "embed",
                      .tuple_forward = [parts](const Tensors& taken) -> Tensors {
                        const at::Tensor x = parts->table(taken[0]);
                        return {x, at::sigmoid(parts->gate(x)), taken[0]};
                      },
                      .saves = {"tokens"},
                      .module = parts},
                     {.name = "mix",
                      .tuple_forward = [mix](const Tensors& taken) -> Tensors {
                        return {mix(taken[0], taken[1], taken[2]), taken[1], taken[0]};
                      },
                      .reads = {"mask"},
                      .saves = {"first"}},
                     {.name = "drop",
                      .tuple_forward = [drop](const Tensors& taken) -> Tensors {
                        return {drop(taken[0], taken[1]), taken[1]};
                      }},
                     {.name = "gate",
                      .tuple_forward = [gate](const Tensors& taken) -> Tensors {
                        const at::Tensor h = gate(taken[0], taken[1], taken[2]);
                        return {h, h};
                      },
                      .reads = {"first"},
                      .saves = {"second"}},
                     {.name = "norm",
                      .forward = [parts](const at::Tensor& h) { return parts->norm(h) + h; },
                      .module = parts->norm.ptr()},
                     {.name = "cross",
                      .tuple_forward = [cross](const Tensors& taken) -> Tensors {
                        return {cross(taken[0], taken[1], taken[2], taken[3])};
                      },
                      .reads = {"second", "first", "mask"}},
                     {.name = "last",
                      .tuple_forward = [parts](const Tensors& taken) -> Tensors {
                        return {parts->last(taken[0]) + parts->table(taken[1])};
                      },
                      .reads = {"tokens"},
                      .module = parts->last.ptr()}};
  training.forward = [=](const TorchInput& input) {
    const at::Tensor mask = input.sides.at("mask");
    const at::Tensor first = parts->table(input.tensor);
    const at::Tensor g = at::sigmoid(parts->gate(first));
    const at::Tensor second = gate(drop(mix(first, g, mask), g), g, first);
    const at::Tensor y = cross(parts->norm(second) + second, second, first, mask);
    return parts->last(y) + parts->table(input.tensor);
  };
  training.input = at::randint(20, {4, 32}, at::kLong).to(device);
  training.sides = {{"mask", (at::rand({4, 1, 32}) < 0.2).to(device)}};
  training.loss = [](const at::Tensor& output) { return output.square().mean(); };
  return training;
}

std::vector<at::Tensor> ParametersOf(const Training& training) {
  return TorchStages(training.stages, {}).Parameters();
}

at::Tensor PlainBackward(Training& training) {
  at::Tensor value = training.input;
  if (training.forward != nullptr) {
    value = training.forward({training.input, training.sides});
  } else {
    for (const TorchStage& stage : training.stages) value = stage.forward(value);
  }
  const at::Tensor loss = training.loss(value);
  value.reset();
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
    : input_(training.input, training.sides),
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
