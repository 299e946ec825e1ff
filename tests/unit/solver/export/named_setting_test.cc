#include "solver/export/named_setting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Schedule Named(absl::string_view text, const Chain& chain, const LayerStages& range) {
  const auto named = ParseNamedSetting(text);
  EXPECT_THAT(named, IsOk());
  return named.ok() ? ScheduleOf(*named, chain, range) : Schedule();
}

TEST(NamedSetting, IsWhatTheFrameworkRuns) {
  const Chain chain = EqualChain(4);
  EXPECT_EQ(Named("megatron:uniform:3", chain, {1, 4}),
            Ops("C1 D2 D3 C4 S5 B5 S4 B4 S1 S2 S3 B3 B2 B1"));
  EXPECT_EQ(Named("megatron:block:1", chain, {1, 4}), Ops("C1 S2 S3 S4 S5 B5 B4 B3 B2 S1 B1"));
  EXPECT_EQ(Named("deepspeed:uniform:2147483647", chain, {1, 4}),
            Ops("C1 D2 D3 D4 S5 B5 S1 S2 S3 S4 B4 B3 B2 B1"));
  EXPECT_EQ(Named("jax:none", chain, {1, 4}), Ops("S1 S2 S3 S4 S5 B5 B4 B3 B2 B1"));
}

TEST(NamedSetting, IsAList) {
  const Chain chain = EqualChain(4);
  EXPECT_EQ(Named("pytorch:2-3", chain, {1, 4}), Ops("S1 C2 D3 S4 S5 B5 B4 S2 S3 B3 B2 B1"));
  EXPECT_EQ(Named("jax:1,3-4", chain, {1, 4}), Named("jax:1-1,3-4", chain, {1, 4}));
  EXPECT_EQ(Named("huggingface:0,2", chain, {1, 4}), Named("pytorch:1,3", chain, {1, 4}));
  EXPECT_EQ(Named("torchtitan:0,1,2", chain, {2, 4}), Named("pytorch:2,3,4", chain, {1, 4}));
}

TEST(NamedSetting, IsEveryNthLayer) {
  const Chain chain = EqualChain(7);
  const auto listed = [&chain](absl::string_view text) { return Named(text, chain, {1, 7}); };
  EXPECT_EQ(listed("torchtitan:every:2"), listed("torchtitan:1,3,5"));
  EXPECT_EQ(listed("torchtitan:every:3"), listed("torchtitan:2,5"));
  EXPECT_EQ(listed("torchtitan:every:8"), listed("torchtitan:none"));
  EXPECT_EQ(listed("huggingface:every:3"), listed("huggingface:0,3,6"));
  EXPECT_EQ(listed("huggingface:every:1"), listed("huggingface:all"));
}

TEST(NamedSetting, IsReadFromItsName) {
  for (const char* name :
       {"megatron:none", "jax:all", "megatron:uniform:3", "megatron:block:1", "torchtitan:every:2",
        "huggingface:every:3", "pytorch:1,3-4,7", "huggingface:0,1,5"}) {
    EXPECT_EQ(NameOf(*ParseNamedSetting(name)), name);
  }
}

