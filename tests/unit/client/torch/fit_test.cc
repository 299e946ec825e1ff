#include "client/torch/fit.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "client/torch/base/memory_meter.h"
#include "client/torch/base/torch_versions.h"
#include "client/torch/profile/plain_step.h"
#include "client/train/networks.h"
#include "tests/support/status_matchers.h"
#include "tests/support/training.h"

namespace stowage {
namespace {

namespace nn = torch::nn;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class FitMemoryTest : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Fit, FitMemoryTest, testing::Values("30%", "40%", "50%", "80%", "1GiB"));

TEST_P(FitMemoryTest, TrainsToTheBitAsWithoutIt) {
  Training plain = ConvolutionTraining();
  at::manual_seed(1);
  std::vector<at::Tensor> losses;
  for (int step = 0; step < 3; ++step) {
    losses.push_back(PlainBackward(plain));
    OptimizerStep(plain);
  }
  Training planned = ConvolutionTraining();
  at::manual_seed(1);
  Fit fit(planned.stages, planned.input, planned.loss, {.memory = GetParam()});
  for (const at::Tensor& loss : losses) {
    EXPECT_TRUE(at::equal(fit.step(planned.input, planned.loss), loss));
    OptimizerStep(planned);
  }
  EXPECT_EQ(Difference(StateOf(planned), StateOf(plain)), "") << fit.summary();
}

// Eight layers of 64 numbers with in-place activations, which a batch of 64 takes 16 KiB a value.
class FitTest : public testing::Test {
 protected:
  static nn::Sequential Perceptron() {
    at::manual_seed(7);
    nn::Sequential network;
    for (int layer = 0; layer < 8; ++layer) {
      network->push_back(nn::Linear(64, 64));
      network->push_back(nn::ReLU(nn::ReLUOptions().inplace(true)));
    }
    return network;
  }
  static at::Tensor Batch(int64_t rows) { return at::ones({rows, 64}); }
  static TorchLoss Loss() {
    return [](const at::Tensor& output) { return output.square().mean(); };
  }
  // The exception's message, without the stack trace.
  template <typename Error, typename Call>
  static std::string MessageOf(const Call& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.what_without_backtrace();
    }
    return "nothing was thrown";
  }
  static std::string ErrorOf(const FitOptions& options) {
    return MessageOf<c10::ValueError>([&] { Fit(Perceptron(), Batch(64), Loss(), options); });
  }
};

TEST_F(FitTest, ReadsLikeThis) {
  nn::Sequential network = Perceptron();
  torch::optim::SGD optimizer(network->parameters(), torch::optim::SGDOptions(0.1));
  Fit fit(network, Batch(64), Loss(), {.memory = "60%"});
  const double first = fit.step(Batch(64), Loss()).item<double>();
  optimizer.step();
  for (int step = 0; step < 5; ++step) {
    optimizer.zero_grad();
    fit.step(Batch(64), Loss());
    optimizer.step();
  }
  EXPECT_LT(fit.step(Batch(64), Loss()).item<double>(), first);
  EXPECT_THAT(fit.summary(), HasSubstr("8 stages; joined, since they work in place: 0..1, 2..3"));
  EXPECT_THAT(fit.report(), AllOf(HasSubstr("input 64x64 Float: 7 steps, median "),
                                  HasSubstr(" of gradients of weights, which the budget does not "
                                            "include; predicted ")));
}

TEST_F(FitTest, IsPlainTrainingWherePlainTrainingFits) {
  const Fit fit(Perceptron(), Batch(64), Loss(), {.memory = "1GiB"});
  EXPECT_THAT(fit.summary(), HasSubstr("plan            plain training, which fits"));
}

// A language model's head: its output is the largest value by far.
class FitHeadTest : public FitTest {
 protected:
  static constexpr int64_t kWords = 2000;

