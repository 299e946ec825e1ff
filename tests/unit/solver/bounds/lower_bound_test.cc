#include "solver/bounds/lower_bound.h"

#include <gtest/gtest.h>

#include "solver/algorithms/rematerialization/store_all.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/modes.h"
#include "solver/simulator/simulator.h"
#include "solver/solve/answer_request.h"
#include "tests/support/chains.h"
#include "tests/support/profiles.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

// Three stages that store 30 bytes each; BACKWARD 3 needs most: 120 bytes in all.
class LowerBound : public testing::Test {
 protected:
  double Seconds() const { return LowerBoundSeconds(chain_, platform_); }

  // The bound is reduced by the rounding of sums, so compare within that tolerance.
  void ExpectSeconds(double expected) const {
    EXPECT_LE(Seconds(), expected);
    EXPECT_GE(Seconds(), expected * (1 - 1e-12));
  }

  void ForbidRecomputation() {
    for (Stage& stage : chain_.stages) stage.no_recompute = true;
  }

  Chain chain_ = EqualChain(3);
  Platform platform_ = Memory(120);
};

TEST_F(LowerBound, IsOneForwardAndOneBackwardOfEachStageWhereMemoryIsAmple) {
  chain_.loss.forward_seconds = 0.5;
  EXPECT_EQ(Seconds(), 9.5);
  platform_.offload_bytes_per_second = 1;
  EXPECT_EQ(Seconds(), 9.5);
}

TEST_F(LowerBound, CountsWholeForwardsOfWhatDoesNotFit) {
  platform_.memory_bytes = 119;
  ExpectSeconds(10);
  // BACKWARD 3 exceeds the memory by 40 bytes: the 30 of value 1, and value 2 except the 10 that it
  // reads.
  platform_.memory_bytes = 80;
  ExpectSeconds(11);
}

TEST_F(LowerBound, LetsTheCheapestForwardsRunAgain) {
  chain_.stages[0].forward_seconds = 5;  // frees 30 bytes at BACKWARD 3
  chain_.stages[1].forward_seconds = 3;  // frees 20
  platform_.memory_bytes = 105;
  ExpectSeconds(15 + 3);
  platform_.memory_bytes = 95;
  ExpectSeconds(15 + 5);
}

TEST_F(LowerBound, LetsEveryStageSaveTheLeast) {
  platform_.memory_bytes = 80;
  ExpectSeconds(11);
  // BACKWARD 3 exceeds the memory by 20 bytes then: value 1, of 20 bytes.
  chain_.stages[0].save_options = {{"", 20, 7, 0}};
  chain_.stages[1].save_options = {{"", 20, 7, 0}, {"", 25, 6, 0}};
  ExpectSeconds(10);
  chain_.stages[2].save_options = {{"", 10, 7, 0}};
  EXPECT_EQ(Seconds(), 9);
}

TEST_F(LowerBound, CountsOverheads) {
  chain_.stages[1].backward_overhead_bytes = 31;  // BACKWARD 2: 90 bytes and these
  ExpectSeconds(10);
  chain_.stages[1].backward_overhead_bytes = 0;
  chain_.stages[2].forward_overhead_bytes = 21;  // FORWARD_SAVE 3: 100 bytes and these
  ExpectSeconds(10);
}

// BACKWARD 3 exceeds the memory by 20 bytes, so value 1 leaves: FORWARD_SAVE 1 ends at 1, its copy
// at 4; BACKWARD 3 takes until 6, the copy back until 9, BACKWARD 2 and 1 until 13.
TEST_F(LowerBound, WaitsForTransfersBeforeAndAfter) {
  ForbidRecomputation();
  platform_.memory_bytes = 100;
  platform_.offload_bytes_per_second = 10;
  ExpectSeconds(13);
  platform_.transfer_latency_seconds = 0.5;
  ExpectSeconds(14);
  platform_.prefetch_bytes_per_second = 5;
  ExpectSeconds(17);
}

TEST_F(LowerBound, TakesWhatCostsLessOfTransfersAndForwards) {
  platform_.memory_bytes = 100;
  platform_.offload_bytes_per_second = 10;
  ExpectSeconds(10);  // 13 by transfers alone
  platform_.offload_bytes_per_second = 60;
  ExpectSeconds(9.5);  // value 1 comes back between BACKWARD 3 and BACKWARD 2
}

