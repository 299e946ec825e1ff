// Placements for chosen gaps, computed by hand.
#include "solver/algorithms/transfers/transfer_placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "solver/algorithms/transfers/compute_sequence.h"
#include "solver/simulator/simulator.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

// Three stages that save 30 bytes and take 1 and 2 s; a byte takes 0.1 s each way. The forwards
// need 40, 70 and 100 bytes with the input's 10, BACKWARD 3 another 20 for two gradients: 120.
class Placement : public testing::Test {
 protected:
  Placement() { platform_.offload_bytes_per_second = 10; }

  // Moves the values named, in their first gaps.
  std::optional<double> Place(int64_t memory_bytes, const std::vector<int>& values) {
    choices_.assign(sequence_.gaps.size(), GapChoice{});
    for (const int value : values) ChoiceOf(value).moved = true;
    return PlaceAgain(memory_bytes);
  }
  std::optional<double> PlaceAgain(int64_t memory_bytes) {
    placement_.emplace(chain_, platform_);
    return placement_->Place(sequence_, choices_, memory_bytes);
  }
  GapChoice& ChoiceOf(int value) {
    const auto gap = std::find_if(sequence_.gaps.begin(), sequence_.gaps.end(),
                                  [value](const Gap& g) { return g.value == value; });
    return choices_[static_cast<size_t>(gap - sequence_.gaps.begin())];
  }
  Platform Link(int64_t memory_bytes) const {
    Platform platform = platform_;
    platform.memory_bytes = memory_bytes;
    return platform;
  }
  Schedule Placed() const { return placement_->ToSchedule(sequence_); }

  Chain chain_ = EqualChain(3);
  Platform platform_ = Memory(0);
  ComputeSequence sequence_ = SequenceOf(chain_, Ops("S1 S2 S3 S4 B4 B3 B2 B1"));
  std::vector<GapChoice> choices_;
  std::optional<TransferPlacement> placement_;
};

TEST_F(Placement, MovesNothingThatNeedNotMove) {
  EXPECT_EQ(Place(120, {0, 1}), 9);
  EXPECT_EQ(Placed(), Ops("S1 S2 S3 S4 B4 B3 B2 B1"));
}

// BACKWARD 3 lacks 5 bytes. The input is offloaded right after FORWARD_SAVE 1, its only reader in
// the forward phase, released only when BACKWARD 3 needs the memory, and prefetched right after it.
TEST_F(Placement, ReleasesAsLateAndPrefetchesAsEarlyAsMemoryAllows) {
  EXPECT_EQ(Place(115, {0}), 9);
  EXPECT_EQ(Placed(), Ops("O0 S1 S2 S3 S4 B4 R0 B3 P0 B2 B1"));
}

// FORWARD_SAVE 3 needs 100 bytes, so it waits for the copy of value 1 (1 s to 4 s) and ends at 5 s.
// Value 1 fits again when BACKWARD 3 has ended (7 s), and BACKWARD 2 waits for it until 10 s.
TEST_F(Placement, ComputingWaitsForWholeCopies) {
  EXPECT_EQ(Place(95, {1}), 14);
  EXPECT_EQ(Placed(), Ops("S1 O1 S2 R1 S3 S4 B4 B3 P1 B2 B1"));
}

TEST_F(Placement, SaysWhenTheChoicesDoNotFit) {
  EXPECT_EQ(Place(109, {0}), std::nullopt);
  EXPECT_NE(Place(110, {0}), std::nullopt);
}

TEST_F(Placement, ReleasesEarlyWhereTheChoiceSaysSo) {
  ASSERT_NE(Place(120, {0}), std::nullopt);
  ChoiceOf(0).early_release = true;
  ASSERT_NE(PlaceAgain(120), std::nullopt);
  EXPECT_EQ(Placed(), Ops("O0 S1 R0 P0 S2 S3 S4 B4 B3 B2 B1"));
}

