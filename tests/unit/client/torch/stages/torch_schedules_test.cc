#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <vector>

#include "client/torch/base/memory_meter.h"
#include "client/torch/stages/torch_stages.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"
#include "tests/support/training.h"

namespace stowage {
namespace {

// For the seven stages of ConvolutionTraining() and the loss.
const std::vector<const char*> kSchedules = {
    kSevenStored,
    // Keeps only the input: every backward recomputes all stages before it.
    "C1 D2 D3 D4 D5 D6 D7 S8 B8 C1 D2 D3 D4 D5 D6 S7 B7 C1 D2 D3 D4 D5 S6 B6 "
    "C1 D2 D3 D4 S5 B5 C1 D2 D3 S4 B4 C1 D2 S3 B3 C1 S2 B2 S1 B1",
    // Drops a saved value, and saves a stage after a checkpoint.
    "S1 D2 C3 D4 S5 S6 C7 S8 B8 S7 B7 B6 B5 C3 S4 B4 S3 B3 S1 S2 B2 B1",
    // Two segments.
    "C1 D2 D3 C4 C5 S6 S7 S8 B8 B7 B6 S5 B5 S4 B4 S1 S2 S3 B3 B2 B1",
    // All and some units in graph mode; the groups have dropout and running statistics.
    "gS1 gS2-4 gS5 gS6-7 S8 B8 gB6-7 gB5 gB2-4 gB1",
    "C1 gC2-4 S5 gS6-7 S8 B8 gB6-7 B5 gS2-4 gB2-4 S1 B1",
    "gC1 gD2-4 gD5 gD6-7 S8 B8 gC1 gD2-4 gD5 gS6-7 gB6-7 gC1 gD2-4 gS5 gB5 gC1 gS2-4 gB2-4 gS1 gB1",
};

// Groups: normalization, ReLU and dropout; a view and the linear layer that reads it.
Chain SevenStages() { return EqualChainWithModes(7, {{2, 4}, {6, 7}}); }

class SchedulesTest : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(TorchStages, SchedulesTest, testing::ValuesIn(kSchedules));

TEST_P(SchedulesTest, TrainsToTheBitAsWithoutOne) {
  Training plain = ConvolutionTraining();
  at::manual_seed(1);
  std::vector<at::Tensor> losses;
  for (int step = 0; step < 4; ++step) {
    losses.push_back(PlainBackward(plain));
    OptimizerStep(plain);
  }
  const std::vector<at::Tensor> expected = StateOf(plain);

  Training planned = ConvolutionTraining();
  at::manual_seed(1);
  ScheduledTraining trained(planned, SevenStages(), Ops(GetParam()), {.verifies = true});
  for (const at::Tensor& loss : losses) {
    ASSERT_THAT(trained.Step(), IsOk());
    EXPECT_TRUE(at::equal(trained.stages().loss(), loss));
    OptimizerStep(planned);
  }
  EXPECT_EQ(Difference(StateOf(planned), expected), "");
}

// Values 2 and 5, which the ReLU and the view read, are gone before their backwards.
TEST(TorchStages, DropInputsThatNoBackwardReads) {
  Chain chain = EqualChain(7);
  chain.stages[2].input_unread = true;
  chain.stages[5].input_unread = true;
  Training plain = ConvolutionTraining();
  Training planned = ConvolutionTraining();
  ScheduledTraining trained(planned, chain,
                            Ops("S1 C2 X3 S4 C5 X6 S7 S8 B8 B7 B6 S5 B5 B4 B3 S2 B2 B1"),
                            {.verifies = true});
  for (int step = 0; step < 2; ++step) {
    at::manual_seed(step);
    PlainBackward(plain);
    OptimizerStep(plain);
    at::manual_seed(step);
    ASSERT_THAT(trained.Step(), IsOk());
    OptimizerStep(planned);
  }
  EXPECT_EQ(Difference(StateOf(planned), StateOf(plain)), "");
}

TEST(TorchStages, RefuseToDropAnInputThatABackwardReads) {
  Chain chain = EqualChain(7);
  chain.stages[1].input_unread = true;  // of normalization
  ScheduledTraining trained(ConvolutionTraining(), chain,
                            Ops("C1 X2 S3 S4 S5 S6 S7 S8 B8 B7 B6 B5 B4 B3 B2 S1 B1"));
  EXPECT_THAT(trained.Step(), Fails(absl::StatusCode::kFailedPrecondition,
                                    testing::HasSubstr("bn: its backward reads its input")));
}

TEST_P(SchedulesTest, AccumulatesGradients) {
  Training plain = ConvolutionTraining();
  at::manual_seed(2);
  for (int part = 0; part < 3; ++part) PlainBackward(plain);
  const std::vector<at::Tensor> expected = StateOf(plain);

  Training planned = ConvolutionTraining();
  at::manual_seed(2);
  ScheduledTraining trained(planned, SevenStages(), Ops(GetParam()));
  for (int part = 0; part < 3; ++part) ASSERT_THAT(trained.Step(), IsOk());
  EXPECT_EQ(Difference(StateOf(planned), expected), "");
}

TEST_P(SchedulesTest, LeavesFrozenStagesAlone) {
  const auto freeze = [](Training& training) {
    for (size_t stage = 0; stage < 2; ++stage) {
      for (at::Tensor& parameter : training.stages[stage].module->parameters()) {
        parameter.set_requires_grad(false);
      }
    }
  };
  Training plain = ConvolutionTraining();
  freeze(plain);
  at::manual_seed(3);
  PlainBackward(plain);
  const std::vector<at::Tensor> expected = StateOf(plain);

  Training planned = ConvolutionTraining();
  freeze(planned);
  at::manual_seed(3);
  ScheduledTraining trained(planned, SevenStages(), Ops(GetParam()));
  ASSERT_THAT(trained.Step(), IsOk());
  EXPECT_EQ(Difference(StateOf(planned), expected), "");
  EXPECT_FALSE(planned.stages[0].module->parameters()[0].grad().defined());
}

TEST_P(SchedulesTest, FindsTheGradientOfAnInputThatNeedsOne) {
  Training plain = ConvolutionTraining();
  plain.input.set_requires_grad(true);
  at::manual_seed(4);
  PlainBackward(plain);

  Training planned = ConvolutionTraining();
  planned.input.set_requires_grad(true);
  at::manual_seed(4);
  ScheduledTraining trained(planned, SevenStages(), Ops(GetParam()));
  ASSERT_THAT(trained.Step(), IsOk());
  EXPECT_TRUE(at::equal(trained.stages().input_gradient(), plain.input.grad()));
  EXPECT_FALSE(planned.input.grad().defined());
}

TEST_P(SchedulesTest, EvaluatesWithFrozenStatistics) {
  const auto evaluate = [](Training& training) {
    for (const TorchStage& stage : training.stages) {
      if (stage.module != nullptr) stage.module->eval();
    }
  };
  Training plain = ConvolutionTraining();
  PlainBackward(plain);
  evaluate(plain);
  PlainBackward(plain);
  const std::vector<at::Tensor> expected = StateOf(plain);

  // The same stages in training and evaluation mode, one after the other.
  Training planned = ConvolutionTraining();
  ScheduledTraining trained(planned, SevenStages(), Ops(GetParam()));
  ASSERT_THAT(trained.Step(), IsOk());
  evaluate(planned);
  ASSERT_THAT(trained.Step(), IsOk());
  EXPECT_EQ(Difference(StateOf(planned), expected), "");
}

TEST_P(SchedulesTest, LeaksNothing) {
  const HostMemoryMeter& memory = HostMemory();
  const Training training = ConvolutionTraining();
  ScheduledTraining trained(training, SevenStages(), Ops(GetParam()));
  ASSERT_THAT(trained.Step(), IsOk());
  const int64_t before = memory.LiveBytes();
  for (int step = 0; step < 100; ++step) ASSERT_THAT(trained.Step(), IsOk());
  EXPECT_EQ(memory.LiveBytes(), before);
}

}  // namespace
}  // namespace stowage
