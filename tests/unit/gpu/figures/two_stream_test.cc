#include "tests/gpu/figures/two_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "solver/bounds/memory_range.h"
#include "solver/model/modes.h"
#include "solver/simulator/simulator.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

Platform Linked(double bytes_per_second) {
  Platform platform = Memory(int64_t{1} << 40);
  platform.offload_bytes_per_second = bytes_per_second;
  return platform;
}

TEST(TwoStreamSchedule, HasAStageToCopyEachWayBehind) {
  EXPECT_EQ(TwoStreamSchedule(EqualChain(3)),
            Ops("S1 O0 S2 R0 O1 S3 R1 O2 S4 R2 P2 B4 P1 B3 P0 B2 B1"));
}

TEST(TwoStreamSchedule, TakesNoLongerThanStoringAllOnAFastLinkAndLessMemory) {
  const Chain chain = EqualChain(20);
  const auto simulation = Simulate(chain, Linked(100), TwoStreamSchedule(chain));
  ASSERT_THAT(simulation, IsOk());
  EXPECT_NEAR(simulation->prediction.makespan_seconds, ComputeSeconds(chain), 0.7);
  EXPECT_LT(simulation->prediction.peak_memory_bytes, StoreAllPeakBytes(chain) / 4);
}

TEST(TwoStreamSchedule, LeavesWhatMayNotLeave) {
  Chain chain = EqualChain(4);
  chain.stages[1].no_offload = true;
  const Schedule schedule = TwoStreamSchedule(chain);
  EXPECT_THAT(Simulate(chain, Linked(100), schedule), IsOk());
  EXPECT_EQ(schedule, Ops("S1 O0 S2 R0 O1 S3 R1 S4 O3 S5 R3 P3 B5 B4 P1 B3 P0 B2 B1"));
}

TEST(TwoStreamSchedule, IsValidForTheShortestChains) {
  for (int stages = 1; stages <= 3; ++stages) {
    const Chain chain = EqualChain(stages);
    EXPECT_THAT(Simulate(chain, Linked(100), TwoStreamSchedule(chain)), IsOk());
  }
}

}  // namespace
}  // namespace stowage