  static nn::Sequential Words() {
    nn::Sequential network = Perceptron();
    network->push_back(nn::Linear(64, kWords));
    for (at::Tensor& parameter : network->parameters()) {
      parameter.mutable_grad() = at::zeros_like(parameter);
    }
    return network;
  }
  static TorchLoss CrossEntropy() {
    return [](const at::Tensor& output) {
      return nn::functional::cross_entropy(output, at::zeros({output.size(0)}, at::kLong));
    };
  }
  static int64_t PlainBytes(const TorchLoss& loss) {
    const absl::StatusOr<int64_t> bytes =
        PlainPeakBytes(StagesOf(Words()), Batch(64), loss, &HostMemory());
    EXPECT_THAT(bytes, IsOk());
    return bytes.value_or(0);
  }
};

TEST_F(FitHeadTest, TakesLessThanPlainTrainingWhereTheLossDoesNotKeepItsInput) {
  const int64_t budget = PlainBytes(CrossEntropy()) - 1;
  nn::Sequential network = Words();
  Fit fit(network, Batch(64), CrossEntropy(), {.memory = std::to_string(budget)});
  EXPECT_THAT(fit.summary(), AllOf(HasSubstr("; joined with the loss, which does not keep its "
                                             "input: 16\n"),
                                   HasSubstr(" stages recomputed")));
  const at::Tensor batch = Batch(64);
  HostMemoryMeter& memory = HostMemory();
  memory.SetLimit(memory.LiveBytes() + budget - static_cast<int64_t>(batch.nbytes()));
  at::Tensor loss;
  EXPECT_NO_THROW(loss = fit.step(batch, CrossEntropy()));
  memory.SetLimit(INT64_MAX);
  nn::Sequential plain = Words();
  const absl::StatusOr<at::Tensor> expected = PlainStep(StagesOf(plain), Batch(64), CrossEntropy());
  ASSERT_THAT(expected, IsOk());
  EXPECT_TRUE(at::equal(loss, *expected));
  for (size_t i = 0; i < plain->parameters().size(); ++i) {
    EXPECT_TRUE(at::equal(network->parameters()[i].grad(), plain->parameters()[i].grad())) << i;
  }
}

TEST_F(FitHeadTest, LeavesTheLastStageByItselfWhereTheLossKeepsItsInput) {
  const Fit fit(Words(), Batch(64), Loss(), {.memory = "50%"});
  EXPECT_THAT(fit.summary(), Not(HasSubstr("joined with the loss")));
}

// Either way of training is right for a loss of which the plan does not know.
TEST_F(FitHeadTest, TakesAnotherLossThanThePlanIsFor) {
  nn::Sequential network = Words();
  Fit fit(network, Batch(64), CrossEntropy(),
          {.memory = std::to_string(PlainBytes(CrossEntropy()) - 1)});
  const absl::StatusOr<at::Tensor> expected = PlainStep(StagesOf(Words()), Batch(64), Loss());
  ASSERT_THAT(expected, IsOk());
  EXPECT_TRUE(at::equal(fit.step(Batch(64), Loss()), *expected));
}

TEST_F(FitTest, MayTakeAllThatTheDeviceHasLeft) {
  const Fit fit(Perceptron(), Batch(64), Loss());
  EXPECT_THAT(fit.summary(), HasSubstr("plan            plain training, which fits"));
}

TEST_F(FitTest, OffloadsToTheMemoryThatItSavesOnlyOnRequest) {
  const auto told = [](std::optional<bool> offload) {
    std::string text;
    const auto add = [&text](const std::string& what) { text += what + "\n"; };
    const Fit fit(Perceptron(), Batch(64), Loss(),
                  {.memory = "60%", .offload = offload, .progress = add});
    return text + fit.summary();
  };
  EXPECT_THAT(told(std::nullopt), AllOf(HasSubstr(" 0 offloaded"), Not(HasSubstr("the link"))));
  EXPECT_THAT(told(true), HasSubstr("measuring the link to the host"));
}

