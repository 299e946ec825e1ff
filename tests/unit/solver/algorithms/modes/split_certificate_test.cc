#include "solver/algorithms/modes/split_certificate.h"

#include <gtest/gtest.h>

#include <optional>

#include "solver/algorithms/modes/convex_splits.h"
#include "tests/support/chains.h"

namespace stowage {
namespace {

// Three units, of two stages, two stages and one, whose times in graph mode differ little from
// those in eager mode, except for the entry cost.
Chain CloseCall() {
  Chain chain;
  chain.input_bytes = 2;
  chain.input_gradient_bytes = 0;
  chain.graph_entry_seconds = 3;
  struct Line {
    double forward, backward;
    int64_t output, saved, gradient, backward_overhead;
    const char* group;
    GraphCosts graph;
    bool no_recompute;
  };
  for (const Line& line : {Line{0, 4, 5, 5, 5, 0, "a", {0, 0, 5, 0, 2}, true},
                           Line{5, 3, 2, 2, 0, 0, "a", {2, 4, 6, 0, 0}, true},
                           Line{3, 3, 5, 5, 0, 2, "b", {3, 2, 1, 0, 0}, false},
                           Line{2, 2, 1, 1, 6, 0, "b", {5, 3, 7, 0, 0}, false},
                           Line{1, 2, 2, 5, 0, 4, "", {0, 4, 3, 0, 0}, true}}) {
    Stage stage;
    stage.forward_seconds = line.forward;
    stage.backward_seconds = line.backward;
    stage.output_bytes = line.output;
    stage.saved_bytes = line.saved;
    stage.gradient_bytes = line.gradient;
    stage.backward_overhead_bytes = line.backward_overhead;
    stage.fusion_group = line.group;
    stage.graph = line.graph;
    stage.no_recompute = line.no_recompute;
    chain.stages.push_back(stage);
  }
  return chain;
}

ModeTables TablesOf(const Chain& chain, int64_t budget) {
  return *ModeTables::Build(chain, {{budget, budget, SlotGrid::Rounding::kUp}, budget}, {});
}

TEST(SplitCertificate, FindsWhatOnlyAllOfTheMemoryAllows) {
  const ModeTables tables = TablesOf(CloseCall(), 30);
  const auto convex = FindConvexSplits(tables, 28, {});
  ASSERT_TRUE(convex.ok());
  const auto result = CertifySplits(tables, 28, *convex, {});
  ASSERT_TRUE(result.ok());
  EXPECT_NEAR(result->splits.seconds, 25, 1e-4);
  // The sum over the sub-sequences, each in its mode.
  double seconds = 0;
  for (const SubSequence& one : result->splits.sequences) {
    seconds += one.mode == Mode::kGraph ? tables.Graph(one.begin, one.end, one.share)
                                        : tables.Eager(one.begin, one.end, one.share);
  }
  EXPECT_NEAR(seconds, 25, 1e-4);
  EXPECT_TRUE(result->certified);
  EXPECT_LE(result->bound_seconds, 25 + 1e-4);
}

// One slot less costs hours of recomputation, while all of the memory costs none: no price is high
// enough to make the path use the fewest slots.
TEST(SplitCertificate, FindsWhatTakesBeyondAllPrices) {
  Chain chain;
  chain.input_gradient_bytes = 0;
  const auto add = [&chain](double forward, int64_t saved, std::optional<GraphCosts> graph) {
    Stage stage;
    stage.forward_seconds = forward;
    stage.output_bytes = 1;
    stage.saved_bytes = saved;
    stage.gradient_bytes = 0;
    stage.graph = graph;
    chain.stages.push_back(stage);
  };
  for (int i = 0; i < 100; ++i) add(1e9, 1, GraphCosts{0, 0, 1, 1, 0});
  add(0, 1, std::nullopt);
  add(0, 1000, GraphCosts{0, 0, 1, 0, 0});
  chain.loss.graph = GraphCosts{};
  const ModeTables tables = TablesOf(chain, 12);
  const auto exact = ExactSplits::Find(tables, {});
  ASSERT_TRUE(exact.ok());
  for (const int64_t share : {2, 3, 4, 5}) {
    const auto convex = FindConvexSplits(tables, share, {});
    ASSERT_TRUE(convex.ok());
    const auto result = CertifySplits(tables, share, *convex, {});
    ASSERT_TRUE(result.ok());
    EXPECT_TRUE(result->certified);
    EXPECT_EQ(result->splits.sequences.empty(), share == 2);
    if (share == 2) continue;
    EXPECT_NEAR(result->splits.seconds / exact->SecondsWithin(share), 1, 1e-6);
  }
}

}  // namespace
}  // namespace stowage
