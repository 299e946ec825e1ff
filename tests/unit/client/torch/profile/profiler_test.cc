#include "client/torch/profile/profiler.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include <functional>
#include <vector>

#include "client/agent/host_device.h"
#include "client/torch/base/memory_meter.h"
#include "gmock/gmock.h"
#include "solver/model/modes.h"
#include "solver/model/validate.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"
#include "tests/support/training.h"

namespace stowage {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kFloats = 4;

class ProfilerTest : public testing::Test {
 protected:
  absl::StatusOr<Chain> Profile(const Training& training, const ProfileOptions& options = {}) {
    TorchStages stages(training.stages, {});
    stages.Feed(training.input, training.loss);
    return ProfileChain(&stages, &device_, &HostMemory(), options);
  }

  HostDevice device_;
};

TEST_F(ProfilerTest, MeasuresToTheByte) {
  const Training training = ConvolutionTraining();
  const auto chain = Profile(training);
  ASSERT_THAT(chain, IsOk());
  EXPECT_THAT(Violations(*chain), IsEmpty());
  ASSERT_EQ(chain->length(), 7);
  EXPECT_EQ(chain->input_bytes, 4 * 3 * 6 * 6 * kFloats);
  EXPECT_EQ(chain->input_gradient_bytes, 0);
  const int64_t image = int64_t{4} * 8 * 6 * 6 * kFloats;
  const int64_t small = image / 2;
  const auto stage = [&](int l) { return chain->stage(l); };
  EXPECT_EQ(stage(1).name, "conv");
  EXPECT_EQ(stage(1).output_bytes, image);
  EXPECT_EQ(stage(1).saved_bytes, image);  // its input belongs to value 0
  // Output, means and variances.
  EXPECT_EQ(stage(2).saved_bytes, image + 2 * 8 * kFloats);
  EXPECT_EQ(stage(3).saved_bytes, image);
  // Output and dropout mask.
  EXPECT_EQ(stage(4).saved_bytes, 2 * image);
  // Outputs of convolution and ReLU, statistics, mask, output.
  EXPECT_EQ(stage(5).saved_bytes, 4 * small + 2 * 4 * kFloats);
  EXPECT_EQ(stage(6).output_bytes, small);  // a view, copied
  EXPECT_EQ(stage(7).output_bytes, 4 * 5 * kFloats);
  EXPECT_EQ(chain->gradient_bytes(3), image);
  EXPECT_EQ(chain->gradient_bytes(7), 4 * 5 * kFloats);
  for (int l = 1; l <= 7; ++l) {
    EXPECT_GT(stage(l).forward_seconds, 0) << l;
    EXPECT_GT(stage(l).backward_seconds, 0) << l;
    EXPECT_FALSE(stage(l).no_offload) << l;
  }
  // The gradient of the weights, before it is added to the accumulated gradient.
  EXPECT_GE(stage(1).backward_overhead_bytes, 8 * 3 * 3 * 3 * kFloats);
}

// As one unit, normalization, ReLU and dropout save one image less: the input of ReLU, which
// nothing else reads.
TEST_F(ProfilerTest, MeasuresGraphModeToTheByte) {
  Training training = ConvolutionTraining();
  for (const size_t stage : {1U, 2U, 3U}) training.stages[stage].fusion_group = "activation";
  for (const size_t stage : {5U, 6U}) training.stages[stage].fusion_group = "head";
  training.stages[4].control_flow = true;
  const auto chain = Profile(training, {.graph_mode = true});
  ASSERT_THAT(chain, IsOk());
  EXPECT_THAT(Violations(*chain), IsEmpty());
  const auto eager = Profile(training);
  ASSERT_THAT(eager, IsOk());
  for (int l = 1; l <= 7; ++l) {
    EXPECT_EQ(chain->saved_bytes(l), eager->saved_bytes(l)) << l;
    EXPECT_FALSE(eager->stage(l).graph.has_value()) << l;
    EXPECT_EQ(eager->stage(l).fusion_group, "") << l;
  }
  EXPECT_THAT(ChainUnits(*chain), ElementsAre(Unit{1, 1, true}, Unit{2, 4, true}, Unit{5, 5, false},
                                              Unit{6, 7, true}, Unit{8, 8, false}));
  const int64_t image = int64_t{4} * 8 * 6 * 6 * kFloats;
  EXPECT_EQ(GraphStage(*chain, {1, 1, true}).saved_bytes, chain->saved_bytes(1));
  const Stage fused = GraphStage(*chain, {2, 4, true});
  EXPECT_EQ(fused.saved_bytes, 3 * image + 2 * 8 * kFloats);
  EXPECT_EQ(chain->saved_bytes(2) + chain->saved_bytes(3) + chain->saved_bytes(4),
            4 * image + 2 * 8 * kFloats);
  EXPECT_GT(fused.forward_seconds, 0);
  EXPECT_GT(fused.backward_seconds, 0);
  EXPECT_EQ(chain->stage(2).graph, GraphCosts());
  EXPECT_EQ(chain->stage(3).graph, GraphCosts());
  EXPECT_EQ(chain->graph_entry_seconds, 0);
}

// The unit's output is a view of a larger tensor, the last stage's output in eager mode is not.
TEST_F(ProfilerTest, HasNoGraphCostsWhereTheOutputTakesOtherMemory) {
  Training training = ConvolutionTraining();
  training.stages[4].forward = [](const at::Tensor& input) { return at::cat({input, input}); };
  training.stages[4].module = nullptr;
  training.stages[5].forward = [](const at::Tensor& input) {
    return input.narrow(0, 0, 4).narrow(1, 0, 4).flatten(1).narrow(1, 0, 144);
  };
  for (const size_t stage : {4U, 5U}) training.stages[stage].fusion_group = "part";
  const auto chain = Profile(training, {.graph_mode = true});
  ASSERT_THAT(chain, IsOk());
  EXPECT_THAT(Violations(*chain), IsEmpty());
  EXPECT_TRUE(chain->stage(4).graph.has_value());
  EXPECT_FALSE(chain->stage(5).graph.has_value());
  EXPECT_FALSE(chain->stage(6).graph.has_value());
}

TEST_F(ProfilerTest, LeavesEverythingAsItWas) {
  Training training = ConvolutionTraining();
  PlainBackward(training);
  const std::vector<at::Tensor> before = StateOf(training);
  for (const bool graph_mode : {false, true}) {
    ASSERT_THAT(Profile(training, {.graph_mode = graph_mode}), IsOk());
    EXPECT_EQ(Difference(StateOf(training), before), "");
  }
}

TEST_F(ProfilerTest, KnowsWhatNeedsNoGradient) {
  Training training = ConvolutionTraining();
  for (at::Tensor& parameter : training.stages[0].module->parameters()) {
    parameter.set_requires_grad(false);
  }
  auto chain = Profile(training);
  ASSERT_THAT(chain, IsOk());
  EXPECT_EQ(chain->gradient_bytes(1), 0);
  EXPECT_GT(chain->gradient_bytes(2), 0);
  training.input.set_requires_grad(true);
  chain = Profile(training);
  ASSERT_THAT(chain, IsOk());
  EXPECT_EQ(chain->input_gradient_bytes, chain->input_bytes);
  EXPECT_EQ(chain->gradient_bytes(1), chain->output_bytes(1));
}

TEST_F(ProfilerTest, TellsWhatMayNotMoveOrRunTwice) {
  const at::Tensor mask = at::ones({4, 8, 6, 6});
  Training training = ConvolutionTraining();
  training.stages[2].forward = [mask](const at::Tensor& input) { return input * mask; };
  training.stages[3].no_recompute = true;
  const auto chain = Profile(training);
  ASSERT_THAT(chain, IsOk());
  EXPECT_TRUE(chain->stage(3).no_offload);
  EXPECT_FALSE(chain->stage(2).no_offload);
  EXPECT_TRUE(chain->stage(4).no_recompute);
}

// Saves its input where LibTorch's hooks for saved tensors do not see it.
class KeepsInput : public torch::autograd::Function<KeepsInput> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input) {
    context->saved_data["input"] = input;
    return input.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    return {gradients.front() * context->saved_data["input"].toTensor()};
  }
};

