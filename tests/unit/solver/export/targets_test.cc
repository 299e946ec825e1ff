#include "solver/export/targets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using Pieces = std::vector<Piece>;

class Targets : public ::testing::Test {
 protected:
  absl::StatusOr<std::string> Written(absl::string_view target, const Pieces& pieces) {
    return FindTarget(target)->write({&layers_, pieces, {"a \"remark\"", "and another"}});
  }
  std::string Text(absl::string_view target, const Pieces& pieces) {
    const auto text = Written(target, pieces);
    EXPECT_THAT(text, IsOk());
    return text.value_or("");
  }
  std::string Refusal(absl::string_view target, const Pieces& pieces) {
    const auto text = Written(target, pieces);
    EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(text.status().message());
  }

  const Layers layers_{EqualChain(5), {1, 5}, LayerUnit::kStage};
  const Pieces segments_ = {{1, 1, false}, {2, 3, true}, {4, 4, true}, {5, 5, false}};
  const Pieces single_ = {{1, 1, true}, {2, 3, false}, {4, 4, true}, {5, 5, true}};
  const Pieces pairs_ = {{1, 2, true}, {3, 4, true}, {5, 5, true}};
  const Pieces first_two_ = {{1, 1, true}, {2, 2, true}, {3, 5, false}};
  const Pieces saved_ = {{1, 5, false}};
};

TEST_F(Targets, HaveNamesAndRemarks) {
  std::set<absl::string_view> names;
  for (const Target& target : AllTargets()) {
    EXPECT_EQ(FindTarget(target.name), &target);
    names.insert(target.name);
    const std::string text = Text(target.name, saved_);
    EXPECT_THAT(text, HasSubstr("and another"));
    EXPECT_THAT(text, EndsWith("\n"));
    EXPECT_THAT(text, Not(EndsWith("\n\n")));
  }
  EXPECT_EQ(names.size(), AllTargets().size());
  EXPECT_EQ(FindTarget("keras"), nullptr);
}

TEST_F(Targets, SayWhatJaxOffloads) {
  const auto text = FindTarget("jax")->write(
      {&layers_, segments_, {"a remark"}, {true, false, true, false, false}});
  ASSERT_THAT(text, IsOk());
  EXPECT_THAT(*text, HasSubstr("    (1, 1, False, True),  # stage 1\n"
                               "    (2, 3, True, True),  # stage 2 to stage 3\n"
                               "    (4, 4, True, False),  # stage 4\n"
                               "    (5, 5, False, False),  # stage 5\n]\n"));
}

// DeepSpeed checkpoints all layers of a pipeline stage, from the first one.
TEST_F(Targets, TakeStagesThatTheyCanLeaveOut) {
  const Chain chain = EqualChain(5);
  for (const Target& target : AllTargets()) {
    for (const char* all : {"", "1:5"}) {
      EXPECT_EQ(*ParseStages(target, all, chain), (LayerStages{1, 5})) << target.name;
    }
    for (const char* some : {"2:5", "1:4"}) {
      const auto stages = ParseStages(target, some, chain);
      EXPECT_EQ(stages.ok(), target.name != "deepspeed") << target.name;
      if (stages.ok()) continue;
      EXPECT_EQ(stages.status().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(stages.status().message()), HasSubstr("give 1:5"));
    }
  }
}

TEST_F(Targets, OfSegmentsListThem) {
  for (const char* target : {"pytorch", "jax"}) {
    const std::string text = Text(target, segments_);
    EXPECT_THAT(text, StartsWith("# a \"remark\"\n# and another\nfrom "));
    EXPECT_THAT(text, HasSubstr("STAGES = 5\n"));
    EXPECT_THAT(text, HasSubstr("SEGMENTS = [\n    (2, 3),  # stage 2 to stage 3\n"
                                "    (4, 4),  # stage 4\n]\n"));
  }
}

TEST_F(Targets, SayThatStatisticsMoveTwice) {
  EXPECT_THAT(Text("pytorch", segments_), HasSubstr("\n# BatchNorm in a segment"));
  EXPECT_THAT(std::string(FindTarget("pytorch")->loses), HasSubstr("BatchNorm"));
}

