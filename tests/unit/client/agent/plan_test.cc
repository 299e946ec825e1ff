#include "client/agent/plan.h"

#include <gtest/gtest.h>

#include "gmock/gmock.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class MakePlanTest : public testing::Test {
 protected:
  MakePlanTest() : platform_(Memory(1000)) { platform_.offload_bytes_per_second = 10; }

  Plan Make(int stages, const char* operations) {
    auto plan = MakePlan(EqualChain(stages), platform_, Ops(operations), options_);
    EXPECT_THAT(plan, IsOk());
    return *std::move(plan);
  }

  Platform platform_;
  PlanOptions options_{.alignment = 1};
};

TEST_F(MakePlanTest, HasNoWaitsWhereEverythingIsComputed) {
  const Plan plan = Make(2, "S1 S2 S3 B3 B2 B1");
  ASSERT_EQ(plan.commands.size(), 6U);
  for (const Command& command : plan.commands) {
    EXPECT_EQ(command.queue, Queue::kCompute);
    EXPECT_THAT(command.waits, IsEmpty());
    EXPECT_FALSE(command.awaited);
  }
  EXPECT_EQ(plan.device.layout.bytes, plan.prediction.peak_memory_bytes);
  EXPECT_EQ(plan.host.layout.bytes, 0);
}

TEST_F(MakePlanTest, LetsCopiesWaitForWhatIsListedBeforeThem) {
  //                        0  1  2  3  4  5  6  7  8
  const Plan plan = Make(2, "S1 O1 S2 R1 S3 B3 P1 B2 B1");
  EXPECT_THAT(plan.commands[1].waits, ElementsAre(0));  // the offload for the forward
  EXPECT_THAT(plan.commands[2].waits, IsEmpty());       // which goes on
  EXPECT_THAT(plan.commands[3].waits, ElementsAre(1));  // the release for the copy
  EXPECT_EQ(plan.commands[3].queue, Queue::kCompute);   // and all after it for the release
  EXPECT_THAT(plan.commands[6].waits, ElementsAre(5));  // the prefetch for the backward
  EXPECT_EQ(plan.commands[6].queue, Queue::kToDevice);
  EXPECT_THAT(plan.commands[7].waits, ElementsAre(6));  // the next backward for the prefetch
  EXPECT_THAT(plan.commands[8].waits, IsEmpty());       // which is known to have ended by then
}

TEST_F(MakePlanTest, LetsAPrefetchWaitForTheReleaseThatMakesRoom) {
  //                        0  1  2  3  4  5  6  7  8  9  10
  const Plan plan = Make(3, "S1 S2 O1 R1 S3 O2 S4 B4 P1 R2 P2 B3 B2 B1");
  EXPECT_THAT(plan.commands[8].waits, ElementsAre(7));   // before that release
  EXPECT_THAT(plan.commands[10].waits, ElementsAre(9));  // after it
}

TEST_F(MakePlanTest, LetsAnOffloadWaitForThePrefetchOfItsValue) {
  const Plan plan = Make(2, "S1 O1 R1 P1 O1 R1 P1 S2 S3 B3 B2 B1");
  EXPECT_THAT(plan.commands[4].waits, ElementsAre(3));
}

TEST_F(MakePlanTest, LetsAnOffloadWaitForAPrefetchThatStillReadsItsHostMemory) {
  // Value 1 comes back while value 2 goes where it was.
  const Plan plan = Make(3, "S1 S2 O1 R1 S3 P1 O2 R2 S4 B4 P2 B3 B2 B1");
  EXPECT_EQ(plan.host.layout.bytes, 30);
  EXPECT_THAT(plan.commands[6].waits, ElementsAre(4, 5));
}

TEST_F(MakePlanTest, HasOneQueueOfCopiesOnAHalfDuplexLink) {
  platform_.half_duplex = true;
  const Plan plan = Make(3, "S1 S2 O1 R1 S3 P1 O2 R2 S4 B4 P2 B3 B2 B1");
  EXPECT_EQ(plan.commands[5].queue, Queue::kToHost);
  EXPECT_THAT(plan.commands[6].waits, IsEmpty());  // behind the prefetch, and so the forward
}

TEST_F(MakePlanTest, CountsTheRunsOfAForward) {
  const Plan plan = Make(2, "C1 S2 S3 B3 B2 S1 B1");
  EXPECT_EQ(plan.commands[0].run, 0);
  EXPECT_EQ(plan.commands[5].run, 1);
}

TEST_F(MakePlanTest, LeavesValuesToAFrameworkWhereAsked) {
  options_.places_values = false;
  const Plan plan = Make(2, "S1 O1 S2 R1 S3 B3 P1 B2 B1");
  EXPECT_EQ(plan.device.layout.bytes, 0);
  EXPECT_EQ(plan.host.layout.bytes, 30);
}

TEST_F(MakePlanTest, RefusesTheScheduleOfAnotherChain) {
  EXPECT_THAT(MakePlan(EqualChain(3), platform_, Ops("S1 S2 S3 B3 B2 B1")),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("operations[3] BACKWARD 3")));
  EXPECT_THAT(MakePlan(EqualChain(1), platform_, Ops("S1 S2 S3 B3 B2 B1")),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("operations[2] FORWARD_SAVE 3")));
}

TEST_F(MakePlanTest, RefusesAScheduleThatDoesNotFit) {
  EXPECT_THAT(MakePlan(EqualChain(2), Memory(60), Ops("S1 S2 S3 B3 B2 B1")),
              Fails(absl::StatusCode::kInvalidArgument,
                    HasSubstr("operations[1] FORWARD_SAVE 2 is over a limit")));
}

TEST_F(MakePlanTest, RefusesAnArenaOrAPoolThatTakesMoreThanItMay) {
  const Schedule schedule = Ops("S1 O1 S2 R1 S3 B3 P1 B2 B1");
  const auto make = [&](const PlanOptions& options) {
    return MakePlan(EqualChain(2), platform_, schedule, options);
  };
  const int64_t arena = make({})->device.layout.bytes;
  EXPECT_THAT(make({.arena_bytes = arena, .pool_bytes = 256}), IsOk());
  EXPECT_THAT(make({.arena_bytes = arena - 1}),
              Fails(absl::StatusCode::kResourceExhausted, HasSubstr("the arena takes")));
  EXPECT_THAT(make({.pool_bytes = 255}),
              Fails(absl::StatusCode::kResourceExhausted,
                    HasSubstr("the pool of host copies takes 256 B, 1 bytes more")));
}

TEST_F(MakePlanTest, RefusesAChainThatIsNone) {
  Chain chain = EqualChain(2);
  chain.stages[1].saved_bytes = 3;
  EXPECT_THAT(MakePlan(chain, platform_, Ops("S1 S2 S3 B3 B2 B1")),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("stages[1].saved_bytes")));
}

}  // namespace
}  // namespace stowage
