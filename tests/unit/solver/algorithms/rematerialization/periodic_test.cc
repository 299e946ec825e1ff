#include "solver/algorithms/rematerialization/periodic.h"

#include <gtest/gtest.h>

#include "solver/algorithms/rematerialization/store_all.h"
#include "solver/solve/answer_request.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

TEST(PeriodicSchedule, CutsAsCheckpointSequentialDoes) {
  // 5 stages in 2 segments: 2 stages, then the 3 that are left and the loss, saved.
  EXPECT_EQ(PeriodicSchedule(EqualChain(5), 2), Ops("C1 D2 S3 S4 S5 S6 B6 B5 B4 B3 S1 S2 B2 B1"));
  EXPECT_EQ(PeriodicSchedule(EqualChain(3), 3), Ops("C1 C2 S3 S4 B4 B3 S2 B2 S1 B1"));
  EXPECT_EQ(PeriodicSchedule(EqualChain(4), 1), StoreAllSchedule(EqualChain(4)));
}

TEST(PeriodicSchedule, CutsAroundNoRecomputeStages) {
  Chain chain = EqualChain(6);
  chain.stages[1].no_recompute = true;
  EXPECT_EQ(PeriodicSchedule(chain, 2), Ops("C1 S2 C3 S4 S5 S6 S7 B7 B6 B5 B4 S3 B3 B2 S1 B1"));
  chain.stages[0].no_recompute = chain.stages[2].no_recompute = true;
  EXPECT_EQ(PeriodicSchedule(chain, 2), StoreAllSchedule(chain));
}

TEST(Periodic, TakesTheFastestCountThatFits) {
  // Ten stages of 30 saved, 10 output. Storing all needs 330; two segments of 5 keep 5 x 30.
  const auto ask = [](int64_t memory, int segments) {
    return AnswerRequest({EqualChain(10), Memory(memory), "periodic", {.segments = segments}}, {});
  };
  const auto roomy = ask(1000, 0);
  ASSERT_THAT(roomy, IsOk());
  EXPECT_EQ(roomy->prediction.recompute_seconds, 0);
  EXPECT_EQ(roomy->outcome, Outcome::kOptimal);  // it reaches the lower bound
  const auto tight = ask(160, 0);
  ASSERT_THAT(tight, IsOk());
  EXPECT_EQ(tight->outcome, Outcome::kFeasible);
  EXPECT_EQ(tight->limit, Limit::kHeuristic);
  for (int segments = 1; segments <= 10; ++segments) {
    const auto fixed = ask(160, segments);
    ASSERT_THAT(fixed, IsOk());
    if (fixed->outcome == Outcome::kInfeasible) continue;
    EXPECT_GE(fixed->prediction.makespan_seconds, tight->prediction.makespan_seconds) << segments;
    EXPECT_EQ(fixed->schedule, PeriodicSchedule(EqualChain(10), segments));
  }
}

TEST(Periodic, NamesTheLeastMemoryOfItsCounts) {
  const auto infeasible = AnswerRequest({EqualChain(10), Memory(10), "periodic", {}}, {});
  ASSERT_THAT(infeasible, IsOk());
  EXPECT_EQ(infeasible->outcome, Outcome::kInfeasible);
  const int64_t least = *infeasible->minimum_memory_bytes;
  EXPECT_EQ(AnswerRequest({EqualChain(10), Memory(least), "periodic", {}}, {})->outcome,
            Outcome::kFeasible);
  EXPECT_EQ(AnswerRequest({EqualChain(10), Memory(least - 1), "periodic", {}}, {})->outcome,
            Outcome::kInfeasible);
}

}  // namespace
}  // namespace stowage
