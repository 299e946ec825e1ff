#include "client/torch/stages/torch_stages.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/torch/base/memory_meter.h"
#include "client/torch/base/torch_versions.h"
#include "gmock/gmock.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"
#include "tests/support/training.h"

namespace stowage {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// A behaviour of a stage that recomputation must reproduce.
struct Habit {
  const char* name;
  std::function<Training()> make;
  std::function<void(Training&, int step)> before_step = nullptr;
};

Training Around(TorchStage stage);

TorchStage WithBuffer(std::function<at::Tensor(const at::Tensor&, at::Tensor buffer)> forward) {
  auto module = std::make_shared<torch::nn::Module>("holder");
  const at::Tensor buffer = module->register_buffer("held", at::ones({4}));
  return {.name = "buffer",
          .forward = [buffer, forward](const at::Tensor& input) { return forward(input, buffer); },
          .module = module};
}

// A training whose middle stage has this forward.
std::function<Training()> Just(std::function<at::Tensor(const at::Tensor&)> forward) {
  return [forward] { return Around({.name = "middle", .forward = forward}); };
}

std::vector<Habit> BufferHabits() {
  return {
      {"a moving average that is read",
       [] {
         return Around(WithBuffer([](const at::Tensor& input, at::Tensor held) {
           const at::Tensor output = input * held.clone();
           held.mul_(0.9).add_(input.detach().mean(0) * 0.1);
           return output;
         }));
       }},
      {"normalization that begins to learn",
       [] {
         const torch::nn::BatchNorm1d norm(4);
         torch::nn::Sequential block(norm);
         return Around(
             {.name = "block",
              .forward = [block](const at::Tensor& input) mutable { return block->forward(input); },
              .module = block.ptr()});
       },
       [](Training& training, int step) {
         training.stages[1].module->children().front()->train(step > 0);
       }},
  };
}

std::vector<Habit> ComplexNumberHabits() {
  return {
      {"complex numbers between stages",
       [] {
         Training training = Around({.name = "transform", .forward = [](const at::Tensor& input) {
                                       return at::fft_fft(input);
                                     }});
         const TorchStage last = training.stages.back();
         training.stages.back().forward = [last](const at::Tensor& input) {
           return last.forward(at::abs(input));
         };
         return training;
       }},
      {"a conjugate that is put out",
       Just([](const at::Tensor& input) { return at::imag(at::fft_fft(input).conj()) + 0; })},
      {"a conjugate that is a view of the output",
       Just([](const at::Tensor& input) { return at::imag(at::fft_fft(input).conj()); })},
      {"conjugates that are saved", Just([](const at::Tensor& input) {
         const at::Tensor x = input.tanh();
         const at::Tensor z = at::complex(x, x * x);
         return at::real(z * at::fft_fft(z).conj()) / 10;
       })},
  };
}

std::vector<Habit> OtherHabits() {
  return {
      {"an output that is a half of something", Just([](const at::Tensor& input) {
         return at::cat({input, input.exp()}, 1).narrow(1, 2, 4);
       })},
      {"parameters that no module tells of",
       [] {
         at::manual_seed(8);
         const at::Tensor weight = at::randn({4}).requires_grad_();
         Training training = Around({.name = "own", .forward = [weight](const at::Tensor& input) {
                                       return input * weight;
                                     }});
         for (at::Tensor& parameter : training.stages[0].module->parameters()) {
           parameter.set_requires_grad(false);
         }
         training.stages[0].module->register_buffer("seen", at::zeros({1}));
         return training;
       }},
      {"autocast",
       [] {
         Training training = Around(
             {.name = "relu", .forward = [](const at::Tensor& input) { return at::relu(input); }});
         training.loss = [](const at::Tensor& output) {
           return output.to(at::kFloat).square().mean();
         };
         return training;
       }},
  };
}

std::vector<Habit> Habits() {
  std::vector<Habit> all = BufferHabits();
  for (const auto& habits : {ComplexNumberHabits(), OtherHabits()}) {
    all.insert(all.end(), habits.begin(), habits.end());
  }
  return all;
}

// Like torch.autocast in Python.
class Autocast {
 public:
  explicit Autocast(bool enabled) : enabled_(enabled) {
    if (!enabled_) return;
    SetAutocastOnCpu(true);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (!enabled_) return;
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    SetAutocastOnCpu(false);
  }

