#include "solver/export/layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "solver/export/name_pattern.h"
#include "solver/model/validate.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;

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

TEST(ParseLayerStages, ReadsFirstAndLast) {
  const auto stages = [](absl::string_view text) {
    return *ParseLayerStages(text, EqualChain(6), LayerUnit::kStage);
  };
  EXPECT_EQ(stages(""), (LayerStages{1, 6}));
  EXPECT_EQ(stages("2:5"), (LayerStages{2, 5}));
  EXPECT_EQ(stages("6:6"), (LayerStages{6, 6}));
}

TEST(ParseLayerStages, SaysWhatItExpects) {
  for (const char* text : {"0:5", "2:7", "5:2", "2", "2:", ":5", "2:3:4", "a:b", "2-5", "h.*"}) {
    EXPECT_THAT(ParseLayerStages(text, EqualChain(6), LayerUnit::kStage),
                Fails(absl::StatusCode::kInvalidArgument,
                      AllOf(HasSubstr("stages 1 to 6, as in 1:6"), HasSubstr("layers.{n}"))));
  }
}

Chain Named(const std::vector<std::string>& names) {
  Chain chain = EqualChain(static_cast<int>(names.size()));
  for (size_t i = 0; i < names.size(); ++i) chain.stages[i].name = names[i];
  return chain;
}

TEST(ParseLayerStages, FindsLayersByAPattern) {
  const Chain chain = Named({"model.embed", "model.layers.0.attn", "model.layers.0.mlp",
                             "model.layers.1.attn", "model.layers.10", "model.norm"});
  for (const char* pattern : {"layers.{n}", "layers.{n}.", "model.layers.{n}"}) {
    EXPECT_EQ(*ParseLayerStages(pattern, chain, LayerUnit::kFusionGroup),
              (LayerStages{2, 5, {3, 4, 5}}))
        << pattern;
    EXPECT_EQ(*ParseLayerStages(pattern, chain, LayerUnit::kStage),
              (LayerStages{2, 5, {2, 3, 4, 5}}))
        << pattern;
  }
}

TEST(ParseLayerStages, TellsTowersApart) {
  const Chain chain = Named({"encoder.h.0", "encoder.h.1", "decoder.h.1", "decoder.h.2"});
  EXPECT_EQ(ParseLayerStages("h.{n}", chain, LayerUnit::kFusionGroup)->ends,
            (std::vector<int>{1, 2, 3, 4}));
}

TEST(ParseLayerStages, SaysWhichStagesAreApart) {
  const auto apart = [](const std::vector<std::string>& names) {
    return ParseLayerStages("h.{n}", Named(names), LayerUnit::kFusionGroup);
  };
  EXPECT_THAT(apart({"h.0", "pool", "h.1"}),
              Fails(absl::StatusCode::kInvalidArgument,
                    AllOf(HasSubstr("stage 3 'h.1'"), HasSubstr("stage 2 'pool'"))));
  EXPECT_THAT(apart({"h.0.a", "h.1", "h.0.b"}),
              Fails(absl::StatusCode::kInvalidArgument,
                    AllOf(HasSubstr("stage 3 'h.0.b'"), HasSubstr("stages of 'h.0'"))));
}

TEST(ParseLayerStages, ListsNamesWhereNoneMatches) {
  const Chain chain = Named({"a", "b", "c", "d", "e", "f", "layers.x"});
  EXPECT_THAT(ParseLayerStages("layers.{n}", chain, LayerUnit::kStage),
              Fails(absl::StatusCode::kInvalidArgument,
                    HasSubstr("'layers.{n}' is in no stage's name; the names are 'a', 'b', 'c', "
                              "'d', 'e' and 2 more")));
  const std::string long_pattern(70, 'x');
  EXPECT_THAT(ParseLayerStages(long_pattern + ":", chain, LayerUnit::kStage),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("71 bytes")));
  EXPECT_THAT(ParseLayerStages(long_pattern + "{n}", chain, LayerUnit::kStage),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("has 73 bytes")));
}