TEST_F(FitTest, ChangesNothingBeforeTheFirstStep) {
  nn::Sequential network = Perceptron();
  const at::Tensor weight = network->parameters()[0].detach().clone();
  at::manual_seed(3);
  const at::Tensor expected = at::rand({1});
  at::manual_seed(3);
  const Fit fit(network, Batch(64), Loss(), {.memory = "60%"});
  EXPECT_TRUE(at::equal(at::rand({1}), expected));
  EXPECT_TRUE(at::equal(network->parameters()[0], weight));
  EXPECT_FALSE(network->parameters()[0].grad().defined());
}

// The allocator refuses whatever exceeds the budget.
TEST_F(FitTest, KeepsEveryShapeWithinTheBudgetOrSaysThatItCannot) {
  constexpr int64_t kBudget = 176 << 10;
  nn::Sequential network = Perceptron();
  for (at::Tensor& parameter : network->parameters()) {
    parameter.mutable_grad() = at::zeros_like(parameter);
  }
  Fit fit(network, Batch(64), Loss(), {.memory = std::to_string(kBudget)});
  HostMemoryMeter& memory = HostMemory();
  int trained = 0;
  for (const int64_t rows : {64, 32, 96, 4096, 64, 1}) {
    SCOPED_TRACE(rows);
    const at::Tensor batch = Batch(rows);
    try {
      fit.step(batch, Loss());  // makes the plan, for which it profiles
    } catch (const c10::OutOfMemoryError& error) {
      EXPECT_THAT(error.what_without_backtrace(),
                  HasSubstr("input 4096x64 Float: no schedule fits within memory = 176.00 KiB"));
      EXPECT_EQ(rows, 4096);
      continue;
    }
    memory.SetLimit(memory.LiveBytes() + kBudget - static_cast<int64_t>(batch.nbytes()));
    EXPECT_NO_THROW(fit.step(batch, Loss()));
    memory.SetLimit(INT64_MAX);
    ++trained;
  }
  EXPECT_EQ(trained, 5);
}

// Of the gradients of weights, which exist from the start.
std::vector<at::Tensor> ZeroGradients(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> gradients;
  for (at::Tensor parameter : parameters) {
    parameter.mutable_grad() = at::zeros_like(parameter);
    gradients.push_back(parameter.grad());
  }
  return gradients;
}

// Batches of 8, 4, 16, 24 and 8 times 16 rows, also in the steps that run before a batch's own
// schedule is found.
TEST_F(FitTest, TrainsBatchesOfOtherSizesWithinTheBudgetAndRight) {
  constexpr int64_t kBudget = 440 << 10;
  nn::Sequential network = Perceptron();
  nn::Sequential plain = Perceptron();
  Fit fit(network, Batch(8 * 16), Loss(), {.memory = std::to_string(kBudget)});
  HostMemoryMeter& memory = HostMemory();
  for (const int64_t size : {8, 4, 16, 24, 8}) {
    SCOPED_TRACE(size);
    const at::Tensor batch = at::randn({size * 16, 64});
    if (size == 24) {
      EXPECT_THAT(MessageOf<c10::OutOfMemoryError>([&] { fit.step(batch, Loss()); }),
                  HasSubstr("input 384x64 Float: no schedule fits within memory = 440.00 KiB; "));
      continue;
    }
    const std::vector<at::Tensor> expected = ZeroGradients(plain->parameters());
    const absl::StatusOr<at::Tensor> loss = PlainStep(StagesOf(plain), batch.clone(), Loss());
    ASSERT_THAT(loss, IsOk());
    for (int step = 0; step < 4; ++step) {
      const std::vector<at::Tensor> gradients = ZeroGradients(network->parameters());
      const int64_t before_bytes = memory.LiveBytes();
      EXPECT_TRUE(at::equal(fit.step(batch, Loss()), *loss));
      EXPECT_EQ(Difference(gradients, expected), "") << fit.summary();
      // What the batch takes is part of the budget, and there already.
      EXPECT_LE(memory.PeakBytes() - before_bytes + static_cast<int64_t>(batch.nbytes()), kBudget);
    }
  }
}

