// Stages that are saved by an option: what they keep, what they rerun, where they cannot, and how
// options are found.
#include "client/torch/profile/save_options.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>
#include <torch/library.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "client/agent/device.h"
#include "client/agent/executor.h"
#include "client/agent/host_device.h"
#include "client/agent/plan.h"
#include "client/torch/base/memory_meter.h"
#include "client/torch/base/torch_versions.h"
#include "client/torch/fit.h"
#include "client/torch/profile/profiler.h"
#include "client/torch/stages/stage_probe.h"
#include "client/torch/stages/torch_stages.h"
#include "gmock/gmock.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/validate.h"
#include "solver/solve/answer_request.h"
#include "tests/support/chains.h"
#include "tests/support/forwarding_device.h"
#include "tests/support/status_matchers.h"
#include "tests/support/training.h"

namespace stowage {
namespace {

using testing::HasSubstr;

namespace nn = torch::nn;

constexpr int64_t kWidth = 24;
constexpr int64_t kHeads = 3;
constexpr int64_t kLength = 10;
constexpr double kDropout = 0.2;

// Causal attention of what one linear layer has made of the input.
at::Tensor Attend(const at::Tensor& qkv, nn::Dropout& dropout) {
  const int64_t batch = qkv.size(0);
  const auto split = qkv.view({batch, kLength, 3, kHeads, kWidth / kHeads}).unbind(2);
  const at::Tensor query = split[0].transpose(1, 2);
  const at::Tensor key = split[1].transpose(1, 2);
  const at::Tensor value = split[2].transpose(1, 2);
  const at::Tensor later = at::ones({kLength, kLength}, at::kBool).triu(1);
  const at::Tensor scores = (query.matmul(key.transpose(2, 3)) * 0.35).masked_fill(later, -1e9);
  const at::Tensor weights = dropout(scores.softmax(-1));
  return weights.matmul(value).transpose(1, 2).reshape({batch, kLength, kWidth});
}

class GptBlock : public nn::Module {
 public:
  at::Tensor forward(const at::Tensor& input) {
    const at::Tensor middle = input + dropout_(projection_(Attend(qkv_(norm_(input)), dropout_)));
    return middle + dropout_(down_(at::gelu(up_(norm2_(middle)))));
  }

 private:
  nn::LayerNorm norm_ = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({kWidth})));
  nn::LayerNorm norm2_ = register_module("norm2", nn::LayerNorm(nn::LayerNormOptions({kWidth})));
  nn::Linear qkv_ = register_module("qkv", nn::Linear(kWidth, 3 * kWidth));
  nn::Linear projection_ = register_module("projection", nn::Linear(kWidth, kWidth));
  nn::Linear up_ = register_module("up", nn::Linear(kWidth, 4 * kWidth));
  nn::Linear down_ = register_module("down", nn::Linear(4 * kWidth, kWidth));
  nn::Dropout dropout_ = register_module("dropout", nn::Dropout(kDropout));
};

class LlamaBlock : public nn::Module {
 public:
  at::Tensor forward(const at::Tensor& input) {
    const at::Tensor middle =
        input + dropout_(projection_(Attend(qkv_(Norm(input, scale_)), dropout_)));
    const at::Tensor normed = Norm(middle, scale2_);
    return middle + dropout_(down_(at::silu(gate_(normed)) * up_(normed)));
  }

 private:
  static at::Tensor Norm(const at::Tensor& input, const at::Tensor& scale) {
    return input * at::rsqrt(input.pow(2).mean(-1, /*keepdim=*/true) + 1e-6) * scale;
  }

  static nn::Linear Unbiased(int64_t in, int64_t out) {
    return nn::Linear(nn::LinearOptions(in, out).bias(false));
  }

