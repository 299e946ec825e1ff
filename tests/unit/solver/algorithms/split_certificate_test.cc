#include "solver/algorithms/split_certificate.h"

#include <gtest/gtest.h>

#include "solver/algorithms/convex_splits.h"
#include "tests/support/chains.h"

namespace stowage {
namespace {

// Two units of two stages and one of one, as cheap in graph mode as in eager mode but for the
// entry.
Chain CloseCall() {
  Chain chain;
  chain.input_bytes = 2;
  chain.input_gradient_bytes = 0;
  chain.graph_entry_seconds = 3;
  const auto add = [&chain](double forward, double backward, int64_t output, int64_t saved,
                            int64_t gradient, int64_t overhead, const char* group,
                            const GraphCosts& graph, bool once) {
    Stage stage;
    stage.forward_seconds = forward;
    stage.backward_seconds = backward;
    stage.output_bytes = output;
    stage.saved_bytes = saved;
    stage.gradient_bytes = gradient;
    stage.backward_overhead_bytes = overhead;
    stage.fusion_group = group;
    stage.graph = graph;
    stage.no_recompute = once;
    chain.stages.push_back(stage);
  };
  add(0, 4, 5, 5, 5, 0, "a", {0, 0, 5, 0, 2}, true);
  add(5, 3, 2, 2, 0, 0, "a", {2, 4, 6, 0, 0}, true);
  add(3, 3, 5, 5, 0, 2, "b", {3, 2, 1, 0, 0}, false);
  add(2, 2, 1, 1, 6, 0, "b", {5, 3, 7, 0, 0}, false);
  add(1, 2, 2, 5, 0, 4, "", {0, 4, 3, 0, 0}, true);
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
  // Each sub-sequence in the mode that takes what is said.
  double seconds = 0;
  for (const SubSequence& one : result->splits.sequences) {
    seconds += one.mode == Mode::kGraph ? tables.Graph(one.begin, one.end, one.share)
                                        : tables.Eager(one.begin, one.end, one.share);
  }
  EXPECT_NEAR(seconds, 25, 1e-4);
  EXPECT_TRUE(result->certified);
  EXPECT_LE(result->bound_seconds, 25 + 1e-4);
}

}  // namespace
}  // namespace stowage