TEST_F(FitTest, RunsUnderAnotherShapesScheduleUntilItsOwnIsFound) {
  nn::Sequential network = Perceptron();
  Fit fit(network, Batch(64), Loss(), {.memory = "150000"});
  EXPECT_THAT(fit.summary(), Not(HasSubstr("that of input")));
  fit.step(Batch(60), Loss());
  EXPECT_THAT(fit.summary(), HasSubstr(", that of input 64x64 Float until its own is found: "));
  while (fit.summary().find("that of input") != std::string::npos) fit.step(Batch(60), Loss());
  EXPECT_THAT(fit.summary(), HasSubstr("input 60x64 Float\n"));
}

// Of weights with gradients: whether a new shape is measured without a second set of these.
class FitFullDeviceTest : public FitTest {
 protected:
  static constexpr int64_t kBudget = 150000;  // less than plain training takes, and the weights
  // Copies of random generators' states, and single numbers.
  static constexpr int64_t kBesideSteps = 16 << 10;

  // Leaves `bytes` of the device while `call` runs.
  template <typename Call>
  static std::string ErrorWithin(int64_t bytes, const Call& call) {
    HostMemoryMeter& memory = HostMemory();
    memory.SetLimit(memory.LiveBytes() + bytes);
    const std::string error = MessageOf<c10::OutOfMemoryError>(call);
    memory.SetLimit(INT64_MAX);
    return error;
  }
  void Told(const std::string& what) { told_ += what + "\n"; }

  nn::Sequential network_ = Perceptron();
  std::string told_;
  Fit fit_ = Fit(network_, Batch(64), Loss(),
                 {.memory = std::to_string(kBudget),
                  .progress = [this](const std::string& what) { Told(what); }});
};

TEST_F(FitFullDeviceTest, MeasuresANewShapeInTheMemoryOfAStep) {
  nn::Sequential plain = Perceptron();
  std::vector<at::Tensor> expected;
  for (const int64_t rows : {64, 60}) {
    ASSERT_THAT(PlainStep(StagesOf(plain), Batch(rows), Loss()), IsOk());
  }
  for (const at::Tensor& parameter : plain->parameters()) expected.push_back(parameter.grad());
  fit_.step(Batch(64), Loss());
  const at::Tensor batch = Batch(60);
  EXPECT_EQ(ErrorWithin(kBudget + kBesideSteps, [&] { fit_.step(batch, Loss()); }),
            "nothing was thrown");
  EXPECT_THAT(fit_.summary(), HasSubstr("input 60x64 Float\n"));
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : network_->parameters()) gradients.push_back(parameter.grad());
  EXPECT_EQ(Difference(gradients, expected), "");
}

// What another shape's schedules may take is still the whole budget.
TEST_F(FitFullDeviceTest, DoesNotTakeAFullDeviceForASchedulesExcess) {
  ZeroGradients(network_->parameters());
  const at::Tensor batch = Batch(60);
  EXPECT_THAT(ErrorWithin(kBudget * 2 / 3, [&] { fit_.step(batch, Loss()); }),
              HasSubstr("input 60x64 Float: no schedule within memory = 146.48 KiB could be "
                        "measured: "));
  told_.clear();
  fit_.step(Batch(62), Loss());
  EXPECT_THAT(told_, HasSubstr("finding a schedule within 146.48 KiB for input 62x64 Float\n"));
}