TEST(MatchedName, MatchesWholeParts) {
  EXPECT_EQ(MatchedName("layers.{n}", "model/layers.31/mlp"), "model/layers.31");
  EXPECT_EQ(MatchedName("block{n}", "net.block7"), "net.block7");
  EXPECT_EQ(MatchedName("layer{n}.{n}", "layer2.13.conv1"), "layer2.13");
  for (const char* name : {"", "layers", "layers.", "layers.x", "layers.1x", "sublayers.1", "1"}) {
    EXPECT_EQ(MatchedName("layers.{n}", name), std::nullopt) << name;
  }
}

TEST(Layers, AreThoseOfAPatternWhateverTheGroups) {
  Chain chain = Decoder();
  const LayerStages stages{2, 5, {2, 4, 5}};
  const Layers layers(chain, stages, LayerUnit::kFusionGroup);
  EXPECT_THAT(Violations(layers.chain()), IsEmpty());
  ASSERT_EQ(layers.count(), 3);
  EXPECT_EQ(layers.stages(2), (StageSpan{3, 4}));
  EXPECT_EQ(layers.chain().stage(2).fusion_group, "");
  EXPECT_NE(layers.chain().stage(3).fusion_group, "");
  EXPECT_EQ(layers.chain().stage(3).fusion_group, layers.chain().stage(4).fusion_group);
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
  EXPECT_EQ(layers.chain().stage(3).fusion_group, "");
}

TEST(Layers, RunOnceWhereOneOfTheirStagesDoes) {
  Chain chain = Decoder();
  chain.stages[2].no_recompute = true;
  const Layers layers(chain, {2, 5}, LayerUnit::kFusionGroup);
  EXPECT_TRUE(layers.chain().stage(2).no_recompute);
  EXPECT_FALSE(layers.chain().stage(4).no_recompute);
}

SaveOption Way(absl::string_view name, std::vector<std::string> kept,
               std::vector<std::string> rerun = {}) {
  SaveOption way{.name = std::string(name), .saved_bytes = 10, .backward_seconds = 3};
  way.kept = std::move(kept);
  way.rerun = std::move(rerun);
  return way;
}

TEST(NamesOf, AreThoseOfTheFrameworksKind) {
  const SaveOption calls = Way("", {"aten.mm.default#0", "mylib.op.out#12"}, {"mlp"});
  EXPECT_THAT(NamesOf(calls, WayNames::kOperators),
              ElementsAre("aten.mm.default#0", "mylib.op.out#12"));
  EXPECT_THAT(NamesOf(calls, WayNames::kKept), IsEmpty());
  EXPECT_THAT(NamesOf(calls, WayNames::kRerun), ElementsAre("mlp"));
  EXPECT_THAT(NamesOf(calls, WayNames::kNone), IsEmpty());
  const SaveOption modules = Way("", {"mlp.act_fn", "self_attn"});
  EXPECT_THAT(NamesOf(modules, WayNames::kKept), ElementsAre("mlp.act_fn", "self_attn"));
  EXPECT_THAT(NamesOf(modules, WayNames::kOperators), IsEmpty());
  for (const char* name : {"aten.mm.default#", "aten.mm.default#-1", "aten.mm.default#x", "mm#0",
                           "aten.mm.default#1#2", "aten.m m.default#0", "a.b.c\"]#0", "..#0",
                           "a..b#0", "aten.mm.default# 1", "aten.mm.default#+1", "aten/mm.x.y#0"}) {
    EXPECT_THAT(NamesOf(Way("", {"aten.mm.default#0", name}), WayNames::kOperators), IsEmpty())
        << name;
  }
  for (const char* name : {"a b", "a\"", "a\n", "$(reboot)", "a;b", "é"}) {
    EXPECT_THAT(NamesOf(Way("", {name}, {name}), WayNames::kKept), IsEmpty()) << name;
    EXPECT_THAT(NamesOf(Way("", {name}, {name}), WayNames::kRerun), IsEmpty()) << name;
  }
}