TEST_F(Targets, OfLayersCountThemFromZero) {
  for (const char* target : {"huggingface", "torchtitan"}) {
    EXPECT_THAT(Text(target, single_), HasSubstr("RECOMPUTED = frozenset([\n    0, 3, 4,\n])\n"));
    EXPECT_THAT(Text(target, saved_), HasSubstr("RECOMPUTED = frozenset([\n])\n"));
    EXPECT_THAT(Refusal(target, segments_),
                HasSubstr("layers 2 to 3 as one segment; solve with the solver per_layer"));
  }
}

TEST_F(Targets, OfTransformersWarnOfTheTrainersOwnSetting) {
  EXPECT_THAT(Text("huggingface", single_), HasSubstr("Leave gradient_checkpointing and"));
}

TEST_F(Targets, WrapLongLists) {
  const Layers many(EqualChain(200), {1, 200}, LayerUnit::kStage);
  Pieces pieces;
  for (int l = 1; l <= 200; ++l) pieces.push_back({l, l, true});
  const auto text = WriteTorchTitan({&many, pieces, {}});
  ASSERT_THAT(text, IsOk());
  for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = text->find('\n', begin);
    const size_t width = std::min(end, text->size()) - begin;
    EXPECT_LE(width, 88) << text->substr(begin, width);
  }
  EXPECT_THAT(*text, HasSubstr(" 199,\n])\n"));
}

TEST_F(Targets, MegatronHasTwoMethods) {
  EXPECT_THAT(Text("megatron", pairs_),
              HasSubstr("--recompute-method uniform\n    --recompute-num-layers 2\n)\n"));
  EXPECT_THAT(Text("megatron", pairs_), HasSubstr("releases before 0.19 refuse"));
  EXPECT_THAT(Text("megatron", first_two_),
              HasSubstr("--recompute-method block\n    --recompute-num-layers 2\n)\n"));
  EXPECT_THAT(Text("megatron", first_two_), Not(HasSubstr("refuse")));
  EXPECT_THAT(Text("megatron", saved_), HasSubstr("RECOMPUTE_ARGS=(\n)\n"));
  for (const Pieces& pieces : {pairs_, first_two_}) {
    EXPECT_THAT(Text("megatron", pieces), HasSubstr("the number applies to each chunk"));
  }
  EXPECT_THAT(Text("megatron", saved_), Not(HasSubstr("chunk")));
  for (const Pieces& other : {segments_, single_}) {
    EXPECT_THAT(Refusal("megatron", other), HasSubstr("solve with the solver uniform or block"));
  }
}

TEST_F(Targets, MegatronRerunsTheSameModulesInEveryLayer) {
  Chain chain = EqualChain(3);
  for (Stage& stage : chain.stages) {
    stage.save_options = {{"", 20, 3, 0, {}, {}, {"mlp"}}, {"", 10, 3, 0, {}, {}, {"core_attn"}}};
  }
  const Layers layers(chain, {1, 3}, LayerUnit::kStage, WayNames::kRerun);
  const auto written = [&layers](const Pieces& pieces) {
    return FindTarget("megatron")->write({&layers, pieces, {}});
  };
  const auto same = written({{1, 3, false, 2}});
  ASSERT_THAT(same, IsOk());
  EXPECT_THAT(*same, HasSubstr("--recompute-modules core_attn\n"));
  EXPECT_THAT(
      written({{1, 2, false, 1}, {3, 3, false, 2}}),
      Fails(absl::StatusCode::kInvalidArgument, HasSubstr("the same modules of every layer")));
}

TEST_F(Targets, DeepSpeedIsJson) {
  EXPECT_EQ(Text("deepspeed", pairs_), R"({
  "comment": [
    "a \"remark\"",
    "and another"
  ],
  "pipeline": {
    "activation_checkpoint_interval": 2
  },
  "activation_checkpointing": {
    "partition_activations": false,
    "cpu_checkpointing": false,
    "number_checkpoints": 3
  }
}
)");
  const std::string saved = Text("deepspeed", saved_);
  EXPECT_THAT(saved, HasSubstr("\"activation_checkpoint_interval\": 0"));
  EXPECT_THAT(saved, HasSubstr("leaves the one that the PipelineModule is made with"));
  for (const Pieces& other : {first_two_, single_, segments_}) {
    EXPECT_THAT(Refusal("deepspeed", other), HasSubstr("solve with the solver uniform"));
  }
}

}  // namespace
}  // namespace stowage
