#include "solver/export/layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "solver/model/validate.h"
#include "tests/support/chains.h"

namespace stowage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// An embedding, two blocks of two stages, a head.
Chain Decoder() {
  Chain chain = EqualChain(6);
  const std::vector<std::string> names = {"embed", "attn0", "mlp0", "attn1", "mlp1", "head"};
  const std::vector<std::string> groups = {"", "block0", "block0", "block1", "block1", ""};
  for (size_t i = 0; i < names.size(); ++i) {
    chain.stages[i].name = names[i];
    chain.stages[i].fusion_group = groups[i];
  }
  return chain;
}

TEST(ParseStageSpan, ReadsFirstAndLast) {
  EXPECT_EQ(*ParseStageSpan("", EqualChain(6)), (StageSpan{1, 6}));
  EXPECT_EQ(*ParseStageSpan("2:5", EqualChain(6)), (StageSpan{2, 5}));
  EXPECT_EQ(*ParseStageSpan("6:6", EqualChain(6)), (StageSpan{6, 6}));
}

TEST(ParseStageSpan, SaysWhatItExpects) {
  for (const char* text : {"0:5", "2:7", "5:2", "2", "2:", ":5", "2:3:4", "a:b", "2-5"}) {
    const auto range = ParseStageSpan(text, EqualChain(6));
    EXPECT_EQ(range.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(range.status().message()), HasSubstr("stages 1 to 6, as in 1:6"));
  }
}

TEST(Layers, AreStagesOrFusionGroups) {
  const Layers stages(Decoder(), {1, 6}, LayerUnit::kStage);
  EXPECT_EQ(stages.count(), 6);
  EXPECT_EQ(stages.name(3), "mlp0");
  const Layers groups(Decoder(), {2, 5}, LayerUnit::kFusionGroup);
  ASSERT_EQ(groups.count(), 2);
  EXPECT_EQ(groups.stages(2), (StageSpan{4, 5}));
  EXPECT_EQ(groups.name(1), "attn0 to mlp0");
}

TEST(Layers, NameStagesByNumberWhereTheyHaveNone) {
  Chain chain = EqualChain(2);
  chain.stages[0].name = "";
  chain.stages[1].name = "two\nlines";
  const Layers layers(chain, {1, 2}, LayerUnit::kStage);
  EXPECT_EQ(layers.name(1), "stage 1");
  EXPECT_EQ(layers.name(2), "two lines");
}

TEST(Layers, SaveWhatBelongsToNoLayer) {
  const Layers layers(Decoder(), {2, 5}, LayerUnit::kFusionGroup);
  EXPECT_THAT(Violations(layers.chain()), IsEmpty());
  EXPECT_TRUE(layers.chain().stage(1).no_recompute);
  EXPECT_FALSE(layers.chain().stage(2).no_recompute);
  EXPECT_TRUE(layers.chain().stage(6).no_recompute);
  EXPECT_THAT(layers.ToStages({{1, 2, true}}),
              ElementsAre(Piece{1, 1, false}, Piece{2, 5, true}, Piece{6, 6, false}));
  EXPECT_THAT(layers.ToStages({{1, 1, true}, {2, 2, false}}),
              ElementsAre(Piece{1, 1, false}, Piece{2, 3, true}, Piece{4, 6, false}));
}

TEST(Layers, AreNoGroupsOfStagesThatBelongToNone) {
  const Layers layers(Decoder(), {3, 4}, LayerUnit::kFusionGroup);
  EXPECT_THAT(Violations(layers.chain()), IsEmpty());
  EXPECT_EQ(layers.count(), 2);
  EXPECT_EQ(layers.chain().stage(2).fusion_group, "");
  EXPECT_EQ(layers.chain().stage(3).fusion_group, "block0");
}

TEST(Layers, RunOnceWhereOneOfTheirStagesDoes) {
  Chain chain = Decoder();
  chain.stages[2].no_recompute = true;
  const Layers layers(chain, {2, 5}, LayerUnit::kFusionGroup);
  EXPECT_TRUE(layers.chain().stage(2).no_recompute);
  EXPECT_FALSE(layers.chain().stage(4).no_recompute);
}

TEST(Layers, ReadPlansOfTheirStages) {
  Chain chain = Decoder();
  for (Stage& stage : chain.stages) stage.replay_seconds = stage.forward_seconds / 2;
  const Layers layers(chain, {2, 5}, LayerUnit::kFusionGroup);
  EXPECT_THAT(Violations(layers.chain()), IsEmpty());
  for (const std::vector<Piece>& plan :
       std::vector<std::vector<Piece>>{{{1, 2, false}},
                                       {{1, 2, true}},
                                       {{1, 1, true}, {2, 2, true}},
                                       {{1, 1, false}, {2, 2, true}},
                                       {{1, 1, true}, {2, 2, false}}}) {
    EXPECT_EQ(layers.FromStages(layers.ToStages(plan)), plan);
  }
}

}  // namespace
}  // namespace stowage