// BACKWARD 6 leaves no room for what the unit saved, which the schedule sends away as one.
TEST_F(LowerBound, ChargesAUnitInGraphModeNoLatencyForEachOfItsStages) {
  chain_ = EqualChain(6);
  for (int l = 1; l <= 4; ++l) {
    Stage& stage = chain_.stages[static_cast<size_t>(l) - 1];
    stage.fusion_group = "unit";
    stage.graph = GraphCosts{1, 2, 10, 0, 0};
  }
  ForbidRecomputation();
  chain_.stages[4].saved_bytes = 10;
  chain_.stages[5].backward_overhead_bytes = 100;
  platform_.memory_bytes = 170;
  platform_.offload_bytes_per_second = 1e9;
  platform_.transfer_latency_seconds = 100;
  const auto simulation =
      Simulate(chain_, platform_, Ops("gS1-4 S5 O4 R4 S6 S7 B7 B6 P4 B5 gB1-4"));
  ASSERT_THAT(simulation, IsOk());
  EXPECT_TRUE(simulation->feasible());
  EXPECT_LE(Seconds(), simulation->prediction.makespan_seconds);
}

TEST_F(LowerBound, RespectsWhatMayNotLeave) {
  platform_.memory_bytes = 100;
  platform_.offload_bytes_per_second = 1e9;
  EXPECT_LT(Seconds(), 9.1);
  platform_.host_memory_bytes = 10;  // enough for the input only
  ExpectSeconds(10);
  platform_.host_memory_bytes = 0;
  chain_.stages[0].no_offload = true;
  ExpectSeconds(10);
}

// Stage 2 runs only once and drops nothing: value 1 stays as a^1, and its recomputation frees 20
// bytes. BACKWARD 3 exceeds the memory by 25, so the input leaves as well, at 10, and returns from
// 12 to 22, before BACKWARD 1.
TEST_F(LowerBound, KeepsWhatAStageReadsThatRunsOnce) {
  platform_.memory_bytes = 95;
  platform_.offload_bytes_per_second = 1;
  ExpectSeconds(10);
  chain_.stages[1].no_recompute = true;
  ExpectSeconds(24);
}

TEST_F(LowerBound, OffloadsNothingWithoutAPrefetchBandwidth) {
  platform_.memory_bytes = 80;
  platform_.offload_bytes_per_second = 1e9;
  platform_.prefetch_bytes_per_second = 0;
  ExpectSeconds(11);
}

// Of the operations of all stages, only one does not fit.
TEST_F(LowerBound, FindsTheOneStageThatExceedsTheMemory) {
  for (const int stages : {30, 97, 300}) {
    chain_ = EqualChain(stages);
    platform_.memory_bytes = StoreAllPeakBytes(chain_);
    for (int l = 2; l <= stages; ++l) {
      Stage& stage = chain_.stages[static_cast<size_t>(l) - 1];
      stage.backward_overhead_bytes = platform_.memory_bytes - 30 * (l + 1) + 10;
      ExpectSeconds(3 * stages + 1);
      stage.backward_overhead_bytes = 0;
    }
  }
}

// Only 5 MiB are free beside BACKWARD 28, where 100 MiB of other values wait. No other operation
// exceeds the memory.
TEST(LowerBoundOfProfile, CountsWhatALargeLastStageDisplaces) {
  const Chain chain = LoadProfile("cases/dnnpartitioning-bert24");
  const int64_t low = FloorOfMemory(chain).bytes;
  const Platform platform = Memory(low + (StoreAllPeakBytes(chain) - low) / 20);
  const auto answer = AnswerRequest({chain, platform, "rotor", {}}, {});
  ASSERT_THAT(answer, IsOk());
  const double seconds = LowerBoundSeconds(chain, platform);
  EXPECT_GT(seconds, 1.3 * ComputeSeconds(chain));
  EXPECT_LE(seconds, answer->prediction.makespan_seconds);
  EXPECT_GT(seconds, 0.98 * answer->prediction.makespan_seconds);
}

// Within a fifth of the range, the values that routing saves and reads have to leave: recomputation
// cannot free them.
TEST(LowerBoundOfProfile, CountsWhatStagesThatRunOnceHold) {
  const Chain chain = LoadProfile("cases/analytic-qwen3moe");
  const int64_t low = FloorOfMemory(chain).bytes;
  Platform platform = Memory(low + (StoreAllPeakBytes(chain) - low) / 5);
  platform.offload_bytes_per_second = 12e9;
  const auto answer = AnswerRequest({chain, platform, "pofo", {}}, {});
  ASSERT_THAT(answer, IsOk());
  const double seconds = LowerBoundSeconds(chain, platform);
  EXPECT_LE(seconds, answer->prediction.makespan_seconds);
  EXPECT_GT(seconds, 0.9 * answer->prediction.makespan_seconds);
}

TEST_F(LowerBound, IsReachedByASchedule) {
  ForbidRecomputation();
  platform_.memory_bytes = 100;
  platform_.offload_bytes_per_second = 10;
  const auto simulation =
      SimulateWithBound(chain_, platform_, Ops("S1 O1 S2 S3 S4 R1 B4 B3 P1 B2 B1"));
  ASSERT_THAT(simulation, IsOk());
  EXPECT_TRUE(simulation->feasible());
  EXPECT_EQ(simulation->prediction.makespan_seconds, 13);
  EXPECT_EQ(simulation->prediction.gap, 0);
}