  at::Tensor scale_ = register_parameter("scale", at::ones({kWidth}));
  at::Tensor scale2_ = register_parameter("scale2", at::ones({kWidth}));
  nn::Linear qkv_ = register_module("qkv", Unbiased(kWidth, 3 * kWidth));
  nn::Linear projection_ = register_module("projection", Unbiased(kWidth, kWidth));
  nn::Linear gate_ = register_module("gate", Unbiased(kWidth, 3 * kWidth));
  nn::Linear up_ = register_module("up", Unbiased(kWidth, 3 * kWidth));
  nn::Linear down_ = register_module("down", Unbiased(3 * kWidth, kWidth));
  nn::Dropout dropout_ = register_module("dropout", nn::Dropout(kDropout));
};

template <typename Block>
TorchStage StageOf(std::string name, std::shared_ptr<Block> block) {
  return {.name = std::move(name),
          .forward = [block](const at::Tensor& input) { return block->forward(input); },
          .module = block};
}

// Three blocks, whose input needs no gradient, and a loss.
template <typename Block>
Training BlockTraining() {
  at::manual_seed(21);
  Training training;
  for (int block = 1; block <= 3; ++block) {
    training.stages.push_back(StageOf(absl::StrCat("block", block), std::make_shared<Block>()));
  }
  training.input = at::randn({8, kLength, kWidth});
  training.loss = [](const at::Tensor& output) { return output.square().mean(); };
  return training;
}

const std::vector<KeptOperators> kOptions = {
    {.names = {"linear", "matmul"}},
    {.names = {"linear"}},
    {.names = {"dropout", "softmax"}},
    {.names = {"layer_norm", "gelu", "silu", "mul", "add", "matmul", "linear", "dropout"}},
    {},
};

Chain ChainWithOptions(int stages) {
  Chain chain = EqualChain(stages);
  for (Stage& stage : chain.stages) {
    for (size_t k = 0; k < kOptions.size(); ++k) {
      stage.save_options.push_back({"", stage.output_bytes, stage.backward_seconds, 0});
    }
  }
  return chain;
}

struct Case {
  const char* name;
  std::function<Training()> training;
};

class SaveOptionsTest : public testing::TestWithParam<Case> {
 protected:
  static Training WithOptions() {
    Training training = GetParam().training();
    for (TorchStage& stage : training.stages) stage.save_options = kOptions;
    return training;
  }
};

const auto kBlocks = testing::Values(Case{"gpt", &BlockTraining<GptBlock>},
                                     Case{"llama", &BlockTraining<LlamaBlock>});

