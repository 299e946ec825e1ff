#include "solver/algorithms/flat/flat_plan.h"

#include <gtest/gtest.h>

#include "solver/algorithms/rematerialization/periodic.h"
#include "solver/algorithms/rematerialization/store_all.h"
#include "solver/simulator/simulator.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Piece kSaved12{1, 2, false};
const Piece kSegment12{1, 2, true};
const Piece kSegment34{3, 4, true};
const Piece kSegment23{2, 3, true};

TEST(FlatSchedule, RecomputesASegmentRightBeforeItsBackward) {
  EXPECT_EQ(FlatSchedule(EqualChain(4), {kSaved12, kSegment34}),
            Ops("S1 S2 C3 D4 S5 B5 S3 S4 B4 B3 B2 B1"));
  EXPECT_EQ(FlatSchedule(EqualChain(4), {kSegment12, kSegment34}),
            Ops("C1 D2 C3 D4 S5 B5 S3 S4 B4 B3 S1 S2 B2 B1"));
  EXPECT_EQ(FlatSchedule(EqualChain(4), {{1, 4, false}}), StoreAllSchedule(EqualChain(4)));
}

TEST(FlatSchedule, TakesWhatTheSimulatorSays) {
  // Stages of 30 saved, 10 output. The second segment's backward has both inputs, two saved stages
  // and two gradients: 10 + 10 + 60 + 10 + 10.
  const auto simulation =
      Simulate(EqualChain(4), Memory(1000), FlatSchedule(EqualChain(4), {kSegment12, kSegment34}));
  ASSERT_THAT(simulation, IsOk());
  EXPECT_EQ(simulation->prediction.peak_memory_bytes, 100);
  EXPECT_EQ(simulation->prediction.makespan_seconds, 4 * 3 + 4);
}

TEST(OffloadSchedule, OverlapsCopiesWithTheNextPiece) {
  const OffloadPlan plan{
      {{1, 1, false}, kSegment23, {4, 4, false}, {5, 5, true}}, {true, true, false, false}, 1};
  EXPECT_EQ(OffloadSchedule(EqualChain(5), plan),
            Ops("S1 O1 C2 D3 R1 O3 S4 R3 C5 S6 B6 P3 S5 B5 P1 B4 S2 S3 B3 B2 B1"));
}

TEST(OffloadSchedule, KeepsALongDistanceWithinTheStep) {
  OffloadPlan plan{{{1, 1, false}, {2, 2, false}, {3, 3, false}}, {true, true, false}, 2};
  EXPECT_EQ(OffloadSchedule(EqualChain(3), plan), Ops("S1 O1 S2 O2 S3 R1 R2 S4 P2 P1 B4 B3 B2 B1"));
  plan.ahead = 8;
  EXPECT_EQ(OffloadSchedule(EqualChain(3), plan), Ops("S1 O1 S2 O2 S3 R1 R2 S4 P2 P1 B4 B3 B2 B1"));
}

TEST(OffloadSchedule, CopiesAWholeLayer) {
  Chain chain = EqualChain(4);
  chain.stages[1].no_recompute = true;
  const OffloadPlan plan{{{1, 3, true}, {4, 4, false}}, {true, false}, 1};
  EXPECT_EQ(OffloadSchedule(chain, plan),
            Ops("C1 S2 C3 O1 O2 O3 S4 R1 R2 R3 S5 P1 P2 P3 B5 B4 S3 B3 B2 S1 B1"));
}

TEST(OffloadSchedule, WithoutOffloadsIsTheFlatSchedule) {
  const std::vector<Piece> pieces = {kSaved12, kSegment34};
  EXPECT_EQ(OffloadSchedule(EqualChain(4), {pieces, {false, false}, 1}),
            FlatSchedule(EqualChain(4), pieces));
}

