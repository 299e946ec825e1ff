#include "solver/algorithms/rematerialization/periodic.h"

#include <gtest/gtest.h>

#include "solver/algorithms/rematerialization/store_all.h"
#include "solver/bounds/memory_range.h"
#include "solver/simulator/simulator.h"
#include "solver/solve/answer_request.h"
#include "tests/support/chains.h"
#include "tests/support/network_chains.h"
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

TEST(HalvingSchedule, HalvesWhatIsLeftAndWhatIsRecomputed) {
  EXPECT_EQ(HalvingSchedule(EqualChain(4), 2), Ops("C1 D2 C3 S4 S5 B5 B4 S3 B3 S1 S2 B2 B1"));
  EXPECT_EQ(HalvingSchedule(EqualChain(4), 1), Ops("C1 D2 C3 C4 S5 B5 S4 B4 S3 B3 C1 S2 B2 S1 B1"));
  EXPECT_EQ(HalvingSchedule(EqualChain(4), 5), StoreAllSchedule(EqualChain(4)));
  Chain chain = EqualChain(4);
  chain.stages[1].no_recompute = true;
  EXPECT_EQ(HalvingSchedule(chain, 1), Ops("C1 S2 C3 C4 S5 B5 S4 B4 S3 B3 B2 S1 B1"));
}

TEST(HalvingSchedule, TakesLogarithmicallyManyCheckpoints) {
  const Chain chain = EqualChain(1000);
  const auto simulation = Simulate(chain, Memory(INT64_MAX), HalvingSchedule(chain, 1));
  ASSERT_THAT(simulation, IsOk());
  // An output of 10 for each of at most 10 halvings; a stage itself takes at most 60.
  EXPECT_LE(simulation->prediction.peak_memory_bytes, 10 * 10 + 60);
  const auto periodic = Simulate(chain, Memory(INT64_MAX), PeriodicSchedule(chain, 50));
  ASSERT_THAT(periodic, IsOk());
  EXPECT_GT(periodic->prediction.peak_memory_bytes, 1000);
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
  EXPECT_EQ(tight->guarantee, Guarantee::kHeuristic);
  for (int segments = 1; segments <= 10; ++segments) {
    const auto fixed = ask(160, segments);
    ASSERT_THAT(fixed, IsOk());
    if (fixed->outcome == Outcome::kInfeasible) continue;
    EXPECT_GE(fixed->prediction.makespan_seconds, tight->prediction.makespan_seconds) << segments;
    EXPECT_EQ(fixed->schedule, PeriodicSchedule(EqualChain(10), segments));
  }
}

// A solve for one budget skips counts that cannot win; one for several does not.
TEST(Periodic, SkipsOnlyCountsThatCannotWin) {
  for (Chain chain : {ResnetLikeNetwork(53), DensenetLikeNetwork(40), EqualChain(31)}) {
    chain.stages[7].no_recompute = chain.stages[20].no_recompute = true;
    const int64_t high = StoreAllPeakBytes(chain);
    SolveContext context;
    context.lowest_bytes = 0;
    const Instance most = Instance::Exact({chain, Memory(high), "periodic", {}});
    const auto all = MakePeriodic()->Solve(most, context);
    ASSERT_THAT(all, IsOk());
    for (int percent = 1; percent < 100; ++percent) {
      const int64_t budget = high / 100 * percent;
      const Instance instance = Instance::Exact({chain, Memory(budget), "periodic", {}});
      const auto one = MakePeriodic()->Solve(instance, {});
      ASSERT_THAT(one, IsOk());
      const auto expected = (*all)->ScheduleWithin(budget, {});
      const auto found = (*one)->ScheduleWithin(budget, {});
      ASSERT_EQ(found->has_value(), expected->has_value()) << percent;
      if (!found->has_value()) continue;
      EXPECT_EQ((*found)->schedule, (*expected)->schedule) << percent;
    }
  }
}

TEST(Periodic, NamesTheLeastMemoryOfItsCounts) {
  const auto infeasible = AnswerRequest({EqualChain(10), Memory(10), "periodic", {}}, {});
  ASSERT_THAT(infeasible, IsOk());
  EXPECT_EQ(infeasible->outcome, Outcome::kInfeasible);
  const int64_t least = *infeasible->minimum_memory_bytes;
  EXPECT_NE(AnswerRequest({EqualChain(10), Memory(least), "periodic", {}}, {})->outcome,
            Outcome::kInfeasible);
  EXPECT_EQ(AnswerRequest({EqualChain(10), Memory(least - 1), "periodic", {}}, {})->outcome,
            Outcome::kInfeasible);
}

}  // namespace
}  // namespace stowage