 private:
  const bool enabled_;
};

TEST(TorchStages, TrainToTheBitWhateverAStageDoes) {
  for (const Habit& habit : Habits()) {
    const bool casts = std::string(habit.name) == "autocast";
    Training plain = habit.make();
    std::vector<at::Tensor> losses;
    for (int step = 0; step < 4; ++step) {
      if (habit.before_step) habit.before_step(plain, step);
      at::Tensor value = plain.input;
      at::Tensor loss;
      {
        const Autocast autocast(casts);
        for (const TorchStage& stage : plain.stages) value = stage.forward(value);
        loss = plain.loss(value);
      }
      loss.backward();
      losses.push_back(loss.detach());
      OptimizerStep(plain);
    }
    const Chain in_modes = EqualChainWithModes(3, {{2, 3}});
    Chain replayed = EqualChain(3);
    for (Stage& stage : replayed.stages) stage.replay_seconds = 0.5;
    for (const auto& [schedule, chain] : std::vector<std::pair<const char*, Chain>>{
             {"S1 S2 S3 S4 B4 B3 B2 B1", in_modes},
             {"C1 D2 D3 S4 B4 C1 D2 S3 B3 C1 S2 B2 S1 B1", in_modes},
             {"S1 gS2-3 S4 B4 gB2-3 B1", in_modes},
             {"gC1 gD2-3 S4 B4 gC1 gS2-3 gB2-3 gS1 gB1", in_modes},
             {"C1 D2 D3 S4 B4 C1 D2 S3 B3 C1 S2 B2 S1 B1", replayed}}) {
      SCOPED_TRACE(std::string(habit.name) + ": " + schedule);
      Training planned = habit.make();
      // What is verified has no replay that ends early.
      const bool verifies = !chain.stage(1).replay_seconds.has_value();
      ScheduledTraining trained(planned, chain, Ops(schedule), {.verifies = verifies});
      for (int step = 0; step < 4; ++step) {
        if (habit.before_step) habit.before_step(planned, step);
        {
          const Autocast autocast(casts);
          ASSERT_THAT(trained.Step(), IsOk());
        }
        EXPECT_TRUE(at::equal(trained.stages().loss(), losses[static_cast<size_t>(step)]))
            << trained.stages().loss() << losses[static_cast<size_t>(step)];
        OptimizerStep(planned);
      }
      EXPECT_EQ(Difference(StateOf(planned), StateOf(plain)), "");
    }
  }
}

// Linear stages before and after the stage under test.
Training Around(TorchStage stage) {
  at::manual_seed(5);
  Training training;
  const torch::nn::Linear first(4, 4);
  const torch::nn::Linear last(4, 4);
  const auto linear = [](std::string name, torch::nn::Linear module) -> TorchStage {
    return {.name = std::move(name),
            .forward = [module](const at::Tensor& input) mutable { return module(input); },
            .module = module.ptr()};
  };
  training.stages = {linear("first", first), std::move(stage), linear("last", last)};
  training.input = at::randn({2, 4});
  training.loss = [](const at::Tensor& output) { return output.square().sum(); };
  return training;
}

absl::Status StepOf(const Training& training, absl::string_view schedule,
                    const TorchOptions& options = {}) {
  ScheduledTraining trained(training, EqualChain(static_cast<int>(training.stages.size())),
                            Ops(schedule), options);
  return trained.Step();
}

TEST(TorchStages, RefuseAStageThatWritesIntoItsInput) {
  const Training training =
      Around({.name = "relu_", .forward = [](at::Tensor input) { return input.relu_(); }});
  for (const absl::string_view schedule : {kThreeStored, kThreeRecomputed}) {
    EXPECT_THAT(
        StepOf(training, schedule),
        Fails(absl::StatusCode::kInvalidArgument,
              HasSubstr("2: relu_: writes into its input, which is another stage's: make it "
                        "work out of place")));
  }
}

TEST(TorchStages, RefuseAStageThatChangesWhatItSaved) {
  const Training training = Around({.name = "late", .forward = [](const at::Tensor& input) {
                                      at::Tensor middle = input * 2;
                                      const at::Tensor output = middle.exp() * middle;
                                      middle.add_(1);
                                      return output;
                                    }});
  EXPECT_THAT(StepOf(training, kThreeStored),
              Fails(absl::StatusCode::kInvalidArgument,
                    HasSubstr("late: changes in place what it has saved for its backward")));
}

TEST(TorchStages, CopyAnOutputThatIsAnothersMemory) {
  const at::Tensor weight = at::randn({4});
  const std::vector<TorchStage> cases = {
      {.name = "same", .forward = [](const at::Tensor& input) { return input; }},
      {.name = "part", .forward = [](const at::Tensor& input) { return input.t().t(); }},
      {.name = "in place on a view",
       .forward =
           [](const at::Tensor& input) {
             return input.clone().view({4, 2}).mul_(3).view({2, 4});
           }},
  };
  for (const TorchStage& stage : cases) {
    Training plain = Around(stage);
    PlainBackward(plain);
    const std::vector<at::Tensor> expected = StateOf(plain);
    for (const absl::string_view schedule : {kThreeStored, kThreeRecomputed}) {
      const Training planned = Around(stage);
      EXPECT_THAT(StepOf(planned, schedule), IsOk());
      EXPECT_EQ(Difference(StateOf(planned), expected), "") << stage.name;
    }
  }
}

TEST(TorchStages, RefuseWhatGoesPastAnOutput) {
  at::Tensor aside;
  const std::vector<std::function<at::Tensor(const at::Tensor&)>> asides = {
      [](const at::Tensor& input) { return input.mean(); },
      [](const at::Tensor& input) { return (input.exp() * input).mean(); },
  };
  for (const auto& make : asides) {
    Training training = Around({.name = "router", .forward = [&](const at::Tensor& input) {
                                  aside = make(input);
                                  return input * 2;
                                }});
    training.loss = [&aside](const at::Tensor& output) { return output.sum() + aside; };
    for (const absl::string_view schedule : {kThreeStored, kThreeRecomputed}) {
      EXPECT_THAT(
          StepOf(training, schedule),
          Fails(absl::StatusCode::kInvalidArgument,
                HasSubstr("loss: uses a tensor that router has computed, beside its input: declare "
                          "it, in `saves` there and `reads` here")));
    }
    aside = at::Tensor();
  }
}

TEST(TorchStages, RunABackwardInsideAForwardOnceOnly) {
  const TorchStage stage = {.name = "forces", .forward = [](const at::Tensor& input) {
                              const at::Tensor x = input.detach().requires_grad_();
                              (x.exp() * x).sum().backward();
                              return input * x.grad();
                            }};
  EXPECT_THAT(StepOf(Around(stage), kThreeStored), IsOk());
  EXPECT_THAT(StepOf(Around(stage), kThreeRecomputed),
              Fails(absl::StatusCode::kInternal,
                    HasSubstr("forces: runs a backward inside its forward: declare it "
                              "no_recompute")));
}

TEST(TorchStages, RefuseABufferThatChangesAfterItWasSaved) {
  EXPECT_THAT(StepOf(Around(WithBuffer([](const at::Tensor& input, at::Tensor held) {
                       at::Tensor output = input * held;
                       held.mul_(2);
                       return output;
                     })),
                     kThreeStored),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("buffer: changes in place")));
}

