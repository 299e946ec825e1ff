#include "client/torch/join/join_stages.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>

#include <memory>
#include <string>
#include <vector>

#include "client/torch/stages/torch_stages.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

namespace nn = torch::nn;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> NamesOf(const std::vector<TorchStage>& stages) {
  std::vector<std::string> names;
  for (const TorchStage& stage : stages) names.push_back(stage.name);
  return names;
}

TorchStage InPlaceReLU(const std::string& name) {
  return {.name = name, .forward = [](const at::Tensor& input) {
            at::Tensor same = input;
            return same.relu_();
          }};
}
TorchStage Doubling(const std::string& name) {
  return {.name = name, .forward = [](const at::Tensor& input) { return input * 2; }};
}

TEST(JoinWhereInPlace, JoinsAStageThatWritesIntoItsInputWithTheOneBefore) {
  nn::Sequential network(nn::Conv2d(nn::Conv2dOptions(3, 4, 3)), nn::BatchNorm2d(4),
                         nn::ReLU(nn::ReLUOptions().inplace(true)),
                         nn::Conv2d(nn::Conv2dOptions(4, 2, 3)), nn::ReLU());
  const at::Tensor sample = at::rand({2, 3, 8, 8});
  const at::Tensor mean = network->buffers()[0].clone();
  const auto joined = JoinWhereInPlace(StagesOf(network), sample);
  ASSERT_THAT(joined, IsOk());
  EXPECT_THAT(NamesOf(*joined), ElementsAre("0", "1..2", "3", "4"));
  EXPECT_EQ((*joined)[1].module->parameters().size(), 2) << "of the normalization";
  EXPECT_TRUE(at::equal(network->buffers()[0], mean)) << "the run on the sample left no trace";
}

TEST(JoinWhereInPlace, JoinsARowOfThem) {
  const auto joined = JoinWhereInPlace(
      {Doubling("a"), InPlaceReLU("b"), InPlaceReLU("c"), Doubling("d")}, at::ones({2}));
  ASSERT_THAT(joined, IsOk());
  EXPECT_THAT(NamesOf(*joined), ElementsAre("a..c", "d"));
  EXPECT_TRUE(at::equal((*joined)[0].forward(at::ones({2})), at::full({2}, 2.0)));
}

// The in-place stage writes into what the stage before the view has returned.
TEST(JoinWhereInPlace, JoinsAcrossViews) {
  const TorchStage view{.name = "c", .forward = [](const at::Tensor& input) {
                          return input.view({1, 2});
                        }};
  const TorchStage same{.name = "d", .forward = [](const at::Tensor& input) { return input; }};
  const auto joined = JoinWhereInPlace(
      {Doubling("a"), Doubling("b"), view, same, InPlaceReLU("e"), Doubling("f")}, at::ones({2}));
  ASSERT_THAT(joined, IsOk());
  EXPECT_THAT(NamesOf(*joined), ElementsAre("a", "b..e", "f"));
}

// Adds what its first stage was given.
std::vector<TorchStage> WithAShift(const std::shared_ptr<at::Tensor>& kept) {
  const TorchStage first{.name = "first", .forward = [kept](const at::Tensor& input) {
                           *kept = input.view({-1});
                           return input * 2;
                         }};
  const TorchStage last{.name = "last", .forward = [kept](const at::Tensor& input) {
                          return at::cat({input, *kept});
                        }};
  return {first, Doubling("middle"), last};
}

TEST(JoinWhereInPlace, FindsTheNetworksInputInALaterStage) {
  const auto kept = std::make_shared<at::Tensor>();
  EXPECT_THAT(JoinWhereInPlace(WithAShift(kept), at::ones({2})),
              Fails(absl::StatusCode::kInvalidArgument,
                    HasSubstr("last: uses the network's input, beside its own: declare it")));
  const TorchStage adds{.name = "last",
                        .forward = [kept](const at::Tensor& input) { return input + *kept; }};
  EXPECT_THAT(JoinWhereInPlace({WithAShift(kept)[0], Doubling("middle"), adds}, at::ones({2})),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("last: uses")));
}

