#include "client/agent/plan.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "solver/simulator/simulator.h"
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

  ArenaPlan Make(int stages, const char* operations) {
    auto plan = MakeArenaPlan(EqualChain(stages), platform_, Ops(operations), options_);
    EXPECT_THAT(plan, IsOk());
    return *std::move(plan);
  }

  Platform platform_;
  ArenaPlanOptions options_{.alignment = 1};
};

TEST_F(MakePlanTest, HasNoWaitsWhereEverythingIsComputed) {
  const ArenaPlan plan = Make(2, "S1 S2 S3 B3 B2 B1");
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
  const ArenaPlan plan = Make(2, "S1 O1 S2 R1 S3 B3 P1 B2 B1");
  EXPECT_THAT(plan.commands[1].waits, ElementsAre(0));  // the offload waits for the forward
  EXPECT_THAT(plan.commands[2].waits, IsEmpty());       // the next forward does not wait
  EXPECT_THAT(plan.commands[3].waits, ElementsAre(1));  // the release waits for the offload
  EXPECT_EQ(plan.commands[3].queue, Queue::kCompute);  // so later computations wait for the release
  EXPECT_THAT(plan.commands[6].waits, ElementsAre(5));  // the prefetch waits for the backward
  EXPECT_EQ(plan.commands[6].queue, Queue::kToDevice);
  EXPECT_THAT(plan.commands[7].waits, ElementsAre(6));  // the next backward waits for the prefetch
  EXPECT_THAT(plan.commands[8].waits, IsEmpty());  // implied by the wait of the backward before
}

TEST_F(MakePlanTest, LetsAPrefetchWaitForTheReleaseThatMakesRoom) {
  //                        0  1  2  3  4  5  6  7  8  9  10
  const ArenaPlan plan = Make(3, "S1 S2 O1 R1 S3 O2 S4 B4 P1 R2 P2 B3 B2 B1");
  EXPECT_THAT(plan.commands[8].waits, ElementsAre(7));   // before that release
  EXPECT_THAT(plan.commands[10].waits, ElementsAre(9));  // after it
}

TEST_F(MakePlanTest, LetsAnOffloadWaitForThePrefetchOfItsValue) {
  const ArenaPlan plan = Make(2, "S1 O1 R1 P1 O1 R1 P1 S2 S3 B3 B2 B1");
  EXPECT_THAT(plan.commands[4].waits, ElementsAre(3));
}

TEST_F(MakePlanTest, LetsAnOffloadWaitForAPrefetchThatStillReadsItsHostMemory) {
  // Value 2 is copied to the host memory that the prefetch of value 1 reads.
  const ArenaPlan plan = Make(3, "S1 S2 O1 R1 S3 P1 O2 R2 S4 B4 P2 B3 B2 B1");
  EXPECT_EQ(plan.host.layout.bytes, 30);
  EXPECT_THAT(plan.commands[6].waits, ElementsAre(4, 5));
}

TEST_F(MakePlanTest, HasOneQueueOfCopiesOnAHalfDuplexLink) {
  platform_.half_duplex = true;
  const ArenaPlan plan = Make(3, "S1 S2 O1 R1 S3 P1 O2 R2 S4 B4 P2 B3 B2 B1");
  EXPECT_EQ(plan.commands[5].queue, Queue::kToHost);
  EXPECT_THAT(plan.commands[6].waits,
              IsEmpty());  // on one queue after the prefetch, which waits for the forward
}

TEST_F(MakePlanTest, CountsTheRunsOfAForward) {
  const ArenaPlan plan = Make(2, "C1 S2 S3 B3 B2 S1 B1");
  EXPECT_EQ(plan.commands[0].run, 0);
  EXPECT_EQ(plan.commands[5].run, 1);
  EXPECT_TRUE(plan.commands[0].repeated);
  EXPECT_FALSE(plan.commands[1].repeated);
}