TEST(TorchStages, NoticeABufferThatIsWrittenLate) {
  int runs = 0;
  const Training training = Around(WithBuffer([&runs](const at::Tensor& input, at::Tensor held) {
    const at::Tensor output = input + held;
    if (++runs > 4) held.add_(1);
    return output;
  }));
  ScheduledTraining trained(training, EqualChain(3), Ops(kThreeRecomputed));
  ASSERT_THAT(trained.Step(), IsOk());  // three runs
  ++runs;
  EXPECT_THAT(trained.Step(), Fails(absl::StatusCode::kFailedPrecondition,
                                    HasSubstr("written a buffer for the first time")));
  EXPECT_THAT(trained.Step(), IsOk());
}

TEST(TorchStages, RefuseALossThatNothingLeadsTo) {
  Training training =
      Around({.name = "double", .forward = [](const at::Tensor& input) { return input * 2; }});
  for (const at::Tensor& parameter : ParametersOf(training)) {
    at::Tensor(parameter).set_requires_grad(false);
  }
  EXPECT_THAT(StepOf(training, kThreeStored),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("loss: needs no gradient")));
}

TEST(TorchStages, RefuseOutputsThatAreNone) {
  EXPECT_THAT(StepOf(Around({.name = "nothing",
                             .forward = [](const at::Tensor& /*input*/) { return at::Tensor(); }}),
                     kThreeStored),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("nothing: returns no tensor")));
  Training training =
      Around({.name = "same", .forward = [](const at::Tensor& input) { return input; }});
  training.loss = [](const at::Tensor& output) { return output; };
  EXPECT_THAT(StepOf(training, kThreeStored),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("loss: has 8 numbers, not one")));
}