INSTANTIATE_TEST_SUITE_P(TorchStages, SaveOptionsTest, kBlocks,
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(SaveOptionsTest, TrainToTheBitAsWithout) {
  Training plain = GetParam().training();
  at::manual_seed(1);
  std::vector<at::Tensor> losses;
  for (int step = 0; step < 2; ++step) {
    losses.push_back(PlainBackward(plain));
    OptimizerStep(plain);
  }
  for (const char* operations :
       {"S1:1 S2:1 S3:1 S4 B4 B3 B2 B1", "S1:2 S2:2 S3:2 S4 B4 B3 B2 B1",
        "S1:3 S2:3 S3:3 S4 B4 B3 B2 B1", "S1:4 S2:4 S3:4 S4 B4 B3 B2 B1",
        "S1:5 S2:5 S3:5 S4 B4 B3 B2 B1", "S1:1 S2:3 S3 S4 B4 B3 B2 B1",
        // A stage that is recomputed before it is saved, one that is saved and dropped before.
        "C1 D2 S3:2 S4 B4 B3 C1 S2:1 B2 S1:4 B1", "S1:1 S2:1 C3 S4 B4 S3:3 B3 B2 B1"}) {
    SCOPED_TRACE(operations);
    Training planned = WithOptions();
    at::manual_seed(1);
    ScheduledTraining trained(planned, ChainWithOptions(3), Ops(operations));
    for (const at::Tensor& loss : losses) {
      ASSERT_THAT(trained.Step(), IsOk());
      EXPECT_TRUE(at::equal(trained.stages().loss(), loss));
      OptimizerStep(planned);
    }
    EXPECT_EQ(Difference(StateOf(planned), StateOf(plain)), "");
  }
}

// Returns a copy and counts its calls, which may take some time.
int copies = 0;
std::chrono::milliseconds copy_time{0};
at::Tensor CountedCopy(const at::Tensor& tensor) {
  ++copies;
  std::this_thread::sleep_for(copy_time);
  return tensor.clone();
}

at::Tensor CallCountedCopy(const at::Tensor& tensor) {
  static torch::Library* const library = [] {
    auto* const made =
        new torch::Library(torch::Library::DEF, "stowage_test", {}, __FILE__, __LINE__);
    made->def("counted_copy(Tensor tensor) -> Tensor", &CountedCopy);
    return made;
  }();
  (void)library;
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow("stowage_test::counted_copy", "")
      .typed<at::Tensor(const at::Tensor&)>()
      .call(tensor);
}

// A stage of one option between two linear ones.
Training Around(std::function<at::Tensor(const at::Tensor&)> forward, KeptOperators option,
                std::shared_ptr<nn::Module> module = nullptr) {
  at::manual_seed(5);
  Training training;
  const auto linear = [](std::string name) -> TorchStage {
    nn::Linear made(8, 8);
    return {.name = std::move(name),
            .forward = [made](const at::Tensor& input) mutable { return made(input); },
            .module = made.ptr()};
  };
  training.stages = {linear("first"),
                     {.name = "middle",
                      .forward = std::move(forward),
                      .module = std::move(module),
                      .save_options = {std::move(option)}},
                     linear("last")};
  training.input = at::randn({4, 8});
  training.loss = [](const at::Tensor& output) { return output.square().sum(); };
  return training;
}

Chain AroundChain() {
  Chain chain = EqualChain(3);
  chain.stages[1].save_options = {{"", chain.stages[1].output_bytes, 2, 0}};
  return chain;
}

absl::Status StepOf(const Training& training, const char* operations = "S1 S2:1 S3 S4 B4 B3 B2 B1",
                    Chain chain = AroundChain()) {
  ScheduledTraining trained(training, chain, Ops(operations));
  return trained.Step();
}

TEST(SaveOptions, RerunWhatIsNotKeptAlone) {
  const auto forward = [](const at::Tensor& input) {
    return CallCountedCopy(at::sigmoid(input)).exp() * 2;
  };
  copies = 0;
  ASSERT_THAT(StepOf(Around(forward, {.names = {"stowage_test::counted_copy"}})), IsOk());
  EXPECT_EQ(copies, 1);
  ASSERT_THAT(StepOf(Around(forward, {.names = {"sigmoid"}})), IsOk());
  EXPECT_EQ(copies, 3);
}

TEST(SaveOptions, EndARerunAtItsLastMissingTensor) {
  // The copy is behind what the backward reads.
  const auto forward = [](const at::Tensor& input) {
    return CallCountedCopy(at::sigmoid(input).exp());
  };
  copies = 0;
  ASSERT_THAT(StepOf(Around(forward, {.names = {"sigmoid"}})), IsOk());
  EXPECT_EQ(copies, 1);
}

TEST(SaveOptions, KeepWhatTheyName) {
  const auto bytes = [](KeptOperators option) {
    const auto forward = [](const at::Tensor& input) { return input.exp().sin().tanh() + 1; };
    TorchStages stages(Around(forward, std::move(option)).stages, {});
    const StageProbe probe(&stages);
    stages.Feed(at::randn({4, 8}), [](const at::Tensor& output) { return output.sum(); });
    EXPECT_THAT(stages.Begin(nullptr), IsOk());
    EXPECT_THAT(stages.Forward({.stage = 1, .kind = OperationKind::kForwardCheckpoint}), IsOk());
    const int64_t before = HostMemory().LiveBytes();
    EXPECT_THAT(stages.Forward({.stage = 2, .save_option = 1}), IsOk());
    // A tensor's states of random generators are none of the value's.
    const at::Tensor state = at::globalContext().defaultGenerator(at::kCPU).get_state();
    EXPECT_LE(probe.ValueBytes(2), HostMemory().LiveBytes() - before);
    EXPECT_LE(HostMemory().LiveBytes() - before,
              probe.ValueBytes(2) + 2 * static_cast<int64_t>(state.nbytes()));
    return probe.ValueBytes(2);
  };
  constexpr int64_t kTensor = 4 * 8 * 4;
  EXPECT_EQ(bytes({}), kTensor);  // the output
  EXPECT_EQ(bytes({.names = {"exp"}}), 2 * kTensor);
  EXPECT_EQ(bytes({.numbers = {0, 1}}), 3 * kTensor);
  // The output of the sine is no longer needed.
  EXPECT_EQ(bytes({.names = {"exp", "sin", "tanh"}}), 3 * kTensor);
  // The rerun ends before the addition.
  EXPECT_EQ(bytes({.names = {"exp", "add"}}), 2 * kTensor);
}

TEST(SaveOptions, KeepWhatOperatorsInPlaceHaveMade) {
  for (const char* kept : {"sin", "batch_norm", "tanh"}) {
    SCOPED_TRACE(kept);
    const auto training = [kept] {
      nn::BatchNorm1d norm(8);
      const auto forward = [norm](const at::Tensor& input) mutable {
        const at::Tensor value = norm(input.sin().mul_(2).add_(1)).relu_();
        return at::dropout(value.tanh().square(), 0.5, /*train=*/true).exp();
      };
      return Around(forward, {.names = {kept}}, norm.ptr());
    };
    Training plain = training();
    Training planned = training();
    at::manual_seed(3);
    PlainBackward(plain);
    at::manual_seed(3);
    ASSERT_THAT(StepOf(planned), IsOk());
    EXPECT_EQ(Difference(StateOf(planned), StateOf(plain)), "");
  }
}

// What an operator in place only reads may be kept, also where the rerun skips it.
TEST(SaveOptions, KeepWhatOperatorsInPlaceRead) {
  const auto forward = [](const at::Tensor& input) {
    const at::Tensor read = input.sin();
    at::Tensor written = input.cos();
    written.add_(read).addcmul_(read, input);
    return (written.add_(written).tanh() * read).sigmoid();
  };
  for (const KeptOperators& kept : std::vector<KeptOperators>{
           {.names = {"sin"}}, {.names = {"cos"}}, {.names = {"sin", "cos", "tanh"}}}) {
    Training plain = Around(forward, {});
    Training planned = Around(forward, kept);
    PlainBackward(plain);
    ASSERT_THAT(StepOf(planned), IsOk());
    EXPECT_EQ(Difference(StateOf(planned), StateOf(plain)), "");
  }
}

TEST(SaveOptions, DrawTheNumbersThatFollowKeptOnes) {
  for (const std::set<size_t>& kept : std::vector<std::set<size_t>>{{0}, {2}, {0, 2}, {1, 4}}) {
    const auto forward = [](const at::Tensor& input) {
      at::Tensor value = input;
      for (int i = 0; i < 3; ++i) value = at::dropout(value.sin(), 0.5, /*train=*/true);
      return value.exp();
    };
    Training plain = Around(forward, {});
    Training planned = Around(forward, {.numbers = kept});
    at::manual_seed(3);
    PlainBackward(plain);
    at::manual_seed(3);
    ASSERT_THAT(StepOf(planned), IsOk());
    EXPECT_EQ(Difference(StateOf(planned), StateOf(plain)), "");
  }
}

TEST(SaveOptions, UpdateStatisticsOnceAStep) {
  for (const char* kept : {"linear", "batch_norm", "tanh"}) {
    SCOPED_TRACE(kept);
    const auto training = [kept] {
      nn::BatchNorm1d norm(8);
      const auto forward = [norm](const at::Tensor& input) mutable {
        return norm(input.tanh()).sigmoid();
      };
      return Around(forward, {.names = {kept}}, norm.ptr());
    };
    Training plain = training();
    Training planned = training();
    for (int step = 0; step < 2; ++step) {
      PlainBackward(plain);
      ASSERT_THAT(StepOf(planned), IsOk());
    }
    EXPECT_EQ(Difference(StateOf(planned), StateOf(plain)), "");
  }
}

TEST(SaveOptions, AreRefusedToStagesThatCannotHaveThem) {
  const auto twice = [](const at::Tensor& input) { return input.sin().exp(); };
  EXPECT_THAT(StepOf(Around(
                  [](const at::Tensor& input) {
                    const at::Tensor value = input.sin();
                    const at::Tensor read = value + 1;
                    return value.mul_(2).exp() * read;
                  },
                  {.names = {"sin"}})),
              Fails(absl::StatusCode::kInvalidArgument,
                    HasSubstr("middle: mul_ works in place on a result that the save option keeps: "
                              "make it work out of place, or keep other operators")));
  EXPECT_THAT(StepOf(Around(
                  [](const at::Tensor& input) {
                    const at::Tensor value = input.sin();
                    const at::Tensor read = input.cos().add_(value);
                    return value.mul_(2).exp() + read;
                  },
                  {.names = {"sin"}})),
              Fails(absl::StatusCode::kInvalidArgument,
                    HasSubstr("middle: mul_ works in place on a result that the save option")));
  EXPECT_THAT(StepOf(Around(
                  [runs = 0](const at::Tensor& input) mutable {
                    return (++runs == 1 ? input.sin() : input.cos()).exp().exp();
                  },
                  {})),
              Fails(absl::StatusCode::kFailedPrecondition,
                    HasSubstr("middle: recomputed, it calls cos as operator 1, where its first run "
                              "called sin: declare it no_recompute")));
  Training once = Around(twice, {});
  once.stages[1].no_recompute = true;
  EXPECT_THAT(StepOf(once), Fails(absl::StatusCode::kFailedPrecondition,
                                  HasSubstr("middle: may not run twice, but the plan saves it by "
                                            "an option")));
  Training without = Around(twice, {});
  without.stages[1].save_options.clear();
  EXPECT_THAT(StepOf(without), Fails(absl::StatusCode::kFailedPrecondition,
                                     HasSubstr("middle: has 0 save options, but the plan saves it "
                                               "by number 1: profile again")));
  Chain unread = AroundChain();
  unread.stages[1].input_unread = true;
  EXPECT_THAT(StepOf(Around(twice, {}), "C1 X2:1 S3 S4 B4 B3 B2 S1 B1", unread),
              Fails(absl::StatusCode::kFailedPrecondition,
                    HasSubstr("middle: its backward reads its input")));
}

// A device on which time passes where its clock is set forward.
class ClockDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  void Pass(double seconds) { clock_ += seconds; }

  absl::StatusOr<std::shared_ptr<const Event>> Record(Queue queue) override {
    const auto event = std::make_shared<ClockEvent>();
    const absl::Status status = Launch(queue, [this, event](void* /*stream*/) {
      event->seconds = clock_;
      return absl::OkStatus();
    });
    if (!status.ok()) return status;
    return event;
  }

 private:
  struct ClockEvent final : Event {
    double Seconds() const override { return seconds; }
    double seconds = 0;
  };

  double clock_ = 0;  // of the compute queue's thread
};

