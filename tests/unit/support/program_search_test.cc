// The search over complete programs, on cases worked out by hand.
#include "tests/support/program_search.h"

#include <gtest/gtest.h>

#include "solver/bounds/memory_range.h"
#include "solver/model/modes.h"
#include "tests/support/chains.h"

namespace stowage {
namespace {

// Stages that run once and take nothing, but for what a test sets.
Chain Bare(int stages) {
  Chain chain;
  chain.stages.resize(static_cast<size_t>(stages));
  for (Stage& stage : chain.stages) stage.no_recompute = true;
  return chain;
}

void Holds(Stage* stage, int64_t bytes) {
  stage->output_bytes = bytes;
  stage->saved_bytes = bytes;
  stage->gradient_bytes = 0;
}

Platform Link(int64_t memory_bytes, double bytes_per_second) {
  Platform platform = Memory(memory_bytes);
  platform.offload_bytes_per_second = bytes_per_second;
  return platform;
}

double Seconds(const Chain& chain, const Platform& platform) {
  const auto fastest = FastestProgram(chain, platform);
  EXPECT_TRUE(fastest.has_value() && !fastest->gave_up);
  return fastest.has_value() ? fastest->seconds : -1;
}

// There is room for the two values that a forward reads and leaves; the loss reads value 3 and
// wants the other's room. So one copy (1 s) after the other is waited for, three out and three
// back.
TEST(ProgramSearch, AllValuesLeaveInTurn) {
  Chain chain = Bare(3);
  chain.input_bytes = 1;
  chain.input_gradient_bytes = 0;
  for (Stage& stage : chain.stages) Holds(&stage, 1);
  chain.loss.forward_overhead_bytes = 1;
  EXPECT_EQ(Seconds(chain, Link(2, 1)), 6);
}

// Value 1, of 10 bytes, must be away while the loss runs forward. It may leave while stage 2 runs
// (4 s) and come back while the loss runs backward (4 s): 14 s of compute with stage 2's backward.
Chain OneValueInTheWay() {
  Chain chain = Bare(2);
  Holds(&chain.stages[0], 10);
  chain.stages[1].forward_seconds = 4;
  chain.stages[1].backward_seconds = 5;
  chain.loss.forward_seconds = 1;
  chain.loss.backward_seconds = 4;
  chain.loss.forward_overhead_bytes = 10;
  return chain;
}

TEST(ProgramSearch, CopiesHideBehindComputeThatIsLongEnough) {
  EXPECT_EQ(Seconds(OneValueInTheWay(), Link(10, 2.5)), 14);
  EXPECT_EQ(FastestProgram(OneValueInTheWay(), Memory(10)), std::nullopt);
}

TEST(ProgramSearch, WhatACopyTakesLongerShows) {
  EXPECT_EQ(Seconds(OneValueInTheWay(), Link(10, 2)), 16);  // 5 s each way
  Platform platform = Link(10, 2.5);
  platform.prefetch_bytes_per_second = 1.25;  // 8 s back
  EXPECT_EQ(Seconds(OneValueInTheWay(), platform), 18);
  platform = Link(10, 2.5);
  platform.transfer_latency_seconds = 0.5;
  EXPECT_EQ(Seconds(OneValueInTheWay(), platform), 15);
}

TEST(ProgramSearch, TheHostsMemoryIsALimit) {
  Platform platform = Link(10, 2.5);
  platform.host_memory_bytes = 10;
  EXPECT_EQ(Seconds(OneValueInTheWay(), platform), 14);
  platform.host_memory_bytes = 9;
  EXPECT_EQ(FastestProgram(OneValueInTheWay(), platform), std::nullopt);
}

TEST(ProgramSearch, AValueThatMayNotLeaveStays) {
  Chain chain = OneValueInTheWay();
  chain.stages[0].no_offload = true;
  EXPECT_EQ(FastestProgram(chain, Link(10, 2.5)), std::nullopt);
}

// Value 2, of 2 bytes, must be away while the loss runs backward (value 1's leaving would not do),
// and value 1, of 1 byte, during BACKWARD 3, which reads value 2. Nothing but copies takes time.
Chain TwoValuesInTurn() {
  Chain chain = Bare(3);
  Holds(&chain.stages[0], 1);
  Holds(&chain.stages[1], 2);
  chain.stages[2].backward_overhead_bytes = 1;
  chain.loss.backward_overhead_bytes = 2;
  return chain;
}

// 2 s out and 2 s back before BACKWARD 3, 1 s back after it; value 1 leaves meanwhile, unless the
// link has one direction at a time: then all four copies wait for each other.
TEST(ProgramSearch, CopiesOfAHalfDuplexLinkWaitForEachOther) {
  Platform platform = Link(3, 1);
  EXPECT_EQ(Seconds(TwoValuesInTurn(), platform), 5);
  platform.half_duplex = true;
  EXPECT_EQ(Seconds(TwoValuesInTurn(), platform), 6);
}

// While value 1 leaves (from 2 to 3 s) the loss ends (at 2.5 s), and value 2 comes back at once
// (0.5 s) if the link lets it: BACKWARD 3 at 3 s instead of 3.5 s, then value 1 (0.25 s).
TEST(ProgramSearch, CopiesGoBothWaysAtOnceWhereTheLinkAllowsIt) {
  Chain chain = TwoValuesInTurn();
  chain.loss.backward_seconds = 0.5;
  Platform platform = Link(3, 1);
  platform.prefetch_bytes_per_second = 4;
  EXPECT_EQ(Seconds(chain, platform), 3.25);
  platform.half_duplex = true;
  EXPECT_EQ(Seconds(chain, platform), 3.75);
}

// With room for one of the two on the host, value 1 can only leave once value 2 has come back,
// which is after the loss's backward.
TEST(ProgramSearch, OffloadsInTheBackwardPhaseWhereNothingElseWillDo) {
  Platform platform = Link(3, 1);
  platform.host_memory_bytes = 2;
  const auto fastest = FastestProgram(TwoValuesInTurn(), platform);
  ASSERT_TRUE(fastest.has_value());
  EXPECT_EQ(fastest->seconds, 5);
  const auto& operations = fastest->schedule.operations;
  const auto offload = std::find(operations.begin(), operations.end(), Ops("O1").operations[0]);
  const auto backward = std::find(operations.begin(), operations.end(), Ops("B4").operations[0]);
  EXPECT_NE(offload, operations.end());
  EXPECT_LT(backward, offload);
}

// Values 1 and 2 leave while stages 3 and 4 run (6 s): stage 4 needs `room_bytes` of theirs, the
// loss all 6. They come back while it runs backward (6 s).
struct Leaving {
  int64_t first_bytes = 0;
  int64_t second_bytes = 0;
  int64_t room_bytes = 0;
  double before_seconds = 0;  // of stage 3, until that room is needed
};

double LeavingSeconds(const Leaving& leaving) {
  Chain chain = Bare(4);
  Holds(&chain.stages[0], leaving.first_bytes);
  Holds(&chain.stages[1], leaving.second_bytes);
  chain.stages[2].forward_seconds = leaving.before_seconds;
  chain.stages[3].forward_seconds = 6 - leaving.before_seconds;
  chain.stages[3].forward_overhead_bytes = leaving.room_bytes;
  chain.loss.forward_overhead_bytes = 6;
  chain.loss.backward_seconds = 6;
  return Seconds(chain, Link(6, 1));
}

TEST(ProgramSearch, FindsTheOrderInWhichCopiesMustLeave) {
  // The larger one must leave first: it alone makes the room. The other one would delay it to 6 s.
  EXPECT_EQ(LeavingSeconds({2, 4, 4, 5}), 12);
  EXPECT_EQ(LeavingSeconds({4, 2, 4, 5}), 12);
  // The smaller one must: the room is needed before the larger one can have left.
  EXPECT_EQ(LeavingSeconds({2, 4, 2, 3}), 12);
  EXPECT_EQ(LeavingSeconds({4, 2, 2, 3}), 12);
  EXPECT_EQ(LeavingSeconds({4, 2, 2, 1}), 13);  // nor can the smaller one
}

// The input must be away while the loss runs backward and during BACKWARD 2, and between the two it
// is needed: value 1, which may not leave, has to make room for the loss and to be computed again.
TEST(ProgramSearch, AValueTravelsTwiceWhereItMust) {
  Chain chain = Bare(2);
  chain.input_bytes = 1;
  chain.input_gradient_bytes = 0;
  Holds(&chain.stages[0], 1);
  chain.stages[0].no_offload = true;
  chain.stages[1].backward_overhead_bytes = 2;
  chain.loss.backward_overhead_bytes = 3;
  for (Stage& stage : chain.stages) stage.no_recompute = false;
  EXPECT_EQ(Seconds(chain, Link(3, 1)), 4);  // 1 s a copy
}

// RR-9302 section 4.1: 2n + 4, where persistent schedules take 3n + 3.
TEST(ProgramSearch, DropsWhatItHasReadWhereThatIsFaster) {
  EXPECT_EQ(Seconds(NonPersistentChain(2), Memory(9)), 8);
}

TEST(ProgramSearch, GivesUpWithABoundThatHolds) {
  const auto early = FastestProgram(OneValueInTheWay(), Link(10, 2), {.max_nodes = 20});
  ASSERT_TRUE(early.has_value());
  EXPECT_TRUE(early->gave_up);
  EXPECT_TRUE(early->schedule.operations.empty());
  EXPECT_GE(early->seconds, 14);
  EXPECT_LE(early->seconds, 16);
}

// Without memory pressure no link is used, however fast.
TEST(ProgramSearch, TakesTheComputeTimeWhereEverythingFits) {
  const Chain chain = EqualChain(4);
  EXPECT_EQ(Seconds(chain, Link(StoreAllPeakBytes(chain), 1e9)), ComputeSeconds(chain));
}

}  // namespace
}  // namespace stowage