TEST(TorchStages, NameAForwardThatIsNone) {
  EXPECT_THAT(StepOf(Around({.name = "empty"}), kThreeStored),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("empty: has no forward")));
  Training training =
      Around({.name = "same", .forward = [](const at::Tensor& input) { return input; }});
  training.loss = nullptr;
  EXPECT_THAT(StepOf(training, kThreeStored),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("loss: has no forward")));
}

TEST(TorchStages, NameAStageThatThrowsAndTryAgain) {
  bool throws = true;
  const Training training = Around({.name = "moody", .forward = [&throws](const at::Tensor& input) {
                                      if (throws) throw std::runtime_error("not today");
                                      return input * 2;
                                    }});
  ScheduledTraining trained(training, EqualChain(3), Ops(kThreeRecomputed));
  EXPECT_THAT(trained.Step(), Fails(absl::StatusCode::kInternal,
                                    "operations[1] FORWARD_DISCARD 2: moody: not today"));
  throws = false;
  EXPECT_THAT(trained.Step(), IsOk());
}

TEST(TorchStages, SayWhatLibTorchSays) {
  const Training training = Around(
      {.name = "sum", .forward = [](const at::Tensor& input) { return input + at::ones({3}); }});
  EXPECT_THAT(StepOf(training, kThreeStored),
              Fails(absl::StatusCode::kInternal,
                    AllOf(HasSubstr("sum: The size of tensor a (4) must match"),
                          testing::Not(HasSubstr("frame #")))));
}

TEST(TorchStages, RefuseAPlanOfAnotherNetwork) {
  const Training training =
      Around({.name = "double", .forward = [](const at::Tensor& input) { return input * 2; }});
  for (const int stages : {2, 4}) {
    ScheduledTraining trained(
        training, EqualChain(stages),
        Ops(stages == 2 ? "S1 S2 S3 B3 B2 B1" : "S1 S2 S3 S4 S5 B5 B4 B3 B2 B1"));
    EXPECT_THAT(trained.Step(),
                Fails(absl::StatusCode::kFailedPrecondition,
                      HasSubstr("the plan is of another network than this one of 3 stages")));
  }
}

TEST(TorchStages, RefuseABackwardBeforeTheOneBehindIt) {
  const Training training =
      Around({.name = "double", .forward = [](const at::Tensor& input) { return input * 2; }});
  TorchStages stages(training.stages, {});
  stages.Feed(training.input, training.loss);
  ASSERT_THAT(stages.Begin(nullptr), IsOk());
  for (int l = 1; l <= 4; ++l) ASSERT_THAT(stages.Forward({.stage = l}), IsOk());
  ASSERT_THAT(stages.Backward({.stage = 4}), IsOk());
  EXPECT_THAT(stages.Backward({.stage = 2}), Fails(absl::StatusCode::kFailedPrecondition,
                                                   HasSubstr("the plan is of another network")));
  stages.Abandon();
}

TEST(TorchStages, RefuseToRunTwiceWhatMayNot) {
  const Training training = Around({.name = "route",
                                    .forward = [](const at::Tensor& input) { return input * 2; },
                                    .no_recompute = true});
  EXPECT_THAT(StepOf(training, kThreeStored), IsOk());
  EXPECT_THAT(StepOf(training, kThreeRecomputed),
              Fails(absl::StatusCode::kFailedPrecondition, HasSubstr("route: may not run twice")));
}

TEST(TorchStages, NameTheStageThatDoesNotComputeTheSameTwice) {
  int runs = 0;
  const Training training = Around(
      {.name = "counter", .forward = [&runs](const at::Tensor& input) { return input * ++runs; }});
  EXPECT_THAT(StepOf(training, kThreeRecomputed), IsOk());
  EXPECT_THAT(StepOf(training, kThreeRecomputed, {.verifies = true}),
              Fails(absl::StatusCode::kFailedPrecondition,
                    AllOf(HasSubstr("FORWARD_DISCARD 2: counter: recomputed, 8 of 8 numbers"),
                          HasSubstr("declare it no_recompute"))));
  EXPECT_THAT(StepOf(training, kThreeRecomputed, {.verifies = true, .tolerance = 10}), IsOk());
}

