// Memory counted by hand.
#include <gtest/gtest.h>

#include <vector>

#include "solver/simulator/simulator.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using testing::ElementsAre;

// Sizes whose sums are all different: input 1, stage 1: a 2 saved 10 δ 100, stage 2: a 4 saved 20 δ
// 200.
class MemoryTest : public testing::Test {
 protected:
  MemoryTest() {
    chain_.input_bytes = 1;
    chain_.input_gradient_bytes = 1000;
    chain_.stages.resize(2);
    chain_.stages[0].output_bytes = 2;
    chain_.stages[0].saved_bytes = 10;
    chain_.stages[0].gradient_bytes = 100;
    chain_.stages[1].output_bytes = 4;
    chain_.stages[1].saved_bytes = 20;
    chain_.stages[1].gradient_bytes = 200;
    platform_.offload_bytes_per_second = 1;
  }

  Simulation Run(const char* operations) {
    absl::StatusOr<Simulation> result = Simulate(chain_, platform_, Ops(operations), &timeline_);
    EXPECT_THAT(result, IsOk());
    return result.ok() ? *result : Simulation{};
  }
  std::vector<int64_t> Device() const {
    std::vector<int64_t> bytes;
    for (const TimelineEntry& entry : timeline_) bytes.push_back(entry.memory_bytes);
    return bytes;
  }
  std::vector<int64_t> Host() const {
    std::vector<int64_t> bytes;
    for (const TimelineEntry& entry : timeline_) bytes.push_back(entry.host_bytes);
    return bytes;
  }

  Chain chain_;
  Platform platform_ = Memory(5000);
  std::vector<TimelineEntry> timeline_;
};

TEST_F(MemoryTest, ComesBackWhereAnUnreadInputIsDropped) {
  chain_.stages[1].input_unread = true;
  // C1 1+2, X2 +20 and then -2, B3 +200, B2 +100, S1 1+100+10, B1 +1000.
  Run("C1 X2 S3 B3 B2 S1 B1");
  EXPECT_THAT(Device(), ElementsAre(3, 23, 21, 221, 321, 111, 1111));
}

TEST_F(MemoryTest, OfAValueIsThatOfTheWayInWhichItWasSaved) {
  chain_.stages[0].save_options = {{"", 3, 0, 7}};
  chain_.stages[1].save_options = {{"", 15, 0, 0}, {"", 5, 0, 30}};
  // S1 +3, S2 +5, S3, B3 +200, B2 +100+30, then without ā2 and δ2 B1 +1000+7.
  EXPECT_EQ(Run("S1:1 S2:2 S3 B3 B2 B1").prediction.peak_memory_bytes, 1111);
  EXPECT_THAT(Device(), ElementsAre(4, 9, 9, 209, 339, 1111));
  // What leaves and returns, and what another forward saves in another way.
  Run("S1:1 O1 S2 R1 S3 B3 P1 B2 B1");
  EXPECT_THAT(Device(), ElementsAre(4, 4, 24, 24, 21, 221, 224, 324, 1111));
  EXPECT_THAT(Host(), ElementsAre(0, 3, 3, 3, 3, 3, 3, 0, 0));
  Run("C1 S2:1 S3 B3 B2 S1 B1");
  EXPECT_THAT(Device(), ElementsAre(3, 18, 18, 218, 318, 111, 1111));
}

TEST_F(MemoryTest, CountsEveryValueAndGradient) {
  EXPECT_EQ(Run("S1 S2 S3 B3 B2 B1").prediction.peak_memory_bytes, 1111);
  //            a0+10  +20  +0  +δ2=200  31+200+δ1=100  a0+ā1+δ1+δ0
  EXPECT_THAT(Device(), ElementsAre(11, 31, 31, 231, 331, 1111));
}

TEST_F(MemoryTest, DropsTheInputOfADiscardAndOfABackward) {
  Run("C1 D2 S3 B3 S1 S2 B2 B1");
  // C1: 1+2; D2: 3+4 while both are there; then 1+4. B3 adds δ2 = 200 and drops a2.
  // S1: 1+200+10; S2: +20; B2: +100; B1: 1+10+100+1000.
  EXPECT_THAT(Device(), ElementsAre(3, 7, 5, 205, 211, 231, 331, 1111));
}

