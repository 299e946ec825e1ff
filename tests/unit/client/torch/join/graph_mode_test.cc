#include "client/torch/join/graph_mode.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/version.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/torch/base/memory_meter.h"
#include "gmock/gmock.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"
#include "tests/support/training.h"

namespace stowage {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

template <typename Module>
TorchStage StageOf(std::string name, Module module) {
  return {.name = std::move(name),
          .forward = [module](const at::Tensor& input) mutable { return module(input); },
          .module = module.ptr()};
}

// Three stages, one unit in graph mode; the middle one is under test.
Training Around(TorchStage middle) {
  at::manual_seed(5);
  Training training;
  training.stages = {StageOf("first", torch::nn::Linear(4, 4)), std::move(middle),
                     StageOf("last", torch::nn::Linear(4, 4))};
  training.input = at::randn({6, 4});
  training.loss = [](const at::Tensor& output) { return output.square().mean() / 10; };
  return training;
}

constexpr const char* kAsOne = "gS1-3 S4 B4 gB1-3";
constexpr const char* kEager = "S1 S2 S3 S4 B4 B3 B2 B1";

// Expects equal training under kAsOne and kEager. Returns why the unit ran as a block, "" if
// traced.
std::string TrainAsOne(const std::function<TorchStage()>& middle) {
  std::vector<std::vector<at::Tensor>> states;
  std::string block_reason;
  for (const char* schedule : {kEager, kAsOne}) {
    Training training = Around(middle());
    at::manual_seed(6);
    ScheduledTraining trained(training, EqualChainWithModes(3, {{1, 3}}), Ops(schedule));
    for (int step = 0; step < 4; ++step) {
      const absl::Status status = trained.Step();
      EXPECT_THAT(status, IsOk());
      OptimizerStep(training);
    }
    states.push_back(StateOf(training));
    for (const auto& unit : trained.units()) {
      EXPECT_EQ(unit->traced(), unit->block_reason().empty());
      block_reason = unit->block_reason();
    }
  }
  EXPECT_EQ(Difference(states[1], states[0]), "");
  return block_reason;
}

TEST(GraphMode, TracesWhatDrawsAndWhatLearns) {
  EXPECT_EQ(TrainAsOne([] { return StageOf("dropout", torch::nn::Dropout(0.5)); }), "");
  EXPECT_EQ(TrainAsOne([] { return StageOf("norm", torch::nn::BatchNorm1d(4)); }), "");
  EXPECT_EQ(TrainAsOne([] {
              return TorchStage{.name = "noise", .forward = [](const at::Tensor& input) {
                                  return input + at::randn_like(input) * at::rand({4});
                                }};
            }),
            "");
  EXPECT_EQ(TrainAsOne([] {
              return TorchStage{.name = "mask", .forward = [](const at::Tensor& input) {
                                  const at::Tensor later = at::ones({6, 4}, at::kBool).triu(1);
                                  return input.masked_fill(later, 0).relu_();
                                }};
            }),
            "");
}

// Its forward is the square, its backward twice the gradient of the square.
class OddSquare : public torch::autograd::Function<OddSquare> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input) {
    context->save_for_backward({input});
    return input * input;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    return {gradients[0] * context->get_saved_variables()[0] * 4};
  }
};

struct Untraceable {
  const char* what;
  std::function<TorchStage()> make;
  const char* why;  // null: it may be traced, too
};

// A stage with this forward.
std::function<TorchStage()> StageWith(at::Tensor (*forward)(const at::Tensor&)) {
  return [forward] { return TorchStage{.name = "middle", .forward = forward}; };
}

// Traces that would have constants for what may change.
std::vector<Untraceable> WithConstants() {
  return {
      {"a branch on what it computes", StageWith([](const at::Tensor& input) {
         return input.sum().item<double>() > 0 ? input * 2 : input.exp();
       }),
       "reads numbers of a tensor: aten::_local_scalar_dense"},
      {"a shape that depends on what it computes", StageWith([](const at::Tensor& input) {
         return input * static_cast<double>(input.masked_select(input > 0).size(0));
       }),
       "reads numbers of a tensor: aten::"},
      {"a mean over all steps",
       [] {
         return StageOf("norm", torch::nn::BatchNorm1d(
                                    torch::nn::BatchNorm1dOptions(4).momentum(c10::nullopt)));
       },
       "reads numbers of a tensor: aten::_local_scalar_dense"},
      {"a tensor of its own",
       [] {
         return TorchStage{.name = "scaled",
                           .forward = [scale = at::full({4}, 3.0)](const at::Tensor& input) {
                             return input * scale;
                           }};
       },
       "holds a tensor"},
      {"a parameter that no module tells of",
       [] {
         const at::Tensor weight = at::full({4}, 3.0).requires_grad_();
         return TorchStage{.name = "own",
                           .forward = [weight](const at::Tensor& input) { return input * weight; }};
       },
       "Cannot insert a Tensor that requires grad as a constant"},
  };
}