TEST_F(FitTest, NamesTheShapeThatNoScheduleFits) {
  Fit fit(Perceptron(), Batch(64), Loss(), {.memory = "150000"});
  EXPECT_THAT(MessageOf<c10::OutOfMemoryError>([&] { fit.step(Batch(640), Loss()); }),
              AllOf(HasSubstr("input 640x64 Float: no schedule fits within memory = "),
                    HasSubstr(" are the least that does")));
  EXPECT_NO_THROW(fit.step(Batch(64), Loss()));
}

// With dropout schedules take a little more than predicted: one that is predicted to take exactly
// the budget is measured, and another one found. The first steps may be verified.
class FitVerifyTest : public FitTest, public testing::WithParamInterface<bool> {};

INSTANTIATE_TEST_SUITE_P(Fit, FitVerifyTest, testing::Bool());

TEST_P(FitVerifyTest, KeepsABudgetOfWhatAScheduleIsPredictedToTake) {
  at::manual_seed(1);
  const absl::StatusOr<Network> network = MakeNetwork(
      "gpt2", {.batch = 2, .layers = 3, .width = 64, .sequence = 32, .vocabulary = 100});
  ASSERT_THAT(network, IsOk());
  const auto make = [&](const std::string& memory, std::string* told) {
    return Fit(network->stages, network->input, network->loss,
               {.memory = memory,
                .solver = "rotor",
                .verify = GetParam(),
                .progress = [told](const std::string& what) { *told += what + "\n"; }});
  };
  std::string told;
  const int64_t predicted = make("20%", &told).plan().commands->prediction.peak_memory_bytes;
  told.clear();
  Fit fit = make(std::to_string(predicted), &told);
  // A profile, and one solve or another.
  EXPECT_GE(std::count(told.begin(), told.end(), '\n'), 2) << told;
  ZeroGradients(TorchStages(network->stages, {}).Parameters());
  HostMemoryMeter& memory = HostMemory();
  memory.SetLimit(memory.LiveBytes() + predicted - static_cast<int64_t>(network->input.nbytes()));
  EXPECT_NO_THROW(fit.step(network->input, network->loss));
  memory.SetLimit(INT64_MAX);
}

TEST_F(FitTest, KeepsThePlansOfTheEightShapesUsedLast) {
  int profiled = 0;
  const auto count = [&](const std::string& what) { profiled += what.find("profiling") == 0; };
  Fit fit(Perceptron(), Batch(1), Loss(), {.memory = "1GiB", .progress = count});
  for (int64_t rows = 2; rows <= 8; ++rows) fit.step(Batch(rows), Loss());
  fit.step(Batch(1), Loss());
  EXPECT_EQ(profiled, 8);
  fit.step(Batch(9), Loss());  // in place of 2
  fit.step(Batch(1), Loss());
  EXPECT_EQ(profiled, 9);
  fit.step(Batch(2), Loss());
  EXPECT_EQ(profiled, 10);
}

// Dropout saves its mask in training mode only.
TEST_F(FitTest, PlansAgainForANetworkInAnotherMode) {
  int profiled = 0;
  const auto count = [&](const std::string& what) { profiled += what.find("profiling") == 0; };
  nn::Sequential network = Perceptron();
  network->push_back(nn::Dropout(0.5));
  network->eval();
  Fit fit(network, Batch(64), Loss(), {.memory = "1GiB", .progress = count});
  fit.step(Batch(64), Loss());
  EXPECT_EQ(profiled, 1);
  network->train();
  fit.step(Batch(64), Loss());
  EXPECT_EQ(profiled, 2);
  network->parameters()[0].set_requires_grad(false);
  fit.step(Batch(64), Loss());
  EXPECT_EQ(profiled, 3);
}

