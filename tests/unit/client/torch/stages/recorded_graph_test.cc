// Replays that end early: what they leave out, what they may not get wrong, and where they do not.
#include "client/torch/stages/recorded_graph.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/modules/linear.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "client/torch/base/memory_meter.h"
#include "client/torch/stages/stage_probe.h"
#include "client/torch/stages/torch_stages.h"
#include "gmock/gmock.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"
#include "tests/support/training.h"

namespace stowage {
namespace {

using testing::HasSubstr;

using Forward = std::function<at::Tensor(const at::Tensor&)>;

// A chain in which every stage's replay takes less than its forward.
Chain ChainWithReplays(int stages) {
  Chain chain = EqualChain(stages);
  for (Stage& stage : chain.stages) stage.replay_seconds = 0.5;
  return chain;
}

// Each stage but the loss runs once more, as a replay.
constexpr const char* kReplayed = "C1 C2 C3 S4 B4 S3 B3 S2 B2 S1 B1";
// The second stage runs twice before its replay, the first one three times.
constexpr const char* kRecomputed = "C1 D2 D3 S4 B4 C1 D2 S3 B3 C1 S2 B2 S1 B1";

// A stage between two linear ones.
Training Around(Forward forward) {
  at::manual_seed(5);
  Training training;
  const auto linear = [](std::string name) -> TorchStage {
    torch::nn::Linear module(4, 4);
    return {.name = std::move(name),
            .forward = [module](const at::Tensor& input) mutable { return module(input); },
            .module = module.ptr()};
  };
  training.stages = {
      linear("first"), {.name = "middle", .forward = std::move(forward)}, linear("last")};
  training.input = at::randn({2, 4});
  training.loss = [](const at::Tensor& output) { return output.square().sum(); };
  return training;
}

absl::Status StepOf(Forward forward, const TorchOptions& options = {}) {
  ScheduledTraining trained(Around(std::move(forward)), ChainWithReplays(3), Ops(kReplayed),
                            options);
  return trained.Step();
}

// "" if steps have the results of plain training to the bit. The second stage is `input_unread`
// where the schedule drops its input.
std::string DifferenceUnder(absl::string_view schedule, const std::function<Training()>& make) {
  Training plain = make();
  Training planned = make();
  Chain chain = ChainWithReplays(static_cast<int>(plain.stages.size()));
  chain.stages[1].input_unread = absl::StrContains(schedule, "X2");
  ScheduledTraining trained(planned, chain, Ops(schedule));
  for (int step = 0; step < 3; ++step) {
    at::manual_seed(step);
    PlainBackward(plain);
    OptimizerStep(plain);
    at::manual_seed(step);
    if (const absl::Status status = trained.Step(); !status.ok()) return status.ToString();
    OptimizerStep(planned);
  }
  return Difference(StateOf(planned), StateOf(plain));
}

// For the seven stages of both trainings and the loss.
class ReplayedTest : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(
    RecordedGraph, ReplayedTest,
    testing::Values("C1 C2 C3 C4 C5 C6 C7 S8 B8 S7 B7 S6 B6 S5 B5 S4 B4 S3 B3 S2 B2 S1 B1",
                    "C1 D2 D3 D4 D5 D6 D7 S8 B8 C1 D2 D3 D4 D5 D6 S7 B7 C1 D2 D3 D4 D5 S6 B6 "
                    "C1 D2 D3 D4 S5 B5 C1 D2 D3 S4 B4 C1 D2 S3 B3 C1 S2 B2 S1 B1",
                    "S1 D2 C3 D4 S5 S6 C7 S8 B8 S7 B7 B6 B5 C3 S4 B4 S3 B3 S1 S2 B2 B1",
                    "C1 D2 D3 C4 C5 S6 S7 S8 B8 B7 B6 S5 B5 S4 B4 S1 S2 S3 B3 B2 B1"));

TEST_P(ReplayedTest, TrainsToTheBit) {
  EXPECT_EQ(DifferenceUnder(GetParam(), ConvolutionTraining), "");
  EXPECT_EQ(DifferenceUnder(GetParam(), [] { return TupleTraining(c10::kCPU); }), "");
}

TEST_P(ReplayedTest, LeaksNothing) {
  const HostMemoryMeter& memory = HostMemory();  // counts from its first use on
  Training training = ConvolutionTraining();
  ScheduledTraining trained(training, ChainWithReplays(7), Ops(GetParam()));
  ASSERT_THAT(trained.Step(), IsOk());
  const int64_t before = memory.LiveBytes();
  ASSERT_THAT(trained.Step(), IsOk());
  EXPECT_EQ(memory.LiveBytes(), before);
}

TEST(RecordedGraph, EndsAReplayBeforeWhatOnlyTheOutputNeeds) {
  for (const char* schedule : {kReplayed, kRecomputed}) {
    int begun = 0;
    int ended = 0;
    const Forward forward = [&](const at::Tensor& input) {
      ++begun;
      const at::Tensor saved = input.tanh();
      ++ended;
      return saved + 1;
    };
    ScheduledTraining trained(Around(forward), ChainWithReplays(3), Ops(schedule));
    ASSERT_THAT(trained.Step(), IsOk());
    EXPECT_EQ(ended, begun - 1) << schedule;
    EXPECT_EQ(DifferenceUnder(schedule, [&] { return Around(forward); }), "");
  }
}

TEST(RecordedGraph, DropsTheInputOfAReplayThatDoesNotReadIt) {
  const auto make = [] { return Around([](const at::Tensor& input) { return input.tanh(); }); };
  EXPECT_EQ(DifferenceUnder("C1 D2 S3 S4 B4 B3 C1 X2 B2 S1 B1", make), "");
}

TEST(RecordedGraph, NeedsNoReplayOfWhatSavesNothing) {
  int runs = 0;
  const Forward forward = [&runs](const at::Tensor& input) {
    ++runs;
    return input + 1;
  };
  ASSERT_THAT(StepOf(forward), IsOk());
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(DifferenceUnder(kReplayed, [&] { return Around(forward); }), "");
}

TEST(RecordedGraph, DoesNotCareWhatAStageDoesWithTheEndOfItsReplay) {
  const std::vector<Forward> forwards = {
      [](const at::Tensor& input) {
        at::Tensor output = input.sigmoid() * 2;
        try {
          output = output.tanh();
        } catch (...) {
          output = output.exp();
        }
        return output + 1;
      },
      [](const at::Tensor& input) {
        try {
          return input.tanh();
        } catch (...) {
          throw std::runtime_error("no tanh");
        }
      },
  };
  for (const Forward& forward : forwards) {
    EXPECT_EQ(DifferenceUnder(kReplayed, [&] { return Around(forward); }), "");
  }
}

TEST(RecordedGraph, NamesTheStageWhoseReplayIsNotLikeItsForward) {
  struct Case {
    std::function<at::Tensor(const at::Tensor&, int run)> forward;
    std::string message;
  };
  const std::vector<Case> cases = {
      {[](const at::Tensor& input, int run) {
         return input.narrow(1, 0, 4 - run).tanh().sum(1, /*keepdim=*/true) + input;
       },
       "saves Float[2, 3] of strides [3, 1] on cpu as tensor 1 for its backward, where its first "
       "run saved Float[2, 4] of strides [4, 1] on cpu"},
      {[](const at::Tensor& input, int run) {
         return (run > 0 ? input.t().contiguous().t() : input).tanh();
       },
       "of strides [1, 2]"},
      {[](const at::Tensor& input, int run) {
         return input.to(run > 0 ? at::kDouble : at::kFloat).tanh().to(at::kFloat);
       },
       "saves Double[2, 4]"},
      {[](const at::Tensor& input, int run) {
         const at::Tensor saved = input.tanh();
         return run > 0 ? saved + 1 : saved.tanh();
       },
       "saves 1 of the 2 tensors that its first run saved for its backward"},
  };
  for (const Case& some : cases) {
    int runs = 0;
    EXPECT_THAT(
        StepOf([&](const at::Tensor& input) { return some.forward(input, runs++); }),
        Fails(absl::StatusCode::kFailedPrecondition,
              testing::AllOf(HasSubstr("middle: recomputed, it saves"), HasSubstr(some.message),
                             HasSubstr("declare it no_recompute"))));
  }
}

TEST(RecordedGraph, SaysWhatAReplayHasThrown) {
  int runs = 0;
  EXPECT_THAT(StepOf([&runs](const at::Tensor& input) {
                if (runs++ > 0) throw std::runtime_error("no second time");
                return input.tanh();
              }),
              Fails(absl::StatusCode::kInternal, HasSubstr("middle: no second time")));
}

TEST(RecordedGraph, RefusesABackwardInsideAForward) {
  EXPECT_THAT(StepOf([](const at::Tensor& input) {
                const at::Tensor x = input.detach().requires_grad_();
                (x.exp() * x).sum().backward();
                return input * x.grad();
              }),
              Fails(absl::StatusCode::kInternal,
                    HasSubstr("middle: runs a backward inside its forward: declare it "
                              "no_recompute")));
}

// Holds a tensor that no hook sees.
class Holds : public torch::autograd::Function<Holds> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input) {
    context->saved_data["output"] = input.exp();
    return context->saved_data["output"].toTensor().clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    return {gradients.front() * context->saved_data["output"].toTensor()};
  }
};

