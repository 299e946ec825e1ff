// Stages with tuples, skips and side inputs under schedules.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "client/agent/host_device.h"
#include "client/torch/base/memory_meter.h"
#include "client/torch/join/join_stages.h"
#include "client/torch/profile/plain_step.h"
#include "client/torch/profile/profiler.h"
#include "client/torch/stages/torch_stages.h"
#include "gmock/gmock.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"
#include "tests/support/training.h"

namespace stowage {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// For the seven stages of TupleTraining() and the loss.
class TuplesTest : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(
    TorchStages, TuplesTest,
    testing::Values(kSevenStored,
                    "C1 D2 D3 D4 D5 D6 D7 S8 B8 C1 D2 D3 D4 D5 D6 S7 B7 C1 D2 D3 D4 D5 S6 B6 "
                    "C1 D2 D3 D4 S5 B5 C1 D2 D3 S4 B4 C1 D2 S3 B3 C1 S2 B2 S1 B1",
                    "S1 D2 C3 D4 S5 S6 C7 S8 B8 S7 B7 B6 B5 C3 S4 B4 S3 B3 S1 S2 B2 B1",
                    "C1 D2 D3 C4 C5 S6 S7 S8 B8 B7 B6 S5 B5 S4 B4 S1 S2 S3 B3 B2 B1"));

TEST_P(TuplesTest, TrainsToTheBitAsWithoutStages) {
  Training plain = TupleTraining(c10::kCPU);
  at::manual_seed(1);
  std::vector<at::Tensor> losses;
  for (int step = 0; step < 3; ++step) {
    losses.push_back(PlainBackward(plain));
    OptimizerStep(plain);
  }
  Training planned = TupleTraining(c10::kCPU);
  at::manual_seed(1);
  ScheduledTraining trained(planned, EqualChain(7), Ops(GetParam()), {.verifies = true});
  for (const at::Tensor& loss : losses) {
    ASSERT_THAT(trained.Step(), IsOk());
    EXPECT_TRUE(at::equal(trained.stages().loss(), loss));
    OptimizerStep(planned);
  }
  EXPECT_EQ(Difference(StateOf(planned), StateOf(plain)), "");
}

TEST_P(TuplesTest, LeaksNothing) {
  const HostMemoryMeter& memory = HostMemory();
  ScheduledTraining trained(TupleTraining(c10::kCPU), EqualChain(7), Ops(GetParam()));
  ASSERT_THAT(trained.Step(), IsOk());
  const int64_t before = memory.LiveBytes();
  for (int step = 0; step < 20; ++step) ASSERT_THAT(trained.Step(), IsOk());
  EXPECT_EQ(memory.LiveBytes(), before);
}

// Of the seven stages six are left; the last one reads a skip.
TEST(TorchTuples, JoinTheLastStageWithTheLoss) {
  Training plain = TupleTraining(c10::kCPU);
  at::manual_seed(2);
  const at::Tensor loss = PlainBackward(plain);
  for (const char* schedule : {"S1 S2 S3 S4 S5 S6 S7 B7 B6 B5 B4 B3 B2 B1",
                               "C1 D2 D3 C4 C5 S6 S7 B7 B6 S5 B5 S4 B4 S1 S2 S3 B3 B2 B1"}) {
    const Training planned = TupleTraining(c10::kCPU);
    at::manual_seed(2);
    ScheduledTraining trained(planned, EqualChain(6), Ops(schedule), {.joins_loss = true});
    ASSERT_THAT(trained.Step(), IsOk());
    EXPECT_TRUE(at::equal(trained.stages().loss(), loss));
    EXPECT_EQ(Difference(StateOf(planned), StateOf(plain)), "");
  }
}

TEST(TorchTuples, TrainPlainlyAsWithoutStages) {
  Training written = TupleTraining(c10::kCPU);
  at::manual_seed(3);
  const at::Tensor loss = PlainBackward(written);
  const Training staged = TupleTraining(c10::kCPU);
  at::manual_seed(3);
  const auto stepped = PlainStep(staged.stages, {staged.input, staged.sides}, staged.loss);
  ASSERT_THAT(stepped, IsOk());
  EXPECT_TRUE(at::equal(*stepped, loss));
  EXPECT_EQ(Difference(StateOf(staged), StateOf(written)), "");
}

Chain Profiled(const Training& training) {
  HostDevice device;
  TorchStages stages(training.stages, {});
  stages.Feed({training.input, training.sides}, training.loss);
  const auto chain = ProfileChain(&stages, &device, &HostMemory(), {.repeats = 1});
  EXPECT_THAT(chain, IsOk());
  return chain.value_or(Chain());
}

// Each skip counts in every value that it crosses, once; values may be offloaded.
TEST(TorchTuples, CountASkipInEveryValueThatItCrosses) {
  const Training training = UNetTraining(c10::kCPU);
  const Chain chain = Profiled(training);
  const int64_t level = 2 * 4 * 64 * 64 * 4;  // bytes of the first skip; the next has half of them
  std::map<std::string, int64_t> outputs;
  for (const Stage& stage : chain.stages) {
    outputs[stage.name] = stage.output_bytes;
    EXPECT_FALSE(stage.no_offload) << stage.name;
  }
  EXPECT_EQ(outputs["down0.2"], level) << "is output and skip";
  EXPECT_EQ(outputs["pool0"], level + level / 4);
  EXPECT_EQ(outputs["down1.1"], level + level / 2);
  EXPECT_EQ(outputs["down1.2"], level + level / 2 + level / 8);
  EXPECT_EQ(outputs["down2.2"], level + level / 2 + level / 4);
  EXPECT_EQ(outputs["bottom.1"], level + level / 2 + level / 4 + level / 8 + level / 16);
  EXPECT_EQ(outputs["up3.1"], level + level / 2 + level / 4 + level / 8);
  EXPECT_EQ(outputs["up0.1"], level);
  // A skip's gradient is a part of what its concatenation has received, as in plain training.
  for (int l = 1; l <= chain.length(); ++l) {
    EXPECT_GE(chain.gradient_bytes(l), chain.stage(l).output_bytes) << chain.stage(l).name;
  }
}

Training Three(TorchStage second, TorchStage third) {
  at::manual_seed(4);
  const at::Tensor weight = at::randn({4}).requires_grad_();
  Training training;
  training.stages = {{.name = "first",
                      .tuple_forward = [weight](const Tensors& taken) -> Tensors {
                        const at::Tensor value = (taken[0] * weight).exp();
                        return {value, value};
                      },
                      .saves = {"skip"}},
                     std::move(second),
                     std::move(third)};
  training.input = at::randn({3, 4});
  training.loss = [](const at::Tensor& output) { return output.square().sum(); };
  return training;
}
TorchStage Doubling(const std::string& name) {
  return {.name = name, .forward = [](const at::Tensor& input) { return input * 2; }};
}
TorchStage Adding(const std::string& name, const std::string& reads) {
  return {.name = name,
          .tuple_forward = [](const Tensors& taken) -> Tensors { return {taken[0] + taken[1]}; },
          .reads = {reads}};
}

absl::Status StepOf(const Training& training, const char* schedule) {
  return ScheduledTraining(training, EqualChain(static_cast<int>(training.stages.size())),
                           Ops(schedule))
      .Step();
}

TEST(TorchTuples, NameTheStageThatReadsWhatItDoesNotDeclare) {
  for (const char* schedule : {kThreeStored, kThreeRecomputed}) {
    at::Tensor captured;
    Training training = Three(Doubling("second"),
                              {.name = "third", .forward = [&captured](const at::Tensor& input) {
                                 return input * captured;
                               }});
    const auto first = training.stages[0].tuple_forward;
    training.stages[0].tuple_forward = [first, &captured](const Tensors& taken) {
      Tensors returned = first(taken);
      captured = returned[0];
      return returned;
    };
    EXPECT_THAT(StepOf(training, schedule),
                Fails(absl::StatusCode::kInvalidArgument,
                      HasSubstr("third: uses a tensor that first has computed, beside its input: "
                                "declare it, in `saves` there and `reads` here")));
  }
}

TEST(TorchTuples, NameTheStageThatDoesNotFit) {
  EXPECT_THAT(StepOf(Three(Doubling("second"), Adding("third", "skipp")), kThreeStored),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("third: reads skipp, which")));
  Training training = Three(Doubling("second"), Adding("third", "mask"));
  training.sides = {{"mask", at::ones({4}).requires_grad_()}};
  EXPECT_THAT(
      StepOf(training, kThreeStored),
      Fails(absl::StatusCode::kInvalidArgument, HasSubstr("side input mask requires a gradient")));
  training.sides = {{"mask", at::Tensor()}};
  EXPECT_THAT(StepOf(training, kThreeStored),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("side input mask is no tensor")));
}