TEST(Layers, MayBeSavedInPartWhereTheyAreOneStageThatMayRunAgain) {
  Chain chain = Decoder();
  for (Stage& stage : chain.stages) stage.save_options = {Way("all", {"attention"})};
  chain.stages[5].no_recompute = true;
  const auto ways = [&chain](const LayerStages& stages, WayNames names) {
    std::vector<int> counts;
    const Layers layers(chain, stages, LayerUnit::kFusionGroup, names);
    EXPECT_THAT(Violations(layers.chain()), IsEmpty());
    for (int layer = 1; layer <= layers.count(); ++layer) counts.push_back(layers.ways(layer));
    return counts;
  };
  EXPECT_THAT(ways({1, 6, {1, 3, 4, 5, 6}}, WayNames::kKept), ElementsAre(1, 0, 1, 1, 0));
  EXPECT_THAT(ways({1, 6, {1, 3, 4, 5, 6}}, WayNames::kNone), ElementsAre(0, 0, 0, 0, 0));
  EXPECT_THAT(ways({1, 6, {1, 3, 4, 5, 6}}, WayNames::kOperators), ElementsAre(0, 0, 0, 0, 0));
  chain.stages[0].save_options.push_back(Way("unnamed", {}));
  EXPECT_THAT(ways({1, 3, {1, 2, 3}}, WayNames::kKept), ElementsAre(0, 1, 1))
      << "its numbers would be others";
}

TEST(Layers, AreSavedByAWayThatAllHave) {
  Chain chain = EqualChain(3);
  for (Stage& stage : chain.stages) stage.save_options = {Way("a", {"x"}), Way("b", {"y"})};
  std::swap(chain.stages[2].save_options[0], chain.stages[2].save_options[1]);
  const Layers layers(chain, {1, 3}, LayerUnit::kStage, WayNames::kKept);
  EXPECT_THAT(layers.CommonWays(), ElementsAre("a", "b"));
  EXPECT_THAT(layers.SavedBy("b"),
              Optional(ElementsAre(Piece{1, 2, false, 2}, Piece{3, 3, false, 1})));
  EXPECT_EQ(layers.SavedBy("c"), std::nullopt);
  EXPECT_THAT(layers.way_names(3, 1), ElementsAre("y"));
  chain.stages[1].save_options.pop_back();
  const Layers fewer(chain, {1, 3}, LayerUnit::kStage, WayNames::kKept);
  EXPECT_THAT(fewer.CommonWays(), ElementsAre("a"));
  EXPECT_EQ(fewer.SavedBy("b"), std::nullopt);
}

// Megatron's ways are told apart by what they rerun, whatever they are called.
TEST(Layers, AreSavedByWhatIsRerun) {
  Chain chain = EqualChain(2);
  chain.stages[0].save_options = {Way("", {}, {"mlp"}), Way("both", {}, {"mlp", "core_attn"})};
  chain.stages[1].save_options = {Way("mlp", {}, {"core_attn", "mlp"}), Way("x", {}, {"moe"})};
  const Layers layers(chain, {1, 2}, LayerUnit::kStage, WayNames::kRerun);
  EXPECT_THAT(layers.CommonWays(), ElementsAre("core_attn+mlp"));
  EXPECT_THAT(layers.SavedBy("core_attn+mlp"),
              Optional(ElementsAre(Piece{1, 1, false, 2}, Piece{2, 2, false, 1})));
  EXPECT_EQ(layers.SavedBy("mlp"), std::nullopt);
  for (const char* name : {"--load", "/tmp/evil", "a-b", "1a"}) {
    EXPECT_THAT(NamesOf(Way("", {}, {"mlp", name}), WayNames::kRerun), IsEmpty()) << name;
  }
}

TEST(Layers, ReadPlansThatSaveThemInPart) {
  Chain chain = Decoder();
  for (Stage& stage : chain.stages) stage.save_options = {Way("a", {"x"}), Way("b", {"y"})};
  const Layers layers(chain, {2, 5}, LayerUnit::kStage, WayNames::kKept);
  const std::vector<Piece> plan = {{1, 1, false, 2}, {2, 2, false, 1}, {3, 4, true}};
  EXPECT_THAT(layers.ToStages(plan),
              ElementsAre(Piece{1, 1, false}, Piece{2, 2, false, 2}, Piece{3, 3, false, 1},
                          Piece{4, 5, true}, Piece{6, 6, false}));
  EXPECT_EQ(layers.FromStages(layers.ToStages(plan)), plan);
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
