// Time, memory and validity of schedules that run stages in graph mode. Figures computed by hand.
#include "solver/model/modes.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "solver/bounds/memory_range.h"
#include "solver/simulator/explain.h"
#include "solver/simulator/simulator.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Four stages and the loss (stage 5). Eager: forward 1 s, backward 2 s, output 10, saved 30 bytes.
// Stages 2 and 3 are fused in graph mode: forward 0.5 s, backward 1 s, saved 40 bytes, 7 bytes of
// overhead forward and 3 backward; stage 4 alone: 0.75 s, 1.5 s, 15 bytes. Entering takes 0.25
// s.
Chain FusedChain() {
  Chain chain = EqualChain(4);
  chain.graph_entry_seconds = 0.25;
  chain.stages[1].fusion_group = chain.stages[2].fusion_group = "conv-relu";
  chain.stages[1].graph = {.forward_seconds = 0.25, .saved_bytes = 10, .forward_overhead_bytes = 7};
  chain.stages[2].graph = {.forward_seconds = 0.25,
                           .backward_seconds = 1,
                           .saved_bytes = 30,
                           .forward_overhead_bytes = 4,
                           .backward_overhead_bytes = 3};
  chain.stages[3].graph = {.forward_seconds = 0.75, .backward_seconds = 1.5, .saved_bytes = 15};
  return chain;
}

class Modes : public testing::Test {
 protected:
  Modes() { platform_.offload_bytes_per_second = 10; }

  Simulation Run(const char* operations) {
    absl::StatusOr<Simulation> result = Simulate(chain_, platform_, Ops(operations), &timeline_);
    EXPECT_THAT(result, IsOk()) << operations;
    return result.ok() ? *result : Simulation{};
  }
  void ExpectError(const char* operations, const char* message) {
    EXPECT_THAT(Simulate(chain_, platform_, Ops(operations)),
                Fails(absl::StatusCode::kInvalidArgument, HasSubstr(message)))
        << operations;
  }
  int64_t MemoryOf(size_t operation) const { return timeline_[operation].memory_bytes; }

  Chain chain_ = FusedChain();
  Platform platform_ = Memory(1000);
  std::vector<TimelineEntry> timeline_;
};

TEST_F(Modes, UnitsAreGroupsAndSingleStages) {
  EXPECT_THAT(ChainUnits(chain_), ElementsAre(Unit{1, 1, false}, Unit{2, 3, true}, Unit{4, 4, true},
                                              Unit{5, 5, false}));
  EXPECT_TRUE(ChainUnits(chain_).HasGroups());
  EXPECT_FALSE(ChainUnits(EqualChain(4)).HasGroups());
  chain_.stages[2].control_flow = true;
  EXPECT_THAT(ChainUnits(chain_), ElementsAre(Unit{1, 1, false}, Unit{2, 3, false},
                                              Unit{4, 4, true}, Unit{5, 5, false}));
  EXPECT_TRUE(ChainUnits(chain_).HasGraph());
  chain_.stages[3].graph.reset();
  EXPECT_FALSE(ChainUnits(chain_).HasGraph());
}

TEST_F(Modes, AGroupTakesItsSumsAndItsLargestOverheads) {
  const Stage fused = GraphStage(chain_, {2, 3, true});
  EXPECT_EQ(fused.forward_seconds, 0.5);
  EXPECT_EQ(fused.backward_seconds, 1);
  EXPECT_EQ(fused.output_bytes, 10);
  EXPECT_EQ(fused.saved_bytes, 40);
  EXPECT_EQ(fused.forward_overhead_bytes, 7);
  EXPECT_EQ(fused.backward_overhead_bytes, 3);
}