// Of stages with replay_seconds: the second stage has none.
TEST_F(MakePlanTest, MarksReplaysAndTheForwardsBeforeThem) {
  Chain chain = EqualChain(2);
  chain.stages[0].replay_seconds = 0.5;
  const auto marks = [&](absl::string_view schedule) {
    const auto plan = MakeFrameworkPlan(chain, platform_, Ops(schedule));
    EXPECT_THAT(plan, IsOk());
    std::string text;
    for (const Command& command : plan->commands) {
      text += command.replay ? 'r' : command.replayed ? 'b' : '.';
    }
    return text;
  };
  EXPECT_EQ(marks("C1 C2 S3 B3 S2 B2 S1 B1"), "b.....r.");
  EXPECT_EQ(marks("S1 D2 S3 B3 C1 S2 B2 S1 B1"), "....b..r.");
  // Not where others read the output, nor where it is copied.
  EXPECT_EQ(marks("C1 D2 S3 B3 S1 S2 B2 B1"), "........");
  EXPECT_EQ(marks("C1 C2 S3 B3 S2 B2 S1 O1 R1 P1 B1"), "...........");
}

TEST_F(MakePlanTest, LeavesValuesToAFrameworkWhereAsked) {
  const auto plan = MakeFrameworkPlan(EqualChain(2), platform_, Ops("S1 O1 S2 R1 S3 B3 P1 B2 B1"),
                                      {.alignment = 1});
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->host.layout.bytes, 30);
  for (const Command& command : plan->commands) {
    for (const int block : {command.input, command.value, command.gradient, command.input_gradient,
                            command.workspace}) {
      EXPECT_EQ(block, kNoBlock);
    }
  }
}

TEST_F(MakePlanTest, RefusesTheScheduleOfAnotherChain) {
  EXPECT_THAT(MakeArenaPlan(EqualChain(3), platform_, Ops("S1 S2 S3 B3 B2 B1")),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("operations[3] BACKWARD 3")));
  EXPECT_THAT(MakeArenaPlan(EqualChain(1), platform_, Ops("S1 S2 S3 B3 B2 B1")),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("operations[2] FORWARD_SAVE 3")));
}

TEST_F(MakePlanTest, RefusesAScheduleThatDoesNotFit) {
  EXPECT_THAT(MakeArenaPlan(EqualChain(2), Memory(60), Ops("S1 S2 S3 B3 B2 B1")),
              Fails(absl::StatusCode::kInvalidArgument,
                    HasSubstr("operations[1] FORWARD_SAVE 2 is over a limit")));
}

TEST_F(MakePlanTest, RefusesAnArenaOrAPoolOverItsLimit) {
  const Schedule schedule = Ops("S1 O1 S2 R1 S3 B3 P1 B2 B1");
  const auto make = [&](const ArenaPlanOptions& options) {
    return MakeArenaPlan(EqualChain(2), platform_, schedule, options);
  };
  const int64_t arena = make({})->device.layout.bytes;
  EXPECT_THAT(make({.arena_bytes = arena, .pool_bytes = 256}), IsOk());
  EXPECT_THAT(make({.arena_bytes = arena - 1}),
              Fails(absl::StatusCode::kResourceExhausted, HasSubstr("the arena takes")));
  EXPECT_THAT(make({.pool_bytes = 255}),
              Fails(absl::StatusCode::kResourceExhausted,
                    HasSubstr("the pool of host copies takes 256 B, 1 bytes more")));
}

TEST_F(MakePlanTest, RefusesAnInvalidChain) {
  Chain chain = EqualChain(2);
  chain.stages[1].saved_bytes = 3;
  EXPECT_THAT(MakeArenaPlan(chain, platform_, Ops("S1 S2 S3 B3 B2 B1"), options_),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("stages[1].saved_bytes")));
}

