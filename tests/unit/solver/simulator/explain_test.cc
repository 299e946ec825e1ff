#include "solver/simulator/explain.h"

#include <gtest/gtest.h>

#include "solver/solve/checked_answer.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

Explanation ExplainOps(const Chain& chain, const Platform& platform, const char* operations) {
  auto result = SimulateAndExplain(chain, ChainUnits(chain), platform, Ops(operations));
  EXPECT_THAT(result, IsOk());
  return result.ok() ? result->explanation : Explanation{};
}

TEST(Explain, ListsWhatThePeakHolds) {
  Chain chain = EqualChain(2);
  chain.stages[1].backward_overhead_bytes = 5;
  const Explanation explanation = ExplainOps(chain, Memory(1000), "S1 S2 S3 B3 B2 B1");
  ASSERT_EQ(explanation.peaks.size(), kPeaksShown);
  const Peak& peak = explanation.peaks.front();
  EXPECT_EQ(peak.operation, 4);  // B2: a0 10, ā1 30, ā2 30, δ2 10, δ1 10, overhead 5
  EXPECT_EQ(peak.memory_bytes, 95);
  EXPECT_EQ(peak.other_bytes, 0);
  ASSERT_EQ(peak.holdings.size(), 6);
  EXPECT_EQ(peak.holdings.front().kind, Holding::Kind::kSaved);
  EXPECT_EQ(peak.holdings.front().stage, 1);
  EXPECT_EQ(peak.holdings.front().bytes, 30);
  EXPECT_EQ(peak.holdings.back().kind, Holding::Kind::kOverhead);
  EXPECT_GE(peak.memory_bytes, explanation.peaks[1].memory_bytes);
}

TEST(Explain, CountsAndNamesTheWayInWhichAStageWasSaved) {
  Chain chain = EqualChain(2);
  chain.stages[0].save_options = {{"", 20, 3, 0}, {"", 15, 3, 8}};
  const Explanation explanation = ExplainOps(chain, Memory(1000), "S1:2 S2 S3 B3 B2 B1");
  ASSERT_EQ(explanation.stages.size(), 2);
  EXPECT_EQ(explanation.stages[0].save_option, 2);
  EXPECT_EQ(explanation.stages[1].save_option, 0);
  EXPECT_EQ(explanation.peaks[0].operation, 4);  // B2: a0 10, ā1 15, ā2 30, δ2 10, δ1 10
  EXPECT_EQ(explanation.peaks[0].memory_bytes, 75);
  const auto by_kind = ExplainMemory(chain, Memory(1000), Ops("S1:2 S2 S3 B3 B2 B1"));
  EXPECT_EQ(by_kind[0].saved_bytes, 15);
  EXPECT_EQ(by_kind[5].overhead_bytes, 8);
}

TEST(Explain, SumsUpWhatItDoesNotList) {
  std::string operations;
  for (int l = 1; l <= 21; ++l) operations += "S" + std::to_string(l) + " ";
  for (int l = 21; l >= 1; --l) operations += "B" + std::to_string(l) + " ";
  const Explanation explanation = ExplainOps(EqualChain(20), Memory(1000), operations.c_str());
  const Peak& peak = explanation.peaks.front();
  EXPECT_EQ(peak.holdings.size(), kHoldingsShown);
  EXPECT_EQ(peak.memory_bytes, 630);  // the input, 20 of 30, two gradients
  EXPECT_EQ(peak.other_bytes, peak.memory_bytes - 240);
}

TEST(Explain, SaysWhichTransferComputeWaitsFor) {
  Platform platform = Memory(1000);
  platform.offload_bytes_per_second = 10;
  const Explanation explanation = ExplainOps(EqualChain(2), platform, "S1 O1 S2 S3 R1 B3 P1 B2 B1");
  ASSERT_EQ(explanation.idles.size(), 2);
  EXPECT_EQ(explanation.idles[0].operation, 7);  // B2 waits 4-7 for P1
  EXPECT_EQ(explanation.idles[0].seconds, 3);
  EXPECT_EQ(explanation.idles[0].waits_for, 6);
  EXPECT_EQ(explanation.idles[1].operation, 5);  // B3 waits 2-4 for R1
  EXPECT_EQ(explanation.idles[1].seconds, 2);
}

TEST(Explain, TellsTheFateOfEachStage) {
  Platform platform = Memory(1000);
  platform.offload_bytes_per_second = 10;
  const Explanation explanation =
      ExplainOps(EqualChain(3), platform, "C1 D2 O2 R2 P2 S3 S4 B4 B3 S1 S2 B2 B1");
  using Sweep = StageFate::FirstSweep;
  ASSERT_EQ(explanation.stages.size(), 3);
  EXPECT_EQ(explanation.stages[0].stage, 1);
  EXPECT_EQ(explanation.stages[0].first_sweep, Sweep::kNothing);
  EXPECT_EQ(explanation.stages[0].recomputed, 1);
  EXPECT_EQ(explanation.stages[1].first_sweep, Sweep::kOutput);
  EXPECT_EQ(explanation.stages[1].recomputed, 1);
  EXPECT_EQ(explanation.stages[1].offloaded, 1);
  EXPECT_EQ(explanation.stages[2].first_sweep, Sweep::kSaved);
  EXPECT_EQ(explanation.stages[2].recomputed, 0);
}

}  // namespace
}  // namespace stowage