TEST_F(Modes, AGraphOperationTakesGraphCostsAndEnteringComesFirst) {
  const Simulation result = Run("S1 gS2-3 gS4 S5 B5 gB4 gB2-3 B1");
  EXPECT_EQ(timeline_[1].end_seconds, 1 + 0.25 + 0.5);
  EXPECT_EQ(timeline_[2].end_seconds, 1 + 0.25 + 0.5 + 0.75);
  EXPECT_EQ(result.prediction.makespan_seconds, 3 + 0.25 + 1.5 + 2.25);
  EXPECT_EQ(result.prediction.compute_seconds, result.prediction.makespan_seconds);
  EXPECT_EQ(result.prediction.recompute_seconds, 0);
  EXPECT_EQ(result.prediction.overhead, 0);  // nothing is faster
  EXPECT_EQ(MemoryOf(0), 10 + 30);
  EXPECT_EQ(MemoryOf(1), 40 + 40 + 7);
  EXPECT_EQ(MemoryOf(2), 80 + 15);
  EXPECT_EQ(MemoryOf(6), 10 + 30 + 40 + 10 + 10 + 3);  // gradients of 3 and 1
  EXPECT_EQ(MemoryOf(7), 10 + 30 + 10 + 10);
}

TEST_F(Modes, EveryRunOfNeighboursIsEnteredOnce) {
  EXPECT_EQ(Run("S1 gS2-3 S4 S5 B5 B4 gB2-3 B1").prediction.makespan_seconds, 6 + 1.5 + 0.25);
  chain_.stages[0].graph = GraphCosts{1, 2, 30, 0, 0};
  EXPECT_EQ(Run("gS1 S2 S3 gS4 S5 B5 gB4 B3 B2 gB1").prediction.makespan_seconds,
            6 + 3 + 2.25 + 2 * 0.25);
  EXPECT_EQ(Run("gS1 gS2-3 gS4 S5 B5 gB4 gB2-3 gB1").prediction.makespan_seconds,
            3 + 1.5 + 2.25 + 0.25);
}

TEST_F(Modes, AGroupRunsAgainAsAWhole) {
  const Simulation result = Run("C1 gD2-3 gS4 S5 B5 gB4 S1 gS2-3 gB2-3 B1");
  EXPECT_EQ(result.prediction.recompute_seconds, 1.5);
  EXPECT_EQ(result.prediction.makespan_seconds, 3 + 0.25 + 1.5 + 2.25 + 1.5);
  EXPECT_EQ(MemoryOf(1), 10 + 10 + 10 + 7);
}

TEST_F(Modes, WhatAGroupSavedMovesAsOne) {
  Run("S1 gS2-3 O3 gS4 R3 S5 B5 P3 gB4 gB2-3 B1");
  EXPECT_EQ(timeline_[2].end_seconds - timeline_[2].start_seconds, 4);  // 40 bytes
  ExpectError("S1 gS2-3 O2", "operations[2] OFFLOAD 2: there is no such value");
}

TEST_F(Modes, ErrorsNameTheUnitOfAGraphOperation) {
  ExpectError("gS1", "operations[0] FORWARD_SAVE 1 graph: stage 1 cannot run in graph mode");
  ExpectError("S1 gS3",
              "stages 2 to 3 are one unit in graph mode: set first_stage to 2 and stage to 3");
  ExpectError("S1 gS2-4", "stage 4 is one unit in graph mode");
  ExpectError("S1 S2-3", "operations[1] FORWARD_SAVE 2-3: only an operation in graph mode");
}

TEST_F(Modes, AreOfForwardsAndBackwardsOnly) {
  ExpectError("S1 gO1", "operations[1] OFFLOAD 1 graph: only a forward or a backward has a mode");
  ExpectError("S1 gS2-3 O2-3", "only a forward or a backward has a mode or a first_stage");
}

TEST_F(Modes, OfAStageDoNotChangeWithinASchedule) {
  ExpectError("S1 gS2-3 gS4 S5 B5 gB4 B3",
              "operations[6] BACKWARD 3: stages 2 to 3 ran in graph mode before");
  ExpectError("S1 S2 S3 gS4 S5 B5 gB4 gB2-3",
              "operations[7] BACKWARD 2-3 graph: stages 2 to 3 ran in eager mode before");
}