TEST_F(Placement, DelaysCopiesAsTheChoiceSays) {
  ASSERT_NE(Place(115, {0}), std::nullopt);
  ChoiceOf(0).offload_delay = 2;
  ChoiceOf(0).prefetch_delay = 1;
  ASSERT_NE(PlaceAgain(115), std::nullopt);
  EXPECT_EQ(Placed(), Ops("S1 S2 O0 S3 S4 B4 R0 B3 B2 P0 B1"));
}

// Both values must be on the host at BACKWARD 3, and the host has room for one.
TEST_F(Placement, KeepsWithinTheHostsMemory) {
  EXPECT_NE(Place(85, {0, 1}), std::nullopt);
  platform_.host_memory_bytes = 30;
  EXPECT_EQ(Place(85, {0, 1}), std::nullopt);
  platform_.host_memory_bytes = 40;
  EXPECT_NE(Place(85, {0, 1}), std::nullopt);
}

// The input has four gaps and is offloaded in the first and the third. The second copy to the host
// must not start while the first one exists.
TEST_F(Placement, OffloadsAgainOnlyAfterThePrefetch) {
  chain_ = EqualChain(4);
  sequence_ =
      SequenceOf(chain_, Ops("C1 D2 D3 D4 S5 B5 C1 D2 D3 S4 B4 C1 D2 S3 B3 C1 S2 B2 S1 B1"));
  choices_.assign(sequence_.gaps.size(), GapChoice{});
  int gaps = 0;
  for (size_t g = 0; g < choices_.size(); ++g) {
    if (sequence_.gaps[g].value != 0) continue;
    choices_[g].early_release = choices_[g].moved = ++gaps % 2 == 1;
  }
  ASSERT_GE(gaps, 3);
  const auto seconds = PlaceAgain(200);
  ASSERT_TRUE(seconds.has_value());
  const auto simulation = Simulate(chain_, Link(200), Placed());
  ASSERT_THAT(simulation, IsOk());
  EXPECT_NEAR(simulation->prediction.makespan_seconds, *seconds, 1e-9);
}

// The input returns before FORWARD_SAVE 1 runs again and leaves after it. Its second copy may start
// as soon as it is back, before that forward.
TEST_F(Placement, OffloadsBeforeTheFirstUseAfterAPrefetchWhereTheChoiceSaysSo) {
  sequence_ = SequenceOf(chain_, Ops("C1 D2 S3 S4 B4 B3 S1 S2 B2 B1"));
  choices_.assign(sequence_.gaps.size(), GapChoice{});
  for (size_t g = 0; g < choices_.size(); ++g) {
    if (sequence_.gaps[g].value == 0) choices_[g] = {.moved = true, .early_release = true};
  }
  ASSERT_NE(PlaceAgain(200), std::nullopt);
  EXPECT_EQ(Placed(), Ops("O0 C1 R0 P0 D2 S3 S4 B4 B3 S1 O0 R0 P0 S2 B2 B1"));
  for (GapChoice& choice : choices_) choice.offload_delay = -1;
  ASSERT_NE(PlaceAgain(200), std::nullopt);
  EXPECT_EQ(Placed(), Ops("O0 C1 R0 P0 D2 S3 S4 B4 B3 O0 S1 R0 P0 S2 B2 B1"));
  ChoiceOf(0).prefetch_delay = 100;
  const auto seconds = PlaceAgain(200);
  ASSERT_TRUE(seconds.has_value());
  EXPECT_EQ(Placed(), Ops("O0 C1 R0 D2 S3 S4 B4 B3 P0 O0 S1 R0 P0 S2 B2 B1"));
  const auto simulation = Simulate(chain_, Link(200), Placed());
  ASSERT_THAT(simulation, IsOk());
  EXPECT_NEAR(simulation->prediction.makespan_seconds, *seconds, 1e-9);
}

TEST_F(Placement, TheNarrowestOperationIsTheSchedulesPeak) {
  ASSERT_NE(Place(115, {0}), std::nullopt);
  EXPECT_EQ(placement_->PeakBytes(), 110);
}

}  // namespace
}  // namespace stowage
