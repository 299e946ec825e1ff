#include "solver/algorithms/rematerialization/revolve.h"

#include <gtest/gtest.h>

#include "solver/bounds/memory_range.h"
#include "solver/solve/answer_request.h"
#include "solver/solve/find_frontier.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

TEST(Revolve, SavesRightBeforeEachBackwardHoweverMuchMemoryThereIs) {
  const auto answer = AnswerRequest({EqualChain(3), Memory(10'000), "revolve", {}}, {});
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(answer->outcome, Outcome::kOptimal);
  EXPECT_EQ(answer->schedule, Ops("C1 C2 C3 S4 B4 S3 B3 S2 B2 S1 B1"));
  EXPECT_EQ(answer->prediction.recompute_seconds, 3);
}

TEST(Revolve, SavesNoRecomputeStagesInTheFirstSweep) {
  Chain chain = EqualChain(3);
  chain.stages[1].no_recompute = true;
  const auto answer = AnswerRequest({chain, Memory(10'000), "revolve", {}}, {});
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(answer->schedule, Ops("C1 S2 C3 S4 B4 S3 B3 B2 S1 B1"));
}

// `auto` leaves revolve out by this bound: too high, and a faster schedule would be missed.
TEST(Revolve, KnowsItsFastestSchedule) {
  Chain chain = EqualChain(5);
  chain.stages[1].no_recompute = true;
  chain.stages[3].forward_seconds = 7;
  chain.loss.forward_seconds = 3;
  const auto answer = AnswerRequest({chain, Memory(10'000), "revolve", {}}, {});
  ASSERT_THAT(answer, IsOk());
  const Instance instance = Instance::Exact({chain, Memory(10'000), "revolve", {}});
  EXPECT_EQ(MakeRevolve()->LeastSeconds(instance), answer->prediction.makespan_seconds);
}

// Revolve saves stages while a gradient is held, which storing everything never does. It may need
// more memory than that, and benefit from even more.
TEST(Revolve, UsesMoreMemoryThanStoringEverythingWhereItCan) {
  Chain chain;
  chain.input_bytes = 1;
  chain.input_gradient_bytes = 0;
  chain.stages.resize(2);
  for (Stage& stage : chain.stages) stage.output_bytes = stage.saved_bytes = 1;
  chain.stages[0].gradient_bytes = 0;
  chain.stages[1].gradient_bytes = 100;
  chain.stages[1].forward_overhead_bytes = 100;
  EXPECT_EQ(StoreAllPeakBytes(chain), 103);
  const auto answer = AnswerRequest({chain, Memory(1000), "revolve", {}}, {});
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(answer->minimum_memory_bytes, 203);
  EXPECT_EQ(answer->outcome, Outcome::kOptimal);
  const auto at_least = AnswerRequest({chain, Memory(203), "revolve", {}}, {});
  EXPECT_EQ(at_least->outcome, Outcome::kOptimal);
  FrontierRequest request;
  request.chain = chain;
  request.solver = "revolve";
  const auto frontier = FindFrontier(request, {});
  ASSERT_THAT(frontier, IsOk());
  ASSERT_EQ(frontier->points.size(), 1);
  EXPECT_EQ(frontier->points[0].outcome, Outcome::kOptimal);
}

}  // namespace
}  // namespace stowage