TEST(NamedSetting, IsAWayOfEveryLayer) {
  Chain chain = EqualChain(4);
  for (Stage& stage : chain.stages) {
    stage.save_options = {{.name = "mm: 1", .saved_bytes = 5, .kept = {"aten.mm.default#1"}}};
  }
  const std::string way = "pytorch:way:mm: 1";
  EXPECT_EQ(NameOf(*ParseNamedSetting(way)), way);
  const Schedule schedule = Named(way, chain, {2, 3});
  std::vector<int> options;
  for (const Operation& operation : schedule.operations) options.push_back(operation.save_option);
  EXPECT_THAT(options, ElementsAre(0, 1, 1, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(CheckLayers(*ParseNamedSetting(way), chain, {2, 3}), IsOk());
  EXPECT_THAT(CheckLayers(*ParseNamedSetting("pytorch:way:m"), chain, {1, 4}),
              Fails(absl::StatusCode::kInvalidArgument,
                    HasSubstr("say what it keeps; what all layers have is 'mm: 1'")));
  EXPECT_THAT(CheckLayers(*ParseNamedSetting("megatron:way:mm: 1"), chain, {1, 4}),
              Fails(absl::StatusCode::kInvalidArgument,
                    HasSubstr("that reruns these modules; what all layers have is none")));
}

TEST(NamedSetting, ListsNoLayerThatThereIsNot) {
  const Chain chain = EqualChain(6);
  const auto checked = [&chain](absl::string_view text) {
    return CheckLayers(*ParseNamedSetting(text), chain, {2, 4});
  };
  EXPECT_THAT(checked("torchtitan:0,2"), IsOk());
  EXPECT_THAT(checked("pytorch:2-3"), IsOk());
  EXPECT_THAT(checked("megatron:block:9"), IsOk());
  EXPECT_THAT(checked("torchtitan:0,3"),
              Fails(absl::StatusCode::kInvalidArgument,
                    HasSubstr("lists layer 3, of 3 that are counted from 0")));
  EXPECT_THAT(checked("pytorch:1,3-4"),
              Fails(absl::StatusCode::kInvalidArgument,
                    HasSubstr("lists layer 4, of 3 that are counted from 1")));
}

TEST(NamedSetting, LeavesOtherStagesSaved) {
  EXPECT_EQ(Named("pytorch:all", EqualChain(4), {2, 3}),
            Ops("S1 C2 C3 S4 S5 B5 B4 S3 B3 S2 B2 B1"));
}

TEST(NamedSetting, OfLayersRecomputesThemWhole) {
  Chain chain = EqualChain(4);
  chain.stages[1].fusion_group = chain.stages[2].fusion_group = "block";
  EXPECT_EQ(Named("torchtitan:all", chain, {2, 4}), Ops("S1 C2 D3 C4 S5 B5 S4 B4 S2 S3 B3 B2 B1"));
  EXPECT_EQ(Named("pytorch:all", chain, {2, 4}), Ops("S1 C2 C3 C4 S5 B5 S4 B4 S3 B3 S2 B2 B1"));
}

TEST(NamedSetting, OfLayersMayRunNoStageTwiceThatMayRunOnce) {
  Chain chain = EqualChain(4);
  chain.stages[2].no_recompute = true;
  const auto forbidden = [&chain](absl::string_view text, const LayerStages& range) {
    return ForbiddenStage(*ParseNamedSetting(text), chain, range);
  };
  for (const char* text : {"megatron:uniform:4", "megatron:block:3", "deepspeed:all",
                           "huggingface:all", "torchtitan:all"}) {
    EXPECT_EQ(forbidden(text, {1, 4}), 3) << text;
  }
  for (const char* text : {"megatron:block:2", "megatron:none", "pytorch:all", "jax:all"}) {
    EXPECT_EQ(forbidden(text, {1, 4}), std::nullopt) << text;
  }
  EXPECT_EQ(forbidden("megatron:all", {1, 2}), std::nullopt);
  EXPECT_EQ(forbidden("pytorch:2-4", {1, 4}), 3) << "its user names the stage";
  EXPECT_EQ(forbidden("torchtitan:0,1,3", {1, 4}), std::nullopt);
  EXPECT_EQ(Named("pytorch:all", chain, {1, 4}), Ops("C1 C2 S3 C4 S5 B5 S4 B4 B3 S2 B2 S1 B1"));
}

TEST(NamedSetting, IsRefusedWithWhatThereIs) {
  for (const char* text : {"",
                           "megatron",
                           "megatron:uniform",
                           "megatron:uniform:0",
                           "megatron:uniform:x",
                           "megatron:uniform:2:3",
                           "megatron:all:1",
                           "keras:all",
                           "pytorch:uniform:2",
                           "deepspeed:block:2",
                           "pytorch:0",
                           "pytorch:3-2",
                           "pytorch:2,2",
                           "pytorch:3,1",
                           "pytorch:1,",
                           "pytorch:x",
                           "pytorch:every:2",
                           "pytorch:way",
                           "pytorch:way:",
                           "deepspeed:way:mlp",
                           "torchtitan:0-1",
                           "torchtitan:-1",
                           "megatron:0,1",
                           "torchtitan:every:0",
                           "torchtitan:2147483647"}) {
    const auto named = ParseNamedSetting(text);
    EXPECT_EQ(named.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(named.status().message()), HasSubstr("torchtitan:all")) << text;
    EXPECT_THAT(std::string(named.status().message()), HasSubstr("megatron:block:N")) << text;
  }
}

}  // namespace
}  // namespace stowage