TEST(JoinWhereInPlace, TakesTheNetworksInputWhereItIsDeclared) {
  const TorchStage first{.name = "first",
                         .tuple_forward = [](const Tensors& in) -> Tensors {
                           return {in[0] * 2, in[0]};
                         },
                         .saves = {"input"}};
  const TorchStage last{
      .name = "last",
      .tuple_forward = [](const Tensors& in) -> Tensors { return {in[0] + in[1]}; },
      .reads = {"input"}};
  EXPECT_THAT(JoinWhereInPlace({first, Doubling("middle"), last}, at::ones({2})), IsOk());
  // One stage after it, and what is computed of it.
  const TorchStage same{.name = "same", .forward = [](const at::Tensor& input) {
                          return input.view({1, 2});
                        }};
  EXPECT_THAT(JoinWhereInPlace({same, Doubling("a"), Doubling("b")}, at::ones({2})), IsOk());
  const auto kept = std::make_shared<at::Tensor>();
  const TorchStage counts{.name = "counts", .forward = [kept](const at::Tensor& input) {
                            *kept = input.ne(0);
                            return input * 2;
                          }};
  const TorchStage masks{.name = "masks",
                         .forward = [kept](const at::Tensor& input) { return input * *kept; }};
  EXPECT_THAT(JoinWhereInPlace({counts, Doubling("a"), masks}, at::ones({2})), IsOk());
}

TEST(JoinWhereInPlace, LeavesTheSampleAsItIs) {
  const at::Tensor sample = at::full({2}, -1.0);
  EXPECT_THAT(
      JoinWhereInPlace({InPlaceReLU("a")}, sample),
      Fails(absl::StatusCode::kInvalidArgument, HasSubstr("a: the network's input is written to")));
  const TorchStage view{.name = "b", .forward = [](const at::Tensor& input) {
                          return input.view({1, 2});
                        }};
  EXPECT_THAT(
      JoinWhereInPlace({view, InPlaceReLU("c")}, sample),
      Fails(absl::StatusCode::kInvalidArgument, HasSubstr("b: the network's input is written to")));
  EXPECT_TRUE(at::equal(sample, at::full({2}, -1.0)));
}

TEST(JoinWhereInPlace, NamesTheStageThatFails) {
  EXPECT_THAT(JoinWhereInPlace({Doubling("a"), {.name = "b"}}, at::ones({2})),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("b: has no forward")));
  const TorchStage failing{.name = "c",
                           .forward = [](const at::Tensor& input) { return input.view({3}); }};
  EXPECT_THAT(JoinWhereInPlace({Doubling("a"), failing}, at::ones({2})),
              Fails(absl::StatusCode::kInternal, HasSubstr("c: ")));
}

TEST(JoinedStage, RunsOnceAStepWhereOneOfThemDoes) {
  TorchStage once = Doubling("b");
  once.no_recompute = true;
  EXPECT_TRUE(JoinedStage({Doubling("a"), once}).no_recompute);
  EXPECT_FALSE(JoinedStage({Doubling("a"), Doubling("b")}).no_recompute);
}

TorchLoss CrossEntropy() {
  return [](const at::Tensor& output) {
    return nn::functional::cross_entropy(output.flatten(0, 1),
                                         at::zeros({output.numel() / 4}, at::kLong));
  };
}

TEST(LossKeepsItsInput, TellsALossThatReadsItInItsBackward) {
  const auto keeps = [](const TorchLoss& loss) {
    const absl::StatusOr<bool> kept =
        LossKeepsItsInput({Doubling("a"), Doubling("b")}, at::ones({2, 3, 4}), loss);
    EXPECT_THAT(kept, IsOk());
    return kept.value_or(false);
  };
  EXPECT_FALSE(keeps(CrossEntropy()));
  EXPECT_TRUE(keeps([](const at::Tensor& output) { return output.square().mean(); }));
  EXPECT_TRUE(keeps([](const at::Tensor& output) { return output.view({24}).square().mean(); }));
}

TEST(LossKeepsItsInput, LeavesNoTrace) {
  nn::Sequential network(nn::BatchNorm2d(4), nn::ReLU());
  const at::Tensor mean = network->buffers()[0].clone();
  const at::Tensor sample = at::rand({2, 4, 3, 3});
  const TorchLoss random = [](const at::Tensor& output) { return at::dropout(output, 0.5, true); };
  at::manual_seed(3);
  const at::Tensor expected = at::rand({1});
  at::manual_seed(3);
  ASSERT_THAT(LossKeepsItsInput(StagesOf(network), sample, random), IsOk());
  EXPECT_TRUE(at::equal(at::rand({1}), expected));
  EXPECT_TRUE(at::equal(network->buffers()[0], mean));
}

TEST(LossKeepsItsInput, NamesTheLossThatFails) {
  const TorchLoss failing = [](const at::Tensor& output) { return output.view({5}); };
  EXPECT_THAT(LossKeepsItsInput({Doubling("a")}, at::ones({2}), failing),
              Fails(absl::StatusCode::kInternal, HasSubstr("loss: shape '[5]' is invalid")));
}

}  // namespace
}  // namespace stowage