std::vector<bool> UnreadInputs(const Chain& chain) {
  std::vector<bool> unread;
  for (int l = 1; l <= chain.length() + 1; ++l) unread.push_back(chain.stage(l).input_unread);
  return unread;
}

// ReLU and dropout read what they put out, a view reads nothing.
TEST_F(ProfilerTest, TellsWhichInputsNoBackwardReads) {
  const auto chain = Profile(ConvolutionTraining());
  ASSERT_THAT(chain, IsOk());
  EXPECT_THAT(UnreadInputs(*chain),
              ElementsAre(false, false, true, true, false, true, false, true));
  EXPECT_THAT(UnreadInputs(*Profile(ConvolutionTraining(), {.graph_mode = true})), Each(false));
}

TEST_F(ProfilerTest, KeepsInputsThatAGraphMayHold) {
  const std::vector<std::function<at::Tensor(const at::Tensor&)>> forwards = {
      [](const at::Tensor& input) { return KeepsInput::apply(input); },
      [](const at::Tensor& input) {
        at::Tensor output = input + 1;
        output.register_hook([input](const at::Tensor& gradient) { return gradient * input; });
        return output * 1;
      },
      [](const at::Tensor& input) {
        at::Tensor output = input + 1;
        output.select(0, 0).mul_(2);
        return output;
      },
  };
  for (const auto& forward : forwards) {
    Training training = ConvolutionTraining();
    training.stages[2].forward = forward;
    const auto chain = Profile(training);
    ASSERT_THAT(chain, IsOk());
    EXPECT_FALSE(chain->stage(3).input_unread);
    EXPECT_TRUE(chain->stage(4).input_unread);
  }
}