// With the first step's weights, which autocast has cast for a convolution, the second loss would
// be the first one's.
TEST_F(FitTest, ForgetsWhatAutocastHasCast) {
  const at::Tensor image = at::ones({8, 4, 16, 16});
  for (const char* memory : {"60%", "1GiB"}) {
    nn::Sequential network;
    for (int layer = 0; layer < 8; ++layer) {
      network->push_back(nn::Conv2d(nn::Conv2dOptions(4, 4, 3).padding(1)));
      network->push_back(nn::Sigmoid());
    }
    Fit fit(network, image, Loss(), {.memory = memory});
    torch::optim::SGD optimizer(network->parameters(), torch::optim::SGDOptions(10));
    SetAutocastOnCpu(true);
    const double first = fit.step(image, Loss()).item<double>();
    optimizer.step();
    const double second = fit.step(image, Loss()).item<double>();
    SetAutocastOnCpu(false);
    EXPECT_NE(second, first) << memory;
  }
}

TEST_F(FitTest, SaysWhatIsWrongWithAnOptionBeforeItMeasuresAnything) {
  int profiled = 0;
  const auto count = [&](const std::string& /*what*/) { ++profiled; };
  EXPECT_THAT(ErrorOf({.solver = "fastest", .progress = count}),
              HasSubstr("solver: 'fastest' is not known; choose one of"));
  EXPECT_THAT(ErrorOf({.memory = "plenty", .progress = count}), HasSubstr("memory: "));
  EXPECT_THAT(ErrorOf({.graph_mode = true, .save_options = true, .progress = count}),
              HasSubstr("save_options: "));
  EXPECT_EQ(profiled, 0);
}

TEST_F(FitTest, NamesTheLeastBudgetWhereNothingFits) {
  const std::string message = MessageOf<c10::OutOfMemoryError>(
      [&] { Fit(Perceptron(), Batch(64), Loss(), {.memory = "1KiB"}); });
  EXPECT_THAT(message, HasSubstr("no schedule fits within memory = 1.00 KiB; "));
  EXPECT_THAT(message, HasSubstr(" are the least that does"));
}

TEST_F(FitTest, NamesABudgetThatIsEnoughWhereNothingFits) {
  at::manual_seed(1);
  const absl::StatusOr<Network> network =
      MakeNetwork("gpt2", {.batch = 1, .layers = 3, .width = 16, .sequence = 16, .vocabulary = 20});
  ASSERT_THAT(network, IsOk());
  ZeroGradients(TorchStages(network->stages, {}).Parameters());
  for (const char* memory : {"1KiB", "0%"}) {
    SCOPED_TRACE(memory);
    std::string text = MessageOf<c10::OutOfMemoryError>(
        [&] { Fit(network->stages, network->input, network->loss, {.memory = memory}); });
    ASSERT_THAT(text, HasSubstr("no schedule fits within memory = "));
    text = text.substr(text.find("; ") + 2);
    const std::string least = text.substr(0, text.find(' '));
    Fit fit(network->stages, network->input, network->loss, {.memory = least});
    HostMemoryMeter& memory_meter = HostMemory();
    memory_meter.SetLimit(memory_meter.LiveBytes() + std::stoll(least) -
                          static_cast<int64_t>(network->input.nbytes()));
    EXPECT_NO_THROW(fit.step(network->input, network->loss));
    memory_meter.SetLimit(INT64_MAX);
  }
}

TEST_F(FitTest, NamesTheStageThatFails) {
  nn::Sequential network = Perceptron();
  network->push_back(nn::Linear(63, 64));
  EXPECT_THAT(MessageOf<c10::Error>([&] { Fit(network, Batch(64), Loss(), {}); }),
              HasSubstr("16: "));
  Fit fit(Perceptron(), Batch(64), Loss(), {.memory = "1GiB"});
  EXPECT_THAT(MessageOf<c10::ValueError>([&] { fit.step(at::Tensor(), Loss()); }),
              HasSubstr("input: is an undefined tensor"));
  EXPECT_THAT(MessageOf<c10::ValueError>([&] { fit.step(Batch(64), nullptr); }),
              HasSubstr("loss: is no function"));
  EXPECT_THAT(MessageOf<c10::ValueError>([&] { fit.step(Batch(64).requires_grad_(), Loss()); }),
              HasSubstr("input: requires a gradient"));
  const TorchLoss failing = [](const at::Tensor& output) { return output.view({3}); };
  EXPECT_THAT(MessageOf<c10::Error>([&] { fit.step(Batch(64), failing); }),
              HasSubstr("loss: shape '[3]' is invalid"));
}

