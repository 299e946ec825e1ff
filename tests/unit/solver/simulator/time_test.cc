// Starts and ends computed by hand, for each rule of solver/README.md, "Time".
#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "solver/bounds/lower_bound.h"
#include "solver/simulator/simulator.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using testing::ElementsAre;
using testing::Pair;

// EqualChain: a forward takes 1 s, a backward 2 s, ā is 30 bytes, a and the input 10. At 10 B/s an
// ā copies in 3 s, an a in 1 s.
class Time : public testing::Test {
 protected:
  Time() { platform_.offload_bytes_per_second = 10; }

  Prediction Run(const char* operations) {
    absl::StatusOr<Simulation> result =
        SimulateWithBound(chain_, platform_, Ops(operations), &timeline_);
    EXPECT_THAT(result, IsOk());
    return result.ok() ? result->prediction : Prediction{};
  }
  std::vector<std::pair<double, double>> Spans() const {
    std::vector<std::pair<double, double>> spans;
    for (const TimelineEntry& entry : timeline_)
      spans.emplace_back(entry.start_seconds, entry.end_seconds);
    return spans;
  }

  Chain chain_ = EqualChain(2);
  Platform platform_ = Memory(1000);
  std::vector<TimelineEntry> timeline_;
};

TEST_F(Time, AddsUpWithoutTransfers) {
  const Prediction prediction = Run("C1 D2 S3 B3 S1 S2 B2 B1");
  EXPECT_EQ(prediction.makespan_seconds, 8);
  EXPECT_EQ(prediction.compute_seconds, 8);
  EXPECT_EQ(prediction.recompute_seconds, 2);
  EXPECT_EQ(prediction.idle_seconds, 0);
  EXPECT_EQ(prediction.lower_bound_seconds, 6);
  EXPECT_DOUBLE_EQ(prediction.overhead, 1.0 / 3);
  EXPECT_DOUBLE_EQ(prediction.gap, 1.0 / 3);
}

TEST_F(Time, OfAForwardRightBeforeItsBackwardIsThatOfAReplay) {
  chain_.stages[0].replay_seconds = 0.5;
  chain_.stages[1].replay_seconds = 0.25;
  // The second forward of stage 2 is a replay, that of stage 1 is not: stage 2 reads its output.
  const Prediction prediction = Run("C1 D2 S3 B3 S1 S2 B2 B1");
  EXPECT_EQ(prediction.makespan_seconds, 7.25);
  EXPECT_EQ(prediction.recompute_seconds, 1.25);
  // Copies in between do not read the output of stage 1 either.
  EXPECT_EQ(Run("C1 D2 S3 B3 C1 S2 B2 S1 O0 R0 P0 B1").recompute_seconds, 1.75);
}

TEST_F(Time, OfABackwardIsThatOfTheWayInWhichItsStageWasSaved) {
  chain_.stages[0].save_options = {{"", 20, 2.5, 0}, {"", 10, 4, 0}};
  // Stage 1 is saved in the slower way only for the forward that stage 2 drops.
  Prediction prediction = Run("S1:2 D2 S3 B3 S1:1 S2 B2 B1");
  EXPECT_EQ(prediction.makespan_seconds, 8.5);
  EXPECT_EQ(prediction.recompute_seconds, 2.5);
  // At 10 B/s ā1 copies in 1 s: O1 1-2, S2 1-2, P1 2-3, B2 3-5, B1 5-9.
  prediction = Run("S1:2 O1 S2 S3 R1 B3 P1 B2 B1");
  EXPECT_EQ(prediction.makespan_seconds, 9);
  EXPECT_EQ(prediction.recompute_seconds, 2);
  EXPECT_EQ(prediction.compute_seconds, 8);
  EXPECT_EQ(prediction.lower_bound_seconds, 6);
}