// Traces that would have another backward, or cannot be recorded.
std::vector<Untraceable> WithOtherBackwards() {
  return {
      {"a function of autograd of its own",
       StageWith([](const at::Tensor& input) { return OddSquare::apply(input); }),
       "its backward has functions that a trace does not see"},
      {"a part without gradients", StageWith([](const at::Tensor& input) {
         const at::NoGradGuard no_grad;
         return input.exp();
       }),
       "its backward has functions"},
      {"a hook", StageWith([](const at::Tensor& input) {
         const at::Tensor output = input * 2;
         output.register_hook([](const at::Tensor& gradient) { return gradient * 3; });
         return output;
       }),
       "its backward has functions"},
      {"a backward inside", StageWith([](const at::Tensor& input) {
         const at::Tensor x = input.detach().requires_grad_();
         (x.exp() * x).sum().backward();
         return input * x.grad();
       }),
       "runs a backward inside its forward"},
      {"a generator of its own",
       [] {
         return TorchStage{.name = "rand", .forward = [](const at::Tensor& input) {
                             return input *
                                    at::rand({4}, at::globalContext().defaultGenerator(at::kCPU));
                           }};
       },
       TORCH_VERSION_MAJOR < 2 ? "" : nullptr},  // a trace may hold a generator since LibTorch 2
  };
}

std::vector<Untraceable> Untraceables() {
  std::vector<Untraceable> all = WithConstants();
  const std::vector<Untraceable> others = WithOtherBackwards();
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

TEST(GraphMode, RunsAsABlockWhatATraceWouldGetWrong) {
  for (const Untraceable& untraceable : Untraceables()) {
    SCOPED_TRACE(untraceable.what);
    const std::string why = TrainAsOne(untraceable.make);
    if (untraceable.why == nullptr) continue;
    EXPECT_THAT(why, StartsWith(untraceable.why));
    EXPECT_NE(why, "");
  }
}

TEST(GraphMode, RunsOnlyOnceWhatMayNotRunTwice) {
  int runs = 0;
  const Training training =
      Around({.name = "counts",
              .forward = [&runs](const at::Tensor& input) { return input * ++runs; },
              .no_recompute = true});
  ScheduledTraining trained(training, EqualChainWithModes(3, {{1, 3}}), Ops(kAsOne));
  ASSERT_THAT(trained.Step(), IsOk());
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(trained.units()[0]->block_reason(), "counts may not run twice");
}

TEST(GraphMode, UsesTheModulesOwnParametersAndBuffers) {
  const Training training = Around(StageOf("norm", torch::nn::BatchNorm1d(4)));
  GraphUnit unit(training.stages);
  EXPECT_EQ(unit.name(), "first..last");
  const std::vector<at::Tensor> own = ParametersOf(training);
  const std::vector<at::Tensor> seen = unit.module()->parameters();
  ASSERT_EQ(seen.size(), own.size());
  for (size_t i = 0; i < own.size(); ++i) EXPECT_TRUE(seen[i].is_same(own[i])) << i;

  const at::Tensor mean = training.stages[1].module->named_buffers()["running_mean"];
  for (int run = 1; run <= 2; ++run) {
    const at::Tensor before = mean.clone();
    const at::Tensor output = unit.Forward(training.input);
    EXPECT_TRUE(unit.traced()) << unit.block_reason();
    EXPECT_FALSE(at::equal(mean, before));  // once a forward, with or without TryTrace()
    EXPECT_EQ(training.stages[1].module->named_buffers()["num_batches_tracked"].item<int64_t>(),
              run);
    output.sum().backward();
    for (const at::Tensor& parameter : own) EXPECT_TRUE(parameter.grad().defined());
  }
  // The trace reads the current content of a weight that changes in place.
  const at::Tensor before = unit.Forward(training.input).detach();
  {
    const at::NoGradGuard no_grad;
    at::Tensor(own.back()).add_(1);
  }
  EXPECT_TRUE(at::allclose(unit.Forward(training.input), before + 1));
}

TEST(GraphMode, TriesAgainWhereTheCircumstancesChange) {
  const torch::nn::Dropout dropout(0.5);
  const Training training = Around(StageOf("dropout", dropout));
  GraphUnit unit(training.stages);
  const auto eager = [&training](at::Tensor value) {
    for (const TorchStage& stage : training.stages) value = stage.forward(value);
    return value;
  };
  const auto agrees = [&](const at::Tensor& input) {
    at::manual_seed(3);
    const at::Tensor expected = eager(input);
    at::manual_seed(3);
    return at::equal(unit.Forward(input), expected) && unit.traced();
  };
  EXPECT_TRUE(agrees(training.input));
  EXPECT_TRUE(agrees(at::randn({9, 4})));  // baked shapes would not fit
  EXPECT_TRUE(agrees(at::randn({2, 3, 4})));
  EXPECT_TRUE(agrees(at::randn({4, 4}).t()));
  dropout.ptr()->eval();
  EXPECT_TRUE(agrees(training.input));
  dropout.ptr()->train();
  EXPECT_TRUE(agrees(training.input));
  at::Tensor weight = training.stages[0].module->parameters()[0];
  weight.set_requires_grad(false);
  EXPECT_TRUE(agrees(training.input));
}

TEST(GraphMode, SaysThatMemoryIsOut) {
  const Training training = Around(StageOf("norm", torch::nn::BatchNorm1d(4)));
  ScheduledTraining trained(training, EqualChainWithModes(3, {{1, 3}}), Ops(kAsOne));
  ASSERT_THAT(trained.Step(), IsOk());
  ASSERT_TRUE(trained.units()[0]->traced());
  int failures = 0;
  for (int64_t room = 300; room < 2'000; room += 100) {
    HostMemory().SetLimit(HostMemory().LiveBytes() + room);
    const absl::Status status = trained.Step();
    HostMemory().SetLimit(INT64_MAX);
    if (status.ok()) continue;
    ++failures;
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr("out of memory: tried to allocate"));
  }
  EXPECT_GT(failures, 3);
  EXPECT_THAT(trained.Step(), IsOk());
}

