#include "solver/model/instance.h"

#include <gtest/gtest.h>

#include "solver/simulator/simulator.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

SolveRequest RequestWith(int64_t memory_bytes) {
  return {EqualChain(3), Memory(memory_bytes), "", {}};
}

TEST(Instance, RoundsNothingWhileAGranuleIsAByte) {
  const Instance instance = Instance::Rounded(RequestWith((int64_t{2} << 20) - 1));
  EXPECT_EQ(instance.granule_bytes(), 1);
  EXPECT_FALSE(instance.sizes_rounded());
  EXPECT_FALSE(instance.times_rounded());
  EXPECT_EQ(instance.chain().saved_bytes(1), 30);
}

TEST(Instance, RoundsSizesUpAndLimitsDown) {
  SolveRequest request = RequestWith((int64_t{7} << 20) + 5);
  request.platform.host_memory_bytes = 100;
  const Instance instance = Instance::Rounded(request);
  EXPECT_EQ(instance.granule_bytes(), 7);
  EXPECT_TRUE(instance.sizes_rounded());
  EXPECT_EQ(instance.platform().memory_bytes, int64_t{7} << 20);
  EXPECT_EQ(instance.platform().host_memory_bytes, 98);
  EXPECT_EQ(instance.chain().input_bytes, 14);
  EXPECT_EQ(instance.chain().output_bytes(1), 14);
  EXPECT_EQ(instance.chain().saved_bytes(1), 35);
  EXPECT_EQ(instance.chain().gradient_bytes(1), 14);
}

TEST(Instance, KeepsGraphCostsOnlyWhereAStageCanRunInGraphMode) {
  SolveRequest request = RequestWith(int64_t{7} << 20);
  request.chain.graph_entry_seconds = 1;
  for (Stage& stage : request.chain.stages) stage.graph = GraphCosts{1, 2, 30, 4, 5};
  request.chain.stages[0].fusion_group = request.chain.stages[1].fusion_group = "any name";
  request.chain.stages[2].control_flow = true;
  const Chain rounded = Instance::Rounded(request).chain();
  EXPECT_EQ(rounded.graph_entry_seconds, 1);
  EXPECT_EQ(rounded.stages[0].fusion_group, "1");
  EXPECT_EQ(rounded.stages[1].fusion_group, "1");
  EXPECT_EQ(rounded.stages[1].graph, (GraphCosts{1, 2, 35, 7, 7}));
  EXPECT_FALSE(rounded.stages[2].graph.has_value());
  EXPECT_FALSE(rounded.stages[2].control_flow);
  request.chain.stages[0].control_flow = true;
  EXPECT_EQ(Instance::Rounded(request).chain().graph_entry_seconds, 0);
}

TEST(Instance, KeepsGroupsWithoutGraphCostsAndNumbersThem) {
  SolveRequest request = RequestWith(1000);
  request.chain.stages[0].fusion_group = request.chain.stages[1].fusion_group = "any name";
  request.chain.stages[2].fusion_group = "alone";
  const Chain rounded = Instance::Rounded(request).chain();
  EXPECT_EQ(rounded.stages[0].fusion_group, "1");
  EXPECT_EQ(rounded.stages[1].fusion_group, "1");
  EXPECT_EQ(rounded.stages[2].fusion_group, "");
}

TEST(Instance, KeepsAHostLimitBelowAGranuleALimit) {
  SolveRequest request = RequestWith(int64_t{7} << 20);
  request.platform.host_memory_bytes = 3;
  EXPECT_EQ(Instance::Rounded(request).platform().host_memory_bytes, 3);
}

TEST(Instance, LeavesOutNamesAndFillsInDefaults) {
  SolveRequest request = RequestWith(1000);
  request.chain.name = "a";
  request.chain.stages[0].name = "b";
  request.platform.name = "c";
  request.platform.offload_bytes_per_second = 7;
  SolveRequest spelled_out = RequestWith(1000);
  spelled_out.chain.input_gradient_bytes = 10;
  spelled_out.chain.stages[0].gradient_bytes = 10;
  spelled_out.platform.offload_bytes_per_second = 7;
  spelled_out.platform.prefetch_bytes_per_second = 7;
  EXPECT_EQ(Instance::Rounded(request).chain(), Instance::Rounded(spelled_out).chain());
  EXPECT_EQ(Instance::Rounded(request).platform(), Instance::Rounded(spelled_out).platform());
}

TEST(Instance, GivesTimesThatDifferByNoiseOneValue) {
  SolveRequest request = RequestWith(1000);
  request.options.time_precision = 0.01;
  request.chain.stages[0].forward_seconds = 1.0001;
  request.chain.stages[1].forward_seconds = 0;
  const Instance instance = Instance::Rounded(request);
  EXPECT_TRUE(instance.times_rounded());
  EXPECT_EQ(instance.chain().stage(1).forward_seconds, instance.chain().stage(3).forward_seconds);
  EXPECT_EQ(instance.chain().stage(2).forward_seconds, 0);
  EXPECT_NEAR(instance.chain().stage(3).backward_seconds, 2, 0.01);
  EXPECT_EQ(Instance::Exact(request).chain().stage(1).forward_seconds, 1.0001);
}

// Rounding is conservative: a schedule that fits the instance fits the request.
TEST(Instance, NeverNeedsLessThanTheRequest) {
  const SolveRequest request = RequestWith((int64_t{7} << 20) + 5);
  const Instance instance = Instance::Rounded(request);
  const Schedule schedule = Ops("S1 C2 D3 S4 B4 S2 S3 B3 B2 B1");
  const auto exact = Simulate(request.chain, request.platform, schedule);
  const auto rounded = Simulate(instance.chain(), instance.platform(), schedule);
  ASSERT_THAT(exact, IsOk());
  ASSERT_THAT(rounded, IsOk());
  EXPECT_GT(rounded->prediction.peak_memory_bytes, exact->prediction.peak_memory_bytes);
}

// A request is refused otherwise, so that solvers may rely on it.
TEST(Instance, LetsNoForwardThatSavesNeedLessThanOneThatDoesNot) {
  SolveRequest request = RequestWith(int64_t{7} << 20);
  Stage& stage = request.chain.stages[0];
  stage.output_bytes = stage.forward_overhead_bytes = 8;
  stage.saved_bytes = 14;
  stage.save_overhead_bytes = 2;
  stage.save_options = {{"", 14, 2, 0, 2}};
  ASSERT_EQ(stage.SaveNeedBytes(0), stage.OutputNeedBytes());
  const Stage rounded = Instance::Rounded(request).chain().stage(1);
  EXPECT_EQ(rounded.OutputNeedBytes(), 28);
  EXPECT_EQ(rounded.SaveNeedBytes(0), 28);
  EXPECT_EQ(rounded.SaveNeedBytes(1), 28);
}

TEST(Instance, TriesEverySegmentCountOnAChainThatHasFewerStagesThanSegments) {
  SolveRequest request = RequestWith(1000);
  request.options.segments = 3;
  const Instance instance = Instance::Rounded(request);
  EXPECT_EQ(instance.WithChain(EqualChain(3)).options().segments, 3);
  EXPECT_EQ(instance.WithChain(EqualChain(2)).options().segments, 0);
}

}  // namespace
}  // namespace stowage