// Where values stay on the device, a value does not count what the one before has passed on to it.
TEST_F(ProfilerTest, KeepsInputsThatPassBy) {
  const auto profile = [this](bool stays_on_device) {
    Training training = ConvolutionTraining();
    training.stages[1].saves = {"image"};
    training.stages[1].tuple_forward = [](const Tensors& in) -> Tensors {
      return {in[0] + 1, in[0] * 2};
    };
    training.stages[4].reads = {"image"};
    training.stages[4].tuple_forward = [forward = training.stages[4].forward](const Tensors& in) {
      return Tensors{forward(in[0] + in[1])};
    };
    return Profile(training, {.stays_on_device = stays_on_device});
  };
  EXPECT_THAT(UnreadInputs(*profile(false)),
              ElementsAre(false, true, true, true, true, true, false, true));
  EXPECT_THAT(UnreadInputs(*profile(true)),
              ElementsAre(false, true, false, false, true, true, false, true));
}

// A replay ends before the products, whose result only the output needs.
at::Tensor EndsWithProducts(const at::Tensor& input) {
  const at::Tensor saved = input.tanh();
  at::Tensor product = at::ones({200, 200});
  for (int i = 0; i < 20; ++i) product = at::mm(product, product).clamp(0, 1);
  return saved + product.sum();
}

TEST_F(ProfilerTest, MeasuresReplaysThatEndEarly) {
  Training training = ConvolutionTraining();
  training.stages[2].forward = EndsWithProducts;
  const auto chain = Profile(training);
  ASSERT_THAT(chain, IsOk());
  EXPECT_THAT(Violations(*chain), IsEmpty());
  ASSERT_TRUE(chain->stage(3).replay_seconds.has_value());
  EXPECT_LT(*chain->stage(3).replay_seconds, chain->stage(3).forward_seconds / 2);
  EXPECT_FALSE(chain->loss.replay_seconds.has_value());
  // Neither what runs once, nor with graph mode, nor where it is not the same twice.
  training.stages[2].no_recompute = true;
  EXPECT_FALSE(Profile(training)->stage(3).replay_seconds.has_value());
  training.stages[2].no_recompute = false;
  EXPECT_FALSE(Profile(training, {.graph_mode = true})->stage(3).replay_seconds.has_value());
  training.stages[2].forward = [runs = 0](const at::Tensor& input) mutable {
    return EndsWithProducts(++runs % 2 == 0 ? input.to(at::kDouble) : input).to(at::kFloat);
  };
  const auto differing = Profile(training);
  ASSERT_THAT(differing, IsOk());
  EXPECT_FALSE(differing->stage(3).replay_seconds.has_value());
}