TEST(SaveOptions, CostWhatTheirForwardsTakeLonger) {
  HostDevice host;
  ClockDevice device(&host);
  int calls = 0;
  Training training = Around(
      [&](const at::Tensor& input) {
        // In turn the stage's own forward, the option's, and its rerun.
        device.Pass(std::vector<double>{1, 5, 3}[static_cast<size_t>(calls++) % 3]);
        return input.sin().exp().tanh().sigmoid();
      },
      {.names = {"sin"}});
  TorchStages stages(training.stages, {});
  Chain chain = EqualChain(3);
  chain.stages[1].saved_bytes = 4 * static_cast<int64_t>(training.input.nbytes());
  stages.Feed(training.input, training.loss);
  ASSERT_THAT(FindSaveOptions(&stages, &device, &HostMemory(), {.repeats = 1}, &chain), IsOk());
  const Stage& stage = chain.stages[1];
  ASSERT_EQ(stage.last_option(), 1);
  EXPECT_EQ(stage.BackwardSeconds(1), stage.backward_seconds + (5 - 1) + 3);
}

// A profiled network with the options that were found.
class FoundOptionsTest : public SaveOptionsTest {
 protected:
  FoundOptionsTest() : training_(GetParam().training()), stages_(training_.stages, {}) {
    stages_.Feed(training_.input, training_.loss);
    auto chain = ProfileChain(&stages_, &device_, &HostMemory(), {.repeats = 1});
    EXPECT_THAT(chain, IsOk());
    chain_ = *std::move(chain);
    floor_bytes_ = FloorOfMemory(chain_).bytes;
    stages_.Feed(training_.input, training_.loss);
    EXPECT_THAT(FindSaveOptions(&stages_, &device_, &HostMemory(), {.repeats = 1}, &chain_),
                IsOk());
  }