// A recorded graph would keep memory that no value counts.
TEST(RecordedGraph, IsNotKeptWhereItHoldsOtherMemory) {
  const at::Tensor weight = at::randn({4}).requires_grad_();
  const std::vector<Forward> forwards = {
      [](const at::Tensor& input) { return Holds::apply(input.tanh()); },
      [](const at::Tensor& input) {
        const at::Tensor output = input.tanh();
        output.register_hook([input](const at::Tensor& gradient) { return gradient * input; });
        return output + 1;
      },
      [](const at::Tensor& input) {
        at::Tensor output = input.tanh() + 1;
        output.select(0, 0).mul_(2);
        return output;
      },
      [weight](const at::Tensor& input) { return input.tanh() + weight; },
  };
  for (const Forward& forward : forwards) {
    int begun = 0;
    int ended = 0;
    const Forward counted = [&](const at::Tensor& input) {
      ++begun;
      at::Tensor output = forward(input);
      ++ended;
      return output;
    };
    ASSERT_THAT(StepOf(counted), IsOk());
    EXPECT_EQ(begun, 2);
    EXPECT_EQ(ended, 2);
    EXPECT_EQ(DifferenceUnder(kReplayed, [&] { return Around(forward); }), "");
  }
}

TEST(RecordedGraph, LeavesWholeReplaysToBeVerified) {
  int ended = 0;
  ScheduledTraining trained(Around([&ended](const at::Tensor& input) {
                              at::Tensor output = input.tanh();
                              ++ended;
                              return output;
                            }),
                            ChainWithReplays(3), Ops(kReplayed), {.verifies = true});
  ASSERT_THAT(trained.Step(), IsOk());
  EXPECT_EQ(ended, 2);
  EXPECT_EQ(trained.stages().verified_recomputations(), 3);
}

// Of a stage that saves twice as much as it puts out.
TEST(RecordedGraph, HoldsNoTensor) {
  const HostMemoryMeter& memory = HostMemory();
  const Training training =
      Around([](const at::Tensor& input) { return input.tanh().exp().tanh(); });
  TorchStages stages(training.stages, {});
  const StageProbe probe(&stages);
  stages.Feed(training.input, training.loss);
  ASSERT_THAT(stages.Begin(nullptr), IsOk());
  ASSERT_THAT(stages.Forward({.stage = 1, .kind = OperationKind::kForwardCheckpoint}), IsOk());
  const int64_t before = memory.LiveBytes();
  ASSERT_THAT(
      stages.Forward({.stage = 2, .kind = OperationKind::kForwardCheckpoint, .replayed = true}),
      IsOk());
  EXPECT_TRUE(probe.EndsEarly(2));
  EXPECT_EQ(memory.LiveBytes() - before, probe.ValueBytes(2));
}

}  // namespace
}  // namespace stowage