TEST(TorchStages, NoticeParametersThatChangeWithinAStep) {
  torch::nn::Linear linear(4, 4);
  Training training =
      Around({.name = "linear",
              .forward = [linear](const at::Tensor& input) mutable { return linear(input); },
              .module = linear.ptr()});
  training.loss = [linear](const at::Tensor& output) {
    const at::NoGradGuard no_grad;
    linear->weight.mul_(2);
    const at::AutoGradMode grad(true);
    return output.sum();
  };
  EXPECT_THAT(
      StepOf(training, kThreeStored),
      Fails(absl::StatusCode::kInternal, HasSubstr("linear: a parameter or side input was changed "
                                                   "between the forward and the backward")));
}

TEST(TorchStages, SayWhatFoundNoMemoryAndGiveBackWhatTheyHad) {
  HostMemoryMeter& memory = HostMemory();
  const Training training = ConvolutionTraining();
  ScheduledTraining trained(training, EqualChain(7), Ops(kSevenStored));
  ASSERT_THAT(trained.Step(), IsOk());  // gradients are there now
  const int64_t before = memory.LiveBytes();
  memory.SetLimit(before + 20'000);
  const absl::Status status = trained.Step();
  memory.SetLimit(INT64_MAX);
  EXPECT_THAT(status, Fails(absl::StatusCode::kResourceExhausted,
                            AllOf(HasSubstr("operations["), HasSubstr("out of memory: tried to"))));
  EXPECT_EQ(memory.LiveBytes(), before);
  EXPECT_THAT(trained.Step(), IsOk());
  EXPECT_EQ(memory.LiveBytes(), before);
}

TEST(TorchStages, RefuseToMoveWhatIsNotOfTheSizeThatTheChainSays) {
  EXPECT_THAT(
      StepOf(ConvolutionTraining(), "S1 O1 S2 R1 P1 S3 S4 S5 S6 S7 S8 B8 B7 B6 B5 B4 B3 B2 B1"),
      Fails(absl::StatusCode::kFailedPrecondition,
            HasSubstr("OFFLOAD 1: conv: takes 4608 bytes where its chain says 30: the chain "
                      "is of another network or another input; profile again")));
}

TEST(TorchStages, RefuseToMoveWhatIsKeptElsewhere) {
  const at::Tensor mask = at::ones({2, 4});
  const Training training =
      Around({.name = "mask", .forward = [mask](const at::Tensor& input) { return input * mask; }});
  Chain chain = EqualChain(3);
  chain.stages[1].output_bytes = 2 * 4 * 4;
  chain.stages[1].saved_bytes = 2 * chain.stages[1].output_bytes;  // the mask, too
  ScheduledTraining trained(training, chain, Ops("S1 S2 O2 S3 R2 P2 S4 B4 B3 B2 B1"));
  EXPECT_THAT(trained.Step(), Fails(absl::StatusCode::kFailedPrecondition,
                                    HasSubstr("RELEASE 2: mask: something else keeps its value "
                                              "on the device: its chain must say no_offload")));
}

TEST(TorchStages, NeedAnInput) {
  Training training =
      Around({.name = "double", .forward = [](const at::Tensor& input) { return input * 2; }});
  training.input = at::Tensor();
  EXPECT_THAT(StepOf(training, kThreeStored),
              Fails(absl::StatusCode::kFailedPrecondition, HasSubstr("Feed() it first")));
}

TEST(TorchStages, LeaveOtherGraphsAlone) {
  ScheduledTraining trained(ConvolutionTraining(), EqualChain(7), Ops(kSevenStored));
  const at::Tensor x = at::full({1}, 3.0).requires_grad_();
  const at::Tensor before = x * x;
  std::thread other([&] {
    for (int i = 0; i < 20; ++i) ASSERT_THAT(trained.Step(), IsOk());
  });
  for (int i = 0; i < 200; ++i) {
    const at::Tensor y = at::full({1}, 3.0).requires_grad_();
    (y * y).backward();
    EXPECT_EQ(y.grad().item<float>(), 6.0F);
  }
  other.join();
  before.backward();
  EXPECT_EQ(x.grad().item<float>(), 6.0F);
}

}  // namespace
}  // namespace stowage