TEST(TorchTuples, RefuseAStageThatWritesIntoWhatItReads) {
  const auto writing = [](const std::string& reads) -> TorchStage {
    return {.name = "third",
            .tuple_forward = [](const Tensors& taken) -> Tensors {
              at::Tensor(taken[1]).add_(1);
              return {taken[0] * 2};
            },
            .reads = {reads}};
  };
  EXPECT_THAT(StepOf(Three(Doubling("second"), writing("skip")), kThreeStored),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("third: writes into its input")));
  Training training = Three(Doubling("second"), writing("mask"));
  const at::Tensor mask = at::ones({4});
  training.sides = {{"mask", mask}};
  EXPECT_THAT(StepOf(training, kThreeStored),
              Fails(absl::StatusCode::kInvalidArgument,
                    HasSubstr("third: writes into the side input mask")));
  // The stages from the one that saves the skip are one; side inputs stay as they are.
  const at::Tensor before = mask.clone();
  EXPECT_THAT(JoinWhereInPlace(training.stages, {training.input, {{"mask", mask}}}),
              Fails(absl::StatusCode::kInvalidArgument,
                    HasSubstr("third: writes into the side input mask")));
  EXPECT_TRUE(at::equal(mask, before));
  const auto joined =
      JoinWhereInPlace(Three(Doubling("second"), writing("skip")).stages, training.input);
  ASSERT_THAT(joined, IsOk());
  ASSERT_EQ(joined->size(), 1);
  EXPECT_EQ(joined->front().name, "first..third");
}

TEST(TorchTuples, NoticeASideInputThatChangesWithinAStep) {
  const TorchStage scaling = {
      .name = "third",
      .tuple_forward = [](const Tensors& taken) -> Tensors { return {taken[0] * taken[1]}; },
      .reads = {"scale"}};
  Training training = Three(Doubling("second"), scaling);
  at::Tensor scale = at::ones({4});
  training.sides = {{"scale", scale}};
  EXPECT_THAT(StepOf(training, kThreeRecomputed), IsOk());
  training.loss = [scale](const at::Tensor& output) {
    output.register_hook([scale](const at::Tensor& /*gradient*/) { at::Tensor(scale).mul_(2); });
    return output.sum();
  };
  EXPECT_THAT(StepOf(training, kThreeStored),
              Fails(absl::StatusCode::kInternal,
                    HasSubstr("third: a parameter or side input was changed")));
}

}  // namespace
}  // namespace stowage
