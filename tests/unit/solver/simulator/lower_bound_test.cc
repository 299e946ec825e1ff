#include "solver/simulator/lower_bound.h"

#include <gtest/gtest.h>

#include "solver/algorithms/store_all.h"
#include "solver/simulator/simulator.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

TEST(LowerBound, IsOneForwardAndOneBackwardOfEachStage) {
  Chain chain = EqualChain(3);
  chain.loss.forward_seconds = 0.5;
  EXPECT_EQ(LowerBoundSeconds(chain), 9.5);
}

TEST(FloorOfMemory, NamesTheOperationThatNeedsMost) {
  Chain chain = EqualChain(3);
  // BACKWARD 2: ā2 30, a1 10, δ2 10, δ1 10.
  EXPECT_EQ(FloorOfMemory(chain).bytes, 60);
  chain.stages[1].forward_overhead_bytes = 25;  // FORWARD_SAVE 2: a1 10, ā2 30, 25
  EXPECT_EQ(FloorOfMemory(chain).bytes, 65);
  EXPECT_EQ(FloorOfMemory(chain).operation, (Operation{OperationKind::kForwardSave, 2}));
  chain.stages[2].backward_overhead_bytes = 7;  // BACKWARD 3: 60 + 7
  EXPECT_EQ(FloorOfMemory(chain).bytes, 67);
  EXPECT_EQ(FloorOfMemory(chain).operation, (Operation{OperationKind::kBackward, 3}));
}

TEST(FloorOfMemory, ReadsAllThatANoRecomputeStageSaves) {
  Chain chain = EqualChain(3);
  chain.stages[0].no_recompute = true;  // value 1 is always ā1
  EXPECT_EQ(FloorOfMemory(chain).bytes, 80);
}

// With everything else offloaded the floor is reached: no bound of this form can be higher.
TEST(FloorOfMemory, IsReachedByASchedule) {
  const Chain chain = EqualChain(2);
  Platform platform = Memory(FloorOfMemory(chain).bytes);
  platform.offload_bytes_per_second = 1;
  const auto simulation = Simulate(chain, platform, Ops("C1 O0 R0 S2 O1 R1 S3 B3 P1 B2 P0 S1 B1"));
  ASSERT_THAT(simulation, IsOk());
  EXPECT_TRUE(simulation->feasible());
}

TEST(StoreAllPeak, IsWhatTheSimulatorSays) {
  Chain chain = EqualChain(4);
  chain.stages[2].forward_overhead_bytes = 100;
  chain.stages[1].backward_overhead_bytes = 300;
  chain.loss.saved_bytes = 17;
  const auto simulation = Simulate(chain, Memory(0), StoreAllSchedule(chain));
  ASSERT_THAT(simulation, IsOk());
  EXPECT_EQ(StoreAllPeakBytes(chain), simulation->prediction.peak_memory_bytes);
}

}  // namespace
}  // namespace stowage