// Stages 2 and 3 are one in graph mode, stage 4 by itself.
Chain ChainWithModes() {
  Chain chain = EqualChain(4);
  for (const int l : {2, 3}) chain.stages[static_cast<size_t>(l) - 1].fusion_group = "pair";
  for (const int l : {2, 3, 4}) {
    chain.stages[static_cast<size_t>(l) - 1].graph = {
        .forward_seconds = 0.5, .backward_seconds = 1, .saved_bytes = 20};
  }
  chain.graph_entry_seconds = 0.25;
  return chain;
}

TEST_F(MakePlanTest, TreatsAUnitInGraphModeAsOneStage) {
  const Chain chain = ChainWithModes();
  const auto plan =
      MakeArenaPlan(chain, platform_, Ops("S1 gS2-3 O3 S4 R3 S5 B5 P3 B4 gB2-3 B1"), options_);
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->chain().length(), 3);
  EXPECT_EQ(plan->chain().saved_bytes(2), 40);
  std::vector<int> stages;
  std::vector<std::string> names;
  for (const Command& command : plan->commands) {
    stages.push_back(command.stage);
    names.push_back(plan->NameOf(command));
  }
  EXPECT_THAT(stages, ElementsAre(1, 2, 2, 3, 2, 4, 4, 2, 3, 2, 1));
  EXPECT_THAT(names, ElementsAre("FORWARD_SAVE 1", "FORWARD_SAVE 2-3 graph", "OFFLOAD 3",
                                 "FORWARD_SAVE 4", "RELEASE 3", "FORWARD_SAVE 5", "BACKWARD 5",
                                 "PREFETCH 3", "BACKWARD 4", "BACKWARD 2-3 graph", "BACKWARD 1"));
  EXPECT_EQ(plan->host.layout.bytes, 40);
  EXPECT_EQ(plan->device.layout.bytes, plan->prediction.peak_memory_bytes);
  // Entering graph mode is in the time that was predicted of the chain, not in its stages'.
  const auto simulated = Simulate(chain, platform_, Ops("S1 gS2-3 S4 S5 B5 B4 gB2-3 B1"));
  ASSERT_THAT(simulated, IsOk());
  EXPECT_EQ(simulated->prediction.compute_seconds, 3 + 3 + 3 + 0.25);
}

TEST_F(MakePlanTest, RefusesOtherWaysToSaveThanTheStagesOwn) {
  Chain chain = EqualChain(2);
  chain.stages[1].save_options = {{"", 20, 3, 0}};
  const Schedule schedule = Ops("S1 S2:1 S3 B3 B2 B1");
  const auto refused =
      Fails(absl::StatusCode::kUnimplemented,
            HasSubstr("operations[1] FORWARD_SAVE 2 save_option 1: stages in an arena are saved in "
                      "their own way only; solve the chain again without save_options"));
  EXPECT_THAT(MakeArenaPlan(chain, platform_, schedule, options_), refused);
  EXPECT_THAT(MakeArenaPlan(chain, platform_, Ops("S1 S2 S3 B3 B2 B1")), IsOk());
}

TEST_F(MakePlanTest, RefusesModesThatTheChainDoesNotHave) {
  const auto fails = [&](const char* operations, const char* what) {
    EXPECT_THAT(MakeArenaPlan(ChainWithModes(), platform_, Ops(operations)),
                Fails(absl::StatusCode::kInvalidArgument, HasSubstr(what)));
  };
  fails("gS1 S2 S3 S4 S5 B5 B4 B3 B2 B1", "operations[0] FORWARD_SAVE 1 graph: stage 1 cannot");
  fails("S1 gS2 S3 S4 S5 B5 B4 B3 B2 B1", "set first_stage to 2 and stage to 3");
  fails("S1 gS2-3 S4 S5 B5 B4 B3 B2 B1", "operations[6] BACKWARD 3: stages 2 to 3 ran in graph");
}

}  // namespace
}  // namespace stowage