TEST_F(Modes, ErrorsUseTheChainsNumbers) {
  ExpectError("gS2-3", "operations[0] FORWARD_SAVE 2-3 graph: value 1 is not on device");
  ExpectError("S1 gS4", "value 3 is not on device");
  ExpectError("S1 gS2-3 gB2-3",
              "operations[2] BACKWARD 2-3 graph: gradient 3 is missing: BACKWARD 4 has not run");
  ExpectError("S1 gS2-3 gS4 S5 B5", "operations[5] END: the last gradient is missing: BACKWARD 4");
  ExpectError("S9 gS2-3",
              "operations[0] FORWARD_SAVE 9: there is no such stage; they go from 1 to 5");
  chain_.stages[2].no_recompute = true;
  ExpectError("S1 gC2-3", "stage 3 is no_recompute");
}

TEST_F(Modes, AnExplanationSpeaksOfTheChainsStages) {
  const Schedule schedule = Ops("C1 gD2-3 gS4 S5 B5 gB4 S1 gS2-3 gB2-3 B1");
  ASSERT_THAT(Simulate(chain_, platform_, schedule, &timeline_), IsOk());
  const ChainUnits units(chain_);
  const auto executed = ExecutedSchedule::Of(chain_, units, schedule);
  ASSERT_TRUE(executed.ok()) << executed.status();
  const Explanation explanation = Explain(*executed, platform_, timeline_);
  ASSERT_EQ(explanation.stages.size(), 4);
  EXPECT_EQ(explanation.stages[0].mode, Mode::kEager);
  EXPECT_EQ(explanation.stages[1].fused_into, 3);
  EXPECT_EQ(explanation.stages[1].recomputed, 1);
  EXPECT_EQ(explanation.stages[1].first_sweep, StageFate::FirstSweep::kNothing);
  EXPECT_EQ(explanation.stages[2].fused_into, 0);
  EXPECT_EQ(explanation.stages[2].mode, Mode::kGraph);
  EXPECT_EQ(explanation.stages[2].first_sweep, StageFate::FirstSweep::kOutput);
  EXPECT_EQ(explanation.stages[3].stage, 4);
  EXPECT_EQ(explanation.peaks[0].operation, 8);
  EXPECT_EQ(explanation.peaks[0].holdings[0].kind, Holding::Kind::kSaved);
  EXPECT_EQ(explanation.peaks[0].holdings[0].stage, 3);
}

TEST_F(Modes, WithAllMemoryEachStageRunsInTheFasterOne) {
  EXPECT_THAT(FastestModes(chain_, ChainUnits(chain_)), ElementsAre(false, true, true, false));
  EXPECT_EQ(ComputeSeconds(chain_), 3 + 1.5 + 2.25 + 0.25);
  chain_.graph_entry_seconds = 2.5;  // the group gains 4.5 s, with stage 4 another 0.75
  EXPECT_THAT(FastestModes(chain_, ChainUnits(chain_)), ElementsAre(false, true, true, false));
  chain_.graph_entry_seconds = 5.5;
  EXPECT_THAT(FastestModes(chain_, ChainUnits(chain_)), ElementsAre(false, false, false, false));
  EXPECT_EQ(ComputeSeconds(chain_), 12);
}

TEST_F(Modes, TheFloorOfMemoryIsThatOfTheSmallerMode) {
  // Eager backwards need 10 + 30 + 10 + 10; that of the group in graph mode 10 + 40 + 20 + 3.
  EXPECT_EQ(FloorOfMemory(chain_).bytes, 60);
  for (Stage& stage : chain_.stages) stage.saved_bytes = 300;
  chain_.stages[0].saved_bytes = 10;
  EXPECT_EQ(FloorOfMemory(chain_).bytes, 73);
  EXPECT_EQ(OperationName(FloorOfMemory(chain_).operation), "BACKWARD 2-3 graph");
}

TEST_F(Modes, TheFloorOfMemoryKnowsThatAStageMaySaveLessInGraphMode) {
  chain_.stages[3].no_recompute = true;  // the loss reads what it saves
  chain_.stages[3].saved_bytes = 1000;
  EXPECT_EQ(FloorOfMemory(chain_).bytes, 60);
}

}  // namespace
}  // namespace stowage
