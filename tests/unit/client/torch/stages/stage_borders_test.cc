#include "client/torch/stages/stage_borders.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client/torch/join/join_stages.h"
#include "gmock/gmock.h"

namespace stowage {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Names = StageBorders::Names;

// Returns `returned` numbers: the number of tensors it takes, then 1, 2, ...
TorchStage Counting(const std::string& name, const Names& reads, const Names& saves,
                    size_t returned) {
  const auto forward = [returned](const Tensors& taken) {
    Tensors numbers = {at::full({1}, static_cast<double>(taken.size()))};
    while (numbers.size() < returned) {
      numbers.push_back(at::full({1}, static_cast<double>(numbers.size())));
    }
    return numbers;
  };
  return {.name = name, .tuple_forward = forward, .reads = reads, .saves = saves};
}

std::vector<double> Numbers(const Tensors& tensors) {
  std::vector<double> numbers;
  for (const at::Tensor& tensor : tensors) numbers.push_back(tensor.item<double>());
  return numbers;
}

std::vector<std::vector<double>> ValuesOf(const std::vector<TorchStage>& stages,
                                          const SideInputs& sides = {}) {
  const StageBorders borders(stages);
  std::vector<std::vector<double>> values;
  Tensors value = {at::full({1}, 100.0)};
  for (size_t l = 1; l <= stages.size(); ++l) {
    value = borders.Run(stages[l - 1], static_cast<int>(l), value, sides);
    values.push_back(Numbers(value));
  }
  return values;
}

std::string ErrorOf(const std::vector<TorchStage>& stages) {
  try {
    ValuesOf(stages);
  } catch (const c10::ValueError& error) {
    return error.what_without_backtrace();
  }
  return "nothing was thrown";
}

TEST(StageBorders, CarryEachSkipFromTheStageThatSavesItToItsLastReader) {
  EXPECT_THAT(ValuesOf({Counting("1", {}, {"a"}, 2), Counting("2", {}, {"b"}, 4),
                        Counting("3", {"a", "b"}, {}, 1), Counting("4", {}, {}, 1),
                        Counting("5", {"b"}, {}, 1)}),
              ElementsAre(ElementsAre(1, 1), ElementsAre(1, 1, 2, 1, 3), ElementsAre(5, 3),
                          ElementsAre(1, 3), ElementsAre(2)));
}

TEST(StageBorders, DropASkipThatNothingReads) {
  EXPECT_THAT(ValuesOf({Counting("1", {}, {"a", "b"}, 3), Counting("2", {"b"}, {}, 1)}),
              ElementsAre(ElementsAre(1, 2), ElementsAre(2)));
}

TEST(StageBorders, GiveSideInputsToEveryStageThatReadsThem) {
  const TorchStage last = {.name = "last",
                           .tuple_forward = [](const Tensors& taken) -> Tensors {
                             return {taken[0], taken[1]};
                           },
                           .reads = {"mask"}};
  EXPECT_THAT(ValuesOf({last, Counting("2", {"mask"}, {}, 1)}, {{"mask", at::full({1}, 7.0)}}),
              ElementsAre(ElementsAre(100, 7), ElementsAre(3)));
}

TEST(StageBorders, NameWhatDoesNotFit) {
  EXPECT_THAT(ErrorOf({Counting("1", {"down"}, {}, 1)}),
              HasSubstr("reads down, which no stage before it saves and no side input is called"));
  EXPECT_THAT(ErrorOf({Counting("1", {}, {"a"}, 2), Counting("2", {}, {"a"}, 2),
                       Counting("3", {"a"}, {}, 1)}),
              HasSubstr("saves a, which an earlier stage saves and a later one reads"));
  EXPECT_THAT(ErrorOf({Counting("1", {}, {"a"}, 1)}),
              HasSubstr("returns 1 tensors, of which 1 are skips"));
  const TorchStage plain = {.name = "2", .forward = [](const at::Tensor& input) { return input; }};
  EXPECT_THAT(ErrorOf({Counting("1", {}, {}, 2), plain}),
              HasSubstr("takes 2 tensors and saves 0: only a tuple_forward can"));
  EXPECT_THAT(ErrorOf({{.name = "1"}}), HasSubstr("has no forward"));
}

TEST(JoinedStage, ReadsAndSavesWhatItsPartsDo) {
  const std::vector<TorchStage> stages = {Counting("1", {}, {"a"}, 2), Counting("2", {}, {"b"}, 3),
                                          Counting("3", {"a", "b"}, {"c"}, 2),
                                          Counting("4", {"b", "c"}, {}, 1)};
  const TorchStage joined = JoinedStage({stages[1], stages[2]});
  EXPECT_EQ(joined.name, "2..3");
  EXPECT_THAT(joined.reads, ElementsAre("a"));
  EXPECT_THAT(joined.saves, ElementsAre("b", "c"));
  EXPECT_THAT(ValuesOf({stages[0], joined, stages[3]}),
              ElementsAre(ElementsAre(1, 1), ElementsAre(4, 2, 1), ElementsAre(3)));
}

}  // namespace
}  // namespace stowage