TEST_F(Time, LetsCopiesRunBesideCompute) {
  // S1 0-1; O1 1-4; S2 1-2; S3 (0 s) at 2; R1 waits for the copy: 4; B3 at 4; P1 4-7; B2 needs it:
  // 7-9.
  const Prediction prediction = Run("S1 O1 S2 S3 R1 B3 P1 B2 B1");
  EXPECT_THAT(Spans(), ElementsAre(Pair(0, 1), Pair(1, 4), Pair(1, 2), Pair(2, 2), Pair(4, 4),
                                   Pair(4, 4), Pair(4, 7), Pair(7, 9), Pair(9, 11)));
  EXPECT_EQ(prediction.makespan_seconds, 11);
  EXPECT_EQ(prediction.compute_seconds, 6);
  EXPECT_EQ(prediction.idle_seconds, 5);
  EXPECT_EQ(timeline_[5].waits_for, 4);
  EXPECT_EQ(timeline_[7].waits_for, 6);
}

TEST_F(Time, ChargesTheLatencyOfEachTransfer) {
  platform_.transfer_latency_seconds = 0.5;
  // O1 1-4.5; R1 4.5; P1 4.5-8; B2 8-10.
  EXPECT_EQ(Run("S1 O1 S2 S3 R1 B3 P1 B2 B1").makespan_seconds, 12);
}

TEST_F(Time, UsesEachDirectionsOwnBandwidth) {
  platform_.prefetch_bytes_per_second = 30;
  // As without: P1 takes 1 s, 4-5; B2 5-7; B1 7-9.
  EXPECT_EQ(Run("S1 O1 S2 S3 R1 B3 P1 B2 B1").makespan_seconds, 9);
}

TEST_F(Time, GivesEachDirectionItsQueueInFullDuplexAndOneInHalf) {
  // O1 1-4, R1 4; O2 2 -> queue free at 4: 4-7. P1 is listed after R1 only: at 4 in full duplex,
  // 4-7; with one link it waits for O2: 7-10.
  const char* const operations = "S1 O1 S2 O2 R1 P1 R2 P2 S3 B3 B2 B1";
  Run(operations);
  EXPECT_THAT(Spans(), ElementsAre(Pair(0, 1), Pair(1, 4), Pair(1, 2), Pair(4, 7), Pair(4, 4),
                                   Pair(4, 7), Pair(7, 7), Pair(7, 10), Pair(10, 10), Pair(10, 10),
                                   Pair(10, 12), Pair(12, 14)));
  platform_.half_duplex = true;
  Run(operations);
  EXPECT_THAT(Spans(), ElementsAre(Pair(0, 1), Pair(1, 4), Pair(1, 2), Pair(4, 7), Pair(4, 4),
                                   Pair(7, 10), Pair(7, 7), Pair(10, 13), Pair(13, 13),
                                   Pair(13, 13), Pair(13, 15), Pair(15, 17)));
}

TEST_F(Time, StartsAnOffloadAfterTheComputeListedBeforeIt) {
  // O1 is listed after S2: 2-5.
  Run("S1 S2 O1 S3 R1 B3 P1 B2 B1");
  EXPECT_EQ(timeline_[2].start_seconds, 2);
  EXPECT_EQ(timeline_[2].end_seconds, 5);
}

TEST_F(Time, MakesComputeWaitForEveryReleaseBeforeIt) {
  // S2 waits for R1, which ends at 4, although it does not need the memory of value 1.
  Run("S1 O0 R0 S2 S3 B3 B2 P0 B1");
  EXPECT_EQ(timeline_[1].end_seconds, 2);    // O0: 1-2
  EXPECT_EQ(timeline_[3].start_seconds, 2);  // S2 waits for R0
  EXPECT_EQ(timeline_[3].waits_for, 2);
}

TEST_F(Time, EndsAReleaseNotBeforeTheComputeListedBeforeIt) {
  // O0 is over at 1, while S1 runs 0-1 and S2 1-2: R0 ends at 2.
  Run("O0 S1 S2 R0 S3 B3 B2 P0 B1");
  EXPECT_EQ(timeline_[0].end_seconds, 1);
  EXPECT_EQ(timeline_[3].end_seconds, 2);
}

