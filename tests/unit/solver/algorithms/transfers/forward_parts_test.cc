// Parts that were read from a schedule, and changed.
#include "solver/algorithms/transfers/forward_parts.h"

#include <gtest/gtest.h>

#include <vector>

#include "solver/simulator/simulator.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

Schedule Assembled(const Chain& chain, const std::vector<ForwardPart>& parts) {
  AssembledSequence assembled;
  AssembleParts(chain, parts, &assembled);
  return {assembled.sequence.operations};
}

TEST(ForwardParts, AreThoseOfTheirSequence) {
  Chain chain = EqualChain(3);
  chain.stages[1].input_unread = true;
  const Schedule schedule = Ops("C1 C2 S3 S4 B4 B3 X2 B2 S1 B1");
  const auto parts = PartsOf(chain, schedule.operations);
  ASSERT_TRUE(parts.has_value());
  EXPECT_EQ(Assembled(chain, *parts), schedule);
}

// The replay of stage 2 drops value 1, which the saved stage 1 would need.
TEST(ForwardParts, KeepTheInputThatASavedStageNeeds) {
  Chain chain = EqualChain(3);
  chain.stages[1].input_unread = true;
  auto parts = PartsOf(chain, Ops("C1 C2 S3 S4 B4 B3 X2 B2 S1 B1").operations);
  ASSERT_TRUE(parts.has_value());
  parts->front() = SavedPart(1);
  const Schedule schedule = Assembled(chain, *parts);
  EXPECT_EQ(schedule, Ops("S1 C2 S3 S4 B4 B3 S2 B2 B1"));
  EXPECT_THAT(Simulate(chain, Memory(1000), schedule), IsOk());
}

}  // namespace
}  // namespace stowage