TEST_F(LowerBound, IsFiniteWhereNothingFits) {
  platform_.memory_bytes = 0;
  EXPECT_GE(Seconds(), 9);
  EXPECT_LT(Seconds(), 100);
}

TEST_F(LowerBound, OfAScheduleOverALimitIsThatOfItsOwnPeaks) {
  platform_.memory_bytes = 80;
  const auto simulation = SimulateWithBound(chain_, platform_, StoreAllSchedule(chain_));
  ASSERT_THAT(simulation, IsOk());
  EXPECT_FALSE(simulation->feasible());
  EXPECT_EQ(simulation->prediction.lower_bound_seconds, 9);
  EXPECT_EQ(simulation->prediction.gap, 0);
}

TEST_F(LowerBound, IsNotFilledInBySimulate) {
  const auto simulation = Simulate(chain_, platform_, StoreAllSchedule(chain_));
  ASSERT_THAT(simulation, IsOk());
  EXPECT_EQ(simulation->prediction.makespan_seconds, 9);
  EXPECT_EQ(simulation->prediction.lower_bound_seconds, 0);
}

TEST(Excess, IsTheFractionBeyond) {
  EXPECT_EQ(RelativeExcess(3, 2), 0.5);
  EXPECT_EQ(RelativeExcess(1, 0), 0);
  EXPECT_EQ(RelativeExcess(0.1 + 0.2, 0.3), 0);
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

TEST(FloorOfMemory, LeavesOutInputsThatNoBackwardReads) {
  Chain chain = EqualChain(3);
  for (Stage& stage : chain.stages) stage.input_unread = true;
  // BACKWARD 2: ā2 30, δ2 10, δ1 10.
  EXPECT_EQ(FloorOfMemory(chain).bytes, 50);
  chain.stages[1].no_recompute = true;  // ā2 is there during BACKWARD 3
  EXPECT_EQ(FloorOfMemory(chain).bytes, 80);
}

TEST(FloorOfMemory, ReadsAllThatANoRecomputeStageSaves) {
  Chain chain = EqualChain(3);
  chain.stages[0].no_recompute = true;  // value 1 is always ā1
  EXPECT_EQ(FloorOfMemory(chain).bytes, 80);
}

// M_low is attained if everything else is offloaded, so no higher bound of this form is valid.
TEST(FloorOfMemory, IsThatOfTheWayToSaveThatNeedsLeast) {
  Chain chain = EqualChain(2);
  // BACKWARD 2 needs a1 10 + ā2 30 + gradients 20; in the other ways 10 + 20 + 20 + 9, 10 + 12
  // + 38.
  chain.stages[1].save_options = {{"", 12, 3, 18}, {"", 20, 3, 9}};
  EXPECT_EQ(FloorOfMemory(chain).bytes, 60);
  chain.stages[0].save_options = {{"", 10, 3, 0}};
  const MemoryFloor floor = FloorOfMemory(chain);
  EXPECT_EQ(floor.bytes, 59);
  EXPECT_EQ(floor.operation, (Operation{OperationKind::kBackward, 2}));
  // A stage that runs once has been saved, in one way or another.
  chain.stages[0].no_recompute = true;
  chain.stages[0].save_options = {{"", 11, 3, 0}};
  EXPECT_EQ(FloorOfMemory(chain).bytes, 60);
  chain.stages[1].forward_overhead_bytes = 100;
  EXPECT_EQ(FloorOfMemory(chain).operation,
            (Operation{.kind = OperationKind::kForwardSave, .stage = 2, .save_option = 1}));
}

TEST(FloorOfMemory, IsReachedByASchedule) {
  const Chain chain = EqualChain(2);
  Platform platform = Memory(FloorOfMemory(chain).bytes);
  platform.offload_bytes_per_second = 1;
  const auto simulation =
      SimulateWithBound(chain, platform, Ops("C1 O0 R0 S2 O1 R1 S3 B3 P1 B2 P0 S1 B1"));
  ASSERT_THAT(simulation, IsOk());
  EXPECT_TRUE(simulation->feasible());
}

TEST(StoreAllPeak, IsWhatTheSimulatorSays) {
  Chain chain = EqualChain(4);
  chain.stages[2].forward_overhead_bytes = 100;
  chain.stages[1].backward_overhead_bytes = 300;
  chain.loss.saved_bytes = 17;
  const auto simulation = SimulateWithBound(chain, Memory(0), StoreAllSchedule(chain));
  ASSERT_THAT(simulation, IsOk());
  EXPECT_EQ(StoreAllPeakBytes(chain), simulation->prediction.peak_memory_bytes);
}

}  // namespace
}  // namespace stowage