TEST_F(Time, EndsAReleaseNotBeforeTheReleasesListedBeforeIt) {
  // O0 1-2; O1 is listed after S2: 2-5. R1 at 5; R0 is listed after R1, so 5 although its copy was
  // complete at 2.
  Run("S1 O0 S2 O1 R1 R0 S3 B3 P1 B2 P0 B1");
  EXPECT_EQ(timeline_[4].end_seconds, 5);
  EXPECT_EQ(timeline_[5].end_seconds, 5);
  EXPECT_EQ(timeline_[5].waits_for, 4);
}

TEST_F(Time, StartsAPrefetchAfterEveryReleaseBeforeIt) {
  // R0 done at 2. O1 2-5, R1 5. P0 is listed after R1: not before 5, though the link down is free.
  Run("S1 O0 R0 O1 R1 P0 P1 S2 S3 B3 B2 B1");
  EXPECT_EQ(timeline_[5].start_seconds, 5);
}

TEST_F(Time, LetsAnOffloadWaitForThePrefetchOfItsValue) {
  // O1 1-4, R1 4, P1 4-7; O1 again: its queue is free at 4, its value is back at 7: 7-10.
  Run("S1 O1 R1 P1 O1 R1 P1 S2 S3 B3 B2 B1");
  EXPECT_EQ(timeline_[4].start_seconds, 7);
  EXPECT_EQ(timeline_[4].waits_for, 3);
}

TEST_F(Time, MakesABackwardWaitForWhatItsOwnStageSaved) {
  // O2 2-5; R2 5; P2 5-8; B2 reads it: 8.
  Run("S1 S2 S3 B3 O2 R2 P2 B2 B1");
  EXPECT_EQ(timeline_[7].start_seconds, 8);
  EXPECT_EQ(timeline_[7].waits_for, 6);
}

TEST_F(Time, CountsTransfersThatEndLast) {
  // No valid schedule ends with a transfer: an offload would leave a value on the host, and B1
  // waits for a prefetch. The makespan covers every queue nevertheless.
  chain_.stages[0].backward_seconds = 0;
  const Prediction prediction = Run("S1 O0 R0 S2 S3 B3 B2 P0 B1");
  EXPECT_EQ(prediction.makespan_seconds, timeline_.back().end_seconds);
  EXPECT_EQ(prediction.idle_seconds, prediction.makespan_seconds - prediction.compute_seconds);
}

TEST_F(Time, IsZeroForAChainThatTakesNone) {
  for (Stage& stage : chain_.stages) stage.forward_seconds = stage.backward_seconds = 0;
  const Prediction prediction = Run("S1 S2 S3 B3 B2 B1");
  EXPECT_EQ(prediction.makespan_seconds, 0);
  EXPECT_EQ(prediction.overhead, 0);
  EXPECT_EQ(prediction.gap, 0);
  // Transfers of such a chain still take time; nothing divides by zero.
  const Prediction transfers = Run("S1 O1 R1 P1 S2 S3 B3 B2 B1");
  EXPECT_EQ(transfers.makespan_seconds, 6);
  EXPECT_TRUE(std::isfinite(transfers.overhead));
  EXPECT_TRUE(std::isfinite(transfers.gap));
}

// Differences due to the order of additions do not count as overhead.
TEST_F(Time, HasNoOverheadFromTheOrderOfAdditions) {
  chain_ = EqualChain(30);
  for (int i = 0; i < 30; ++i) {
    chain_.stages[i].forward_seconds = 0.1 * i + 1e-7;
    chain_.stages[i].backward_seconds = 0.3 / (i + 1);
  }
  std::string operations;
  for (int l = 1; l <= 31; ++l) operations += "S" + std::to_string(l) + " ";
  for (int l = 31; l >= 1; --l) operations += "B" + std::to_string(l) + " ";
  const Prediction prediction = Run(operations.c_str());
  EXPECT_EQ(prediction.overhead, 0);
  EXPECT_EQ(prediction.gap, 0);
  EXPECT_EQ(prediction.idle_seconds, 0);
}

}  // namespace
}  // namespace stowage