TEST_F(FitTest, SolvesHereWhereNoServerAnswers) {
  std::string told;
  const Fit fit(Perceptron(), Batch(64), Loss(),
                {.memory = "60%",
                 .servers = {"unix:/nonexistent"},
                 .patience_seconds = 0.1,
                 .progress = [&](const std::string& what) { told += what + "\n"; }});
  EXPECT_THAT(told, HasSubstr("unix:/nonexistent"));
  EXPECT_THAT(fit.summary(), HasSubstr(" stages recomputed"));
}

// A U-Net, against its forward as it is written without stages.
class FitSkipsTest : public testing::TestWithParam<const char*> {
 protected:
  static constexpr int kSteps = 3;

  // Trains steps with gradients that exist. Returns the peak, with the input but without them.
  template <typename Step>
  static int64_t Train(Training* training, const Step& step) {
    HostMemoryMeter& memory = HostMemory();
    int64_t peak = 0;
    for (int i = 0; i < kSteps; ++i) {
      const int64_t before = memory.LiveBytes();
      memory.ResetPeak();
      step();
      peak = memory.PeakBytes() - before + static_cast<int64_t>(training->input.nbytes());
      OptimizerStep(*training);
    }
    return peak;
  }
};

INSTANTIATE_TEST_SUITE_P(Fit, FitSkipsTest, testing::Values("rotor", "auto"));

TEST_P(FitSkipsTest, TakesLessThanPlainTrainingAndTrainsToTheBit) {
  Training plain = UNetTraining(c10::kCPU);
  at::manual_seed(1);
  const int64_t plain_peak = Train(&plain, [&] { PlainBackward(plain); });
  const std::vector<at::Tensor> expected = StateOf(plain);
  const std::string share_of_plain = std::to_string(plain_peak * 6 / 10);
  for (const std::string& memory : {std::string("20%"), std::string("60%"), share_of_plain}) {
    SCOPED_TRACE(memory);
    Training planned = UNetTraining(c10::kCPU);
    at::manual_seed(1);
    Fit fit(planned.stages, planned.input, planned.loss, {.memory = memory, .solver = GetParam()});
    const int64_t peak = Train(&planned, [&] { fit.step(planned.input, planned.loss); });
    EXPECT_EQ(Difference(StateOf(planned), expected), "") << fit.summary();
    EXPECT_LE(peak, memory == share_of_plain ? plain_peak * 6 / 10 : plain_peak) << fit.summary();
  }
}

TEST(FitTuples, TakeSideInputsAndNameWhatIsMissing) {
  Training plain = TupleTraining(c10::kCPU);
  at::manual_seed(1);
  const at::Tensor loss = PlainBackward(plain);
  Training planned = TupleTraining(c10::kCPU);
  at::manual_seed(1);
  const TorchInput input{planned.input, planned.sides};
  Fit fit(planned.stages, input, planned.loss, {.memory = "20%"});
  EXPECT_THAT(fit.summary(), AllOf(HasSubstr("input 4x32 Long, mask 4x1x32 Bool\n"),
                                   HasSubstr(" stages recomputed")));
  EXPECT_TRUE(at::equal(fit.step(input, planned.loss), loss));
  EXPECT_EQ(Difference(StateOf(planned), StateOf(plain)), "");
  try {
    fit.step(planned.input, planned.loss);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const c10::ValueError& error) {
    EXPECT_THAT(error.what_without_backtrace(), HasSubstr("mix: reads mask, which no stage before "
                                                          "it saves and no side input is called"));
  }
}

}  // namespace
}  // namespace stowage