// A forward that saves nothing has more beside its output than one that saves: both inputs and
// outputs of sigmoid(). Other runs of the stage, replays above all, have left nothing by then.
TEST_F(ProfilerTest, MeasuresWhatAForwardThatSavesNothingTakes) {
  Training training = ConvolutionTraining();
  training.stages[2].forward = [](const at::Tensor& input) {
    at::Tensor wide = at::cat({input, input, input}, 1);
    wide = wide.sigmoid();
    return wide.narrow(1, 0, input.size(1)) * 2;
  };
  const auto chain = Profile(training);
  ASSERT_THAT(chain, IsOk());
  const int64_t image = int64_t{4} * 8 * 6 * 6 * kFloats;
  EXPECT_EQ(chain->stage(3).output_bytes, image);
  EXPECT_EQ(chain->stage(3).saved_bytes, 4 * image);
  EXPECT_EQ(chain->stage(3).forward_overhead_bytes, 5 * image);
  // The same 6 images at once, of which a forward that saves keeps 4.
  EXPECT_EQ(chain->stage(3).save_overhead_bytes, 2 * image);
}

TEST_F(ProfilerTest, NamesTheStageThatFails) {
  Training training = ConvolutionTraining();
  training.stages[2].forward = [](at::Tensor input) { return input.relu_(); };
  const int64_t before = HostMemory().LiveBytes();
  EXPECT_THAT(Profile(training),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("relu: writes into its input")));
  EXPECT_EQ(HostMemory().LiveBytes(), before);
}

TEST_F(ProfilerTest, FailsWithoutLosingAGradientWhereverMemoryEnds) {
  Training training = ConvolutionTraining();
  ASSERT_THAT(Profile(training), IsOk());
  PlainBackward(training);
  const std::vector<at::Tensor> before = StateOf(training);
  int failures = 0;
  for (int64_t room = 0; room < 60'000; room += 1'500) {
    HostMemory().SetLimit(HostMemory().LiveBytes() + room);
    const auto chain = Profile(training, {.graph_mode = room % 1'000 == 0});
    HostMemory().SetLimit(INT64_MAX);
    if (chain.ok()) continue;
    ++failures;
    EXPECT_TRUE(absl::IsResourceExhausted(chain.status())) << chain.status();
    ASSERT_EQ(Difference(StateOf(training), before), "") << room;
  }
  EXPECT_GT(failures, 5);
}

TEST_F(ProfilerTest, LeavesABufferAloneThatCannotBeWritten) {
  const Training training = ConvolutionTraining();
  training.stages[0].module->register_buffer("wide", at::ones({1, 4}).expand({2, 4}));
  EXPECT_THAT(Profile(training), IsOk());
}

// Each of the four operations saves its result, which is freed before the next one needs memory for
// a gradient.
TEST_F(ProfilerTest, SeesABackwardFreeWhatItHasRead) {
  Training training = ConvolutionTraining();
  training.stages[2].forward = [](const at::Tensor& input) {
    return input.sigmoid().sigmoid().sigmoid().sigmoid();
  };
  const auto chain = Profile(training);
  ASSERT_THAT(chain, IsOk());
  EXPECT_EQ(chain->saved_bytes(3), 4 * chain->output_bytes(3));
  EXPECT_EQ(chain->stage(3).backward_overhead_bytes, 0);
}

TEST_F(ProfilerTest, LeavesOutWhatALibraryKeepsFromAFirstRun) {
  const auto expected = Profile(ConvolutionTraining());
  ASSERT_THAT(expected, IsOk());
  Training training = ConvolutionTraining();
  at::Tensor workspace;
  training.stages[0].forward = [&workspace,
                                forward = training.stages[0].forward](const at::Tensor& input) {
    if (!workspace.defined()) workspace = at::empty({1 << 20});
    return forward(input);
  };
  const auto chain = Profile(training);
  ASSERT_THAT(chain, IsOk());
  ASSERT_TRUE(workspace.defined());
  EXPECT_EQ(chain->stage(1).forward_overhead_bytes, expected->stage(1).forward_overhead_bytes);
}

TEST_F(ProfilerTest, CountsAPartOfALargerInputAlone) {
  Training training = ConvolutionTraining();
  training.input = at::randn({40, 3, 6, 6}).narrow(0, 4, 4);
  const auto chain = Profile(training);
  ASSERT_THAT(chain, IsOk());
  EXPECT_EQ(chain->input_bytes, 4 * 3 * 6 * 6 * kFloats);
}

}  // namespace
}  // namespace stowage