  // A step takes as long in every run, and options cost little.
  void SetTimes() {
    for (Stage& stage : chain_.stages) {
      stage.forward_seconds = 1;
      stage.replay_seconds.reset();
      stage.backward_seconds = 2;
      double seconds = 2;
      for (SaveOption& option : stage.save_options) option.backward_seconds = seconds += 0.1;
    }
  }

  HostDevice device_;
  Training training_;
  TorchStages stages_;
  Chain chain_;
  int64_t floor_bytes_ = 0;  // without options
};

INSTANTIATE_TEST_SUITE_P(TorchStages, FoundOptionsTest, kBlocks,
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(FoundOptionsTest, AreAsManyBytesAsTheyHold) {
  EXPECT_THAT(Violations(chain_), testing::IsEmpty());
  EXPECT_LE(FloorOfMemory(chain_).bytes, floor_bytes_);
  stages_.Feed(training_.input, training_.loss);
  ASSERT_THAT(stages_.Begin(nullptr), IsOk());
  for (int l = 1; l <= 3; ++l) {
    const Stage& stage = chain_.stage(l);
    ASSERT_FALSE(stage.save_options.empty());
    for (int k = 1; k <= stage.last_option(); ++k) {
      EXPECT_LT(static_cast<double>(stage.SavedBytes(k)),
                0.95 * static_cast<double>(stage.saved_bytes));
      EXPECT_LT(stage.SavedBytes(k), stage.SavedBytes(k - 1));
      EXPECT_GE(stage.BackwardSeconds(k), stage.BackwardSeconds(k - 1));
      EXPECT_THAT(stage.option(k).name, testing::StartsWith("keep "));
      ASSERT_THAT(stages_.Forward({.stage = l, .save_option = k}), IsOk());
      EXPECT_EQ(StageProbe(&stages_).ValueBytes(l), stage.SavedBytes(k)) << stage.option(k).name;
    }
    // Of equal layers one is measured.
    if (l > 1) {
      EXPECT_EQ(stages_.stage(l).save_options.size(), stage.save_options.size());
    }
  }
  stages_.Abandon();
}

TEST_P(FoundOptionsTest, TrainToTheBitWithinEveryBudget) {
  SetTimes();
  Training plain = GetParam().training();
  at::manual_seed(1);
  for (int step = 0; step < 2; ++step) {
    PlainBackward(plain);
    OptimizerStep(plain);
  }
  const int64_t low = FloorOfMemory(chain_).bytes;
  const int64_t high = StoreAllPeakBytes(chain_);
  int saved_by_options = 0;
  for (const char* solver : {"rotor", "auto"}) {
    for (const int percent : {5, 20, 40, 60, 80, 100}) {
      SCOPED_TRACE(absl::StrCat(solver, " at ", percent, " %"));
      const Platform platform = Memory(low + (high - low) * percent / 100);
      const auto answer = AnswerRequest({chain_, platform, solver, {}}, {});
      ASSERT_THAT(answer, IsOk());
      if (answer->outcome == Outcome::kInfeasible) continue;
      for (const Operation& operation : answer->schedule.operations) {
        saved_by_options += operation.save_option > 0 ? 1 : 0;
      }
      const auto plan = MakeFrameworkPlan(chain_, platform, answer->schedule);
      ASSERT_THAT(plan, IsOk());
      Training planned = GetParam().training();
      TorchStages stages(planned.stages, {});
      for (int l = 1; l <= 3; ++l) stages.SetSaveOptions(l, stages_.stage(l).save_options);
      const auto executor = FrameworkExecutor::Create(&*plan, &device_);
      ASSERT_THAT(executor, IsOk());
      at::manual_seed(1);
      int64_t peak_bytes = 0;
      for (int step = 0; step < 2; ++step) {
        const int64_t before_bytes = HostMemory().LiveBytes();
        HostMemory().ResetPeak();
        stages.Feed(planned.input.clone(), planned.loss);
        ASSERT_THAT((*executor)->Step(&stages), IsOk());
        peak_bytes = HostMemory().PeakBytes() - before_bytes;
        OptimizerStep(planned);
      }
      EXPECT_EQ(Difference(StateOf(planned), StateOf(plain)), "");
      // Beside the states of the random generator that stages keep until they run again.
      const at::Tensor state = at::globalContext().defaultGenerator(at::kCPU).get_state();
      EXPECT_LE(peak_bytes,
                plan->prediction.peak_memory_bytes + 3 * static_cast<int64_t>(state.nbytes()));
    }
  }
  EXPECT_GT(saved_by_options, 0);
}

TEST_P(FoundOptionsTest, ComeBackFromTheHost) {
  Training plain = GetParam().training();
  at::manual_seed(1);
  PlainBackward(plain);
  Training planned = GetParam().training();
  for (size_t i = 0; i < planned.stages.size(); ++i) {
    planned.stages[i].save_options = stages_.stage(static_cast<int>(i) + 1).save_options;
  }
  at::manual_seed(1);
  ScheduledTraining trained(planned, chain_,
                            Ops("S1:1 O1 S2:1 R1 O2 S3:1 R2 S4 B4 P2 B3 P1 B2 B1"));
  ASSERT_THAT(trained.Step(), IsOk());
  EXPECT_EQ(Difference(StateOf(planned), StateOf(plain)), "");
}

TEST_P(SaveOptionsTest, TrainToTheBitWithFit) {
  Training plain = GetParam().training();
  Training planned = GetParam().training();
  Fit fit(planned.stages, planned.input, planned.loss,
          {.memory = "50%", .save_options = true, .verify = true});
  const FitPlan& plan = fit.plan();
  ASSERT_TRUE(plan.planned.has_value());
  for (const Stage& stage : plan.chain.stages) EXPECT_FALSE(stage.save_options.empty());
  at::manual_seed(1);
  std::vector<at::Tensor> losses;
  for (int step = 0; step < 3; ++step) {
    losses.push_back(PlainBackward(plain));
    OptimizerStep(plain);
  }
  at::manual_seed(1);
  for (size_t step = 0; step < losses.size(); ++step) {
    const int64_t before_bytes = HostMemory().LiveBytes();
    HostMemory().ResetPeak();
    EXPECT_TRUE(at::equal(fit.step(planned.input, planned.loss), losses[step]));
    // The first step makes the gradients, which are beside the budget.
    if (step > 0) {
      EXPECT_LE(HostMemory().PeakBytes() - before_bytes, plan.budget_bytes);
    }
    OptimizerStep(planned);
  }
  EXPECT_EQ(Difference(StateOf(planned), StateOf(plain)), "");

  const Fit without(planned.stages, planned.input, planned.loss, {.memory = "50%"});
  for (const Stage& stage : without.plan().chain.stages) EXPECT_TRUE(stage.save_options.empty());
}

// Stages that take most of their time in a copy, and most of their memory behind it.
Training SlowCopyTraining() {
  at::manual_seed(21);
  Training training;
  for (const char* name : {"one", "two", "three"}) {
    nn::Linear linear(32, 32);
    training.stages.push_back({.name = name,
                               .forward =
                                   [linear](const at::Tensor& input) mutable {
                                     const at::Tensor value = CallCountedCopy(linear(input));
                                     return value.sin().exp().tanh().exp().sigmoid();
                                   },
                               .module = linear.ptr()});
  }
  training.input = at::randn({64, 32});
  training.loss = [](const at::Tensor& output) { return output.square().mean(); };
  return training;
}

TEST(SaveOptions, AreUsedByFitWhereTheyAreQuicker) {
  copy_time = std::chrono::milliseconds(10);
  const auto quick_again = absl::MakeCleanup([] { copy_time = std::chrono::milliseconds(0); });
  Training plain = SlowCopyTraining();
  Training planned = SlowCopyTraining();
  Fit fit(planned.stages, planned.input, planned.loss, {.memory = "50%", .save_options = true});
  ASSERT_TRUE(fit.plan().planned.has_value());
  EXPECT_THAT(fit.plan().planned->result.answer->schedule.operations,
              testing::Contains(testing::Field(&Operation::save_option, testing::Gt(0))))
      << fit.summary();
  const at::Tensor loss = PlainBackward(plain);
  EXPECT_TRUE(at::equal(fit.step(planned.input, planned.loss), loss));
  EXPECT_EQ(Difference(StateOf(planned), StateOf(plain)), "");
}

// While in scope, forwards compute products in bfloat16.
class AutocastScope {
 public:
  AutocastScope() { SetAutocastOnCpu(true); }
  ~AutocastScope() {
    SetAutocastOnCpu(false);
    at::autocast::clear_cache();
  }
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;
};

// As LibTorch recommends: the forward with autocast, the backward without.
at::Tensor AutocastBackward(Training& training) {
  at::Tensor loss;
  {
    const AutocastScope autocast;
    at::Tensor value = training.input;
    for (const TorchStage& stage : training.stages) value = stage.forward(value);
    loss = training.loss(value);
  }
  loss.backward();
  return loss.detach();
}

TEST_P(SaveOptionsTest, TrainToTheBitUnderAutocast) {
  Training plain = GetParam().training();
  Training exact = GetParam().training();
  at::manual_seed(1);
  const at::Tensor loss = AutocastBackward(plain);
  at::manual_seed(1);
  EXPECT_FALSE(at::equal(PlainBackward(exact), loss));
  for (const char* operations :
       {"S1:1 S2:1 S3:1 S4 B4 B3 B2 B1", "S1:2 S2:3 S3:4 S4 B4 B3 B2 B1",
        "S1:5 S2:5 S3:5 S4 B4 B3 B2 B1", "C1 D2 S3:2 S4 B4 B3 C1 S2:1 B2 S1:4 B1"}) {
    SCOPED_TRACE(operations);
    Training planned = WithOptions();
    ScheduledTraining trained(planned, ChainWithOptions(3), Ops(operations));
    at::manual_seed(1);
    {
      const AutocastScope autocast;
      ASSERT_THAT(trained.Step(), IsOk());
    }
    EXPECT_TRUE(at::equal(trained.stages().loss(), loss));
    EXPECT_EQ(Difference(StateOf(planned), StateOf(plain)), "");
  }
}

TEST_P(SaveOptionsTest, AreFoundUnderAutocast) {
  Training plain = GetParam().training();
  Training planned = GetParam().training();
  at::manual_seed(1);
  const at::Tensor loss = AutocastBackward(plain);
  const AutocastScope autocast;
  Fit fit(planned.stages, planned.input, planned.loss,
          {.memory = "50%", .save_options = true, .verify = true});
  for (const Stage& stage : fit.plan().chain.stages) EXPECT_FALSE(stage.save_options.empty());
  at::manual_seed(1);
  EXPECT_TRUE(at::equal(fit.step(planned.input, planned.loss), loss));
  EXPECT_EQ(Difference(StateOf(planned), StateOf(plain)), "");
  // Now the gradients exist, which are beside the budget.
  const int64_t before_bytes = HostMemory().LiveBytes();
  HostMemory().ResetPeak();
  fit.step(planned.input, planned.loss);
  EXPECT_LE(HostMemory().PeakBytes() - before_bytes, fit.plan().budget_bytes);
}

}  // namespace
}  // namespace stowage