TEST_F(MemoryTest, AddsOverheadsOnlyWhileTheOperationRuns) {
  chain_.stages[0].forward_overhead_bytes = 10'000;
  chain_.stages[1].backward_overhead_bytes = 20'000;
  chain_.loss.saved_bytes = 40'000;
  chain_.loss.output_bytes = 3;
  chain_.loss.gradient_bytes = 7;  // ignored: the loss has no gradient
  Run("S1 S2 S3 B3 B2 B1");
  EXPECT_THAT(Device(), ElementsAre(10'011, 31, 40'031, 40'231, 20'331, 1111));
}

TEST_F(MemoryTest, AForwardThatSavesHasAnOverheadOfItsOwn) {
  chain_.stages[0].forward_overhead_bytes = 20;
  chain_.stages[0].save_overhead_bytes = 12;
  chain_.stages[0].save_options = {{"", 3, 0, 0, 19}, {"", 2, 0, 0}};
  Run("C1 D2 S3 B3 S1 S2 B2 B1");
  EXPECT_EQ(Device()[0], 23);   // a0 + a1 + o_F
  EXPECT_EQ(Device()[4], 223);  // a0 + ā1 + δ2 + o_S
  Run("S1:1 S2 S3 B3 B2 B1");
  EXPECT_EQ(Device()[0], 23);
  Run("S1:2 S2 S3 B3 B2 B1");
  EXPECT_EQ(Device()[0], 23);
}

TEST_F(MemoryTest, FreesWithAReleaseAndTakesWithAPrefetch) {
  Run("S1 O1 S2 R1 S3 B3 P1 B2 B1");
  // R1 itself still counts ā1, S3 does not. P1 takes its 10 bytes at once.
  EXPECT_THAT(Device(), ElementsAre(11, 11, 31, 31, 21, 221, 231, 331, 1111));
  EXPECT_THAT(Host(), ElementsAre(0, 10, 10, 10, 10, 10, 10, 0, 0));
}

TEST_F(MemoryTest, CopiesTheFormThatIsLive) {
  Run("C1 O1 S2 R1 S3 B3 P1 B2 S1 B1");
  EXPECT_THAT(Host(), ElementsAre(0, 2, 2, 2, 2, 2, 2, 0, 0, 0));
}

TEST_F(MemoryTest, NamesTheFirstOperationOverADeviceLimit) {
  platform_.memory_bytes = 231;
  const Simulation simulation = Run("S1 S2 S3 B3 B2 B1");
  EXPECT_FALSE(simulation.feasible());
  EXPECT_EQ(simulation.first_over_limit, 4);
  platform_.memory_bytes = 1111;
  EXPECT_TRUE(Run("S1 S2 S3 B3 B2 B1").feasible());
}

TEST_F(MemoryTest, NamesTheFirstOperationOverTheHostLimit) {
  const char* const operations = "O0 S1 O1 R1 R0 P0 P1 S2 S3 B3 B2 B1";
  EXPECT_EQ(Run(operations).prediction.peak_host_bytes, 11);
  platform_.host_memory_bytes = 10;
  EXPECT_EQ(Run(operations).first_over_limit, 2);
  platform_.host_memory_bytes = 11;
  EXPECT_TRUE(Run(operations).feasible());
}

TEST_F(MemoryTest, UnsetGradientsAreAsLargeAsOutputs) {
  chain_.stages[0].gradient_bytes.reset();
  chain_.stages[1].gradient_bytes.reset();
  chain_.input_gradient_bytes.reset();
  Run("S1 S2 S3 B3 B2 B1");
  EXPECT_THAT(Device(), ElementsAre(11, 31, 31, 35, 37, 14));
}

TEST_F(MemoryTest, HoldsSizesNearTheLimitWithoutOverflow) {
  chain_.stages[0].saved_bytes = (int64_t{1} << 61);
  chain_.stages[1].saved_bytes = (int64_t{1} << 61) - 3000;
  platform_.memory_bytes = (int64_t{1} << 62) - 1;
  EXPECT_TRUE(Run("S1 S2 S3 B3 B2 B1").feasible());
}

}  // namespace
}  // namespace stowage