TEST(GraphMode, NamesTheUnitThatFails) {
  const Training training = Around(
      {.name = "thin", .forward = [](const at::Tensor& input) { return input.narrow(1, 0, 3); }});
  ScheduledTraining trained(training, EqualChainWithModes(3, {{1, 3}}), Ops(kAsOne));
  EXPECT_THAT(trained.Step(),
              Fails(absl::StatusCode::kInternal,
                    StartsWith("operations[0] FORWARD_SAVE 1-3 graph: first..last: ")));
}

TEST(GraphMode, RefusesAnExecutionOfAnotherNetwork) {
  const Training training =
      Around({.name = "same", .forward = [](const at::Tensor& input) { return input * 1; }});
  const auto execution = Execution::Of(EqualChain(5), ChainUnits(EqualChain(5)), Ops(kEager));
  ASSERT_THAT(execution, IsOk());
  EXPECT_THAT(InModes(training.stages, *execution),
              Fails(absl::StatusCode::kFailedPrecondition,
                    HasSubstr("the plan is of a network of 5 stages; this one has 3")));
}

// Without InModes() the stages are numbered differently from the plan's.
TEST(GraphMode, IsMissedByStagesThatWereNotToldOfIt) {
  const Training training = ConvolutionTraining();
  const auto plan = MakeFrameworkPlan(EqualChainWithModes(7, {{2, 4}}), Memory(1000),
                                      Ops("S1 gS2-4 S5 S6 S7 S8 B8 B7 B6 B5 gB2-4 B1"));
  ASSERT_THAT(plan, IsOk());
  HostDevice device;
  const auto executor = FrameworkExecutor::Create(&*plan, &device);
  ASSERT_THAT(executor, IsOk());
  TorchStages stages(training.stages, {});
  stages.Feed(training.input, training.loss);
  EXPECT_THAT((*executor)->Step(&stages), Fails(absl::StatusCode::kFailedPrecondition,
                                                HasSubstr("plan is of another network")));
}

TEST(GraphMode, TakesEveryGroupThatHasNoControlFlow) {
  std::vector<TorchStage> stages(5, {.name = "same"});
  stages[0].fusion_group = stages[1].fusion_group = "a";
  stages[2].fusion_group = stages[3].fusion_group = "b";
  stages[3].control_flow = true;
  const Execution execution = AllInGraphMode(stages);
  std::vector<int> numbers;
  std::vector<Mode> modes;
  for (int e = 1; e <= execution.chain().length() + 1; ++e) {
    numbers.push_back(execution.unit(e).last);
    modes.push_back(execution.mode(e));
  }
  EXPECT_THAT(numbers, ElementsAre(2, 3, 4, 5, 6));
  EXPECT_THAT(modes,
              ElementsAre(Mode::kGraph, Mode::kEager, Mode::kEager, Mode::kGraph, Mode::kEager));
}

}  // namespace
}  // namespace stowage
