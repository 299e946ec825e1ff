#include "solver/export/named_setting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

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
  EXPECT_EQ(Named("pytorch:all", chain, {1, 4}), Ops("C1 C2 S3 C4 S5 B5 S4 B4 B3 S2 B2 S1 B1"));
}

TEST(NamedSetting, IsRefusedWithWhatThereIs) {
  for (const char* text : {"", "megatron", "megatron:uniform", "megatron:uniform:0",
                           "megatron:uniform:x", "megatron:uniform:2:3", "megatron:all:1",
                           "keras:all", "pytorch:uniform:2", "deepspeed:block:2"}) {
    const auto named = ParseNamedSetting(text);
    EXPECT_EQ(named.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(named.status().message()), HasSubstr("torchtitan:all")) << text;
    EXPECT_THAT(std::string(named.status().message()), HasSubstr("megatron:block:N")) << text;
  }
}

}  // namespace
}  // namespace stowage