TEST(PiecesOf, IsTheInverse) {
  for (const std::vector<Piece>& pieces :
       std::vector<std::vector<Piece>>{{kSaved12, kSegment34},
                                       {kSegment12, kSegment34},
                                       {{1, 1, true}, {2, 3, false}, {4, 4, true}},
                                       {{1, 4, false}},
                                       {{1, 4, true}}}) {
    const auto read = PiecesOf(EqualChain(4), FlatSchedule(EqualChain(4), pieces));
    ASSERT_THAT(read, IsOk());
    EXPECT_EQ(*read, pieces);
  }
}

TEST(PiecesOf, JoinsSavedStages) {
  const auto read = PiecesOf(
      EqualChain(4), FlatSchedule(EqualChain(4), {{1, 1, false}, {2, 2, false}, kSegment34}));
  ASSERT_THAT(read, IsOk());
  EXPECT_THAT(*read, ElementsAre(kSaved12, kSegment34));
}

TEST(PiecesOf, ReadsSegmentsOfEqualLength) {
  const auto read = PiecesOf(EqualChain(5), PeriodicSchedule(EqualChain(5), 2));
  ASSERT_THAT(read, IsOk());
  EXPECT_THAT(*read, ElementsAre(kSegment12, Piece{3, 5, false}));
}

TEST(PiecesOf, NamesTheFirstOperationThatIsNotFlat) {
  const auto error = [](const Chain& chain, const Schedule& schedule) {
    const auto read = PiecesOf(chain, schedule);
    EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(read.status().message());
  };
  const Chain chain = EqualChain(4);
  // Nested: the second half of a segment before the first.
  EXPECT_THAT(error(chain, HalvingSchedule(chain, 1)),
              HasSubstr("operations[10] FORWARD_CHECKPOINT 1: a flat plan has FORWARD_SAVE 1"));
  EXPECT_THAT(error(chain, Ops("S1 S2 S3 S4 O1 S5")),
              HasSubstr("operations[4] OFFLOAD 1: a flat plan has FORWARD_SAVE 5"));
  EXPECT_THAT(error(chain, Ops("S1 S2")),
              HasSubstr("operations[2] END: a flat plan has FORWARD_SAVE 3"));
  EXPECT_THAT(error(chain, Ops("S1 X2 S3 S4 S5 B5 B4 B3 B2 B1")), HasSubstr("operations[1]"));
  EXPECT_THAT(error(chain, Ops("S1 D2 S3 S4 S5 B5 B4 B3 B2 B1")), HasSubstr("operations[1]"));
  EXPECT_THAT(error(chain, Ops("S1 S2 S3 gS4 S5 B5 gB4 B3 B2 B1")), HasSubstr("operations[3]"));
  Schedule longer = StoreAllSchedule(chain);
  longer.operations.push_back({OperationKind::kBackward, 1});
  EXPECT_THAT(error(chain, longer),
              HasSubstr("operations[10] BACKWARD 1: a flat plan has nothing there"));
}

TEST(PiecesOf, RefusesASecondForwardOfANoRecomputeStage) {
  Chain chain = EqualChain(4);
  const Schedule schedule = FlatSchedule(chain, {kSaved12, kSegment34});
  chain.stages[3].no_recompute = true;
  const auto read = PiecesOf(chain, schedule);
  ASSERT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(read.status().message(),
              HasSubstr("operations[3] FORWARD_DISCARD 4: a flat plan has FORWARD_SAVE 4 there"));
}

TEST(SplitAtNoRecompute, SavesTheStageAndCutsItsSegment) {
  Chain chain = EqualChain(6);
  chain.stages[1].no_recompute = true;
  EXPECT_THAT(
      SplitAtNoRecompute(chain, {{1, 4, true}, {5, 6, true}}),
      ElementsAre(Piece{1, 1, true}, Piece{2, 2, false}, Piece{3, 4, true}, Piece{5, 6, true}));
  chain.stages[2].no_recompute = true;
  EXPECT_THAT(SplitAtNoRecompute(chain, {{1, 1, false}, {2, 3, true}, {4, 6, true}}),
              ElementsAre(Piece{1, 3, false}, Piece{4, 6, true}));
  EXPECT_THAT(SplitAtNoRecompute(chain, {{1, 6, false}}), ElementsAre(Piece{1, 6, false}));
}

}  // namespace
}  // namespace stowage
