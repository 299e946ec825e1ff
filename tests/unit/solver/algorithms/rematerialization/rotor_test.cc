#include "solver/algorithms/rematerialization/rotor.h"

#include <gtest/gtest.h>

#include <stop_token>
#include <string>

#include "solver/algorithms/rematerialization/rotor_part.h"
#include "solver/algorithms/rematerialization/rotor_table.h"
#include "solver/bounds/memory_range.h"
#include "solver/simulator/simulator.h"
#include "solver/solve/answer_request.h"
#include "tests/support/brute_force.h"
#include "tests/support/chains.h"
#include "tests/support/network_chains.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

absl::StatusOr<Answer> ExactRotor(const Chain& chain, int64_t memory_bytes) {
  return AnswerRequest({chain, Memory(memory_bytes), "rotor", {.memory_slots = 100'000}}, {});
}

TEST(Rotor, StoresAllWhereThatFits) {
  const auto answer = ExactRotor(EqualChain(8), 1000);
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(answer->outcome, Outcome::kOptimal);
  EXPECT_EQ(answer->prediction.recompute_seconds, 0);
}

TEST(Rotor, RecomputesOneStageToSaveOne) {
  // Storing all of two stages peaks in BACKWARD 2 at 10 + 30 + 30 + 10 + 10 = 90. One byte less:
  // keep only the output of stage 1 and run it once more.
  const auto answer = ExactRotor(EqualChain(2), 89);
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(answer->schedule, Ops("C1 S2 S3 B3 B2 S1 B1"));
  EXPECT_EQ(answer->prediction.makespan_seconds, 7);
}

TEST(Rotor, SavesNoRecomputeStagesInTheFirstSweep) {
  Chain chain = EqualChain(5);
  chain.stages[2].no_recompute = true;
  const auto answer = ExactRotor(chain, 130);
  ASSERT_THAT(answer, IsOk());
  ASSERT_NE(answer->outcome, Outcome::kInfeasible);
  int runs = 0;
  for (const Operation& operation : answer->schedule.operations) {
    if (!IsForward(operation.kind) || operation.stage != 3) continue;
    EXPECT_EQ(operation.kind, OperationKind::kForwardSave);
    ++runs;
  }
  EXPECT_EQ(runs, 1);
  EXPECT_GT(answer->prediction.recompute_seconds, 0);  // the others do run again
}

// RR-9302, section 4.1, in the memory model of solver/README.md: the cost of the best persistent
// schedule, and a faster schedule that drops the checkpoint a^1 early.
TEST(Rotor, IsBeatenByANonPersistentScheduleOnTheReportsExample) {
  for (const int n : {2, 3, 5, 9}) {
    const Chain chain = NonPersistentChain(n);
    const int L = n + 4;
    const auto persistent = ExactRotor(chain, 9);
    ASSERT_THAT(persistent, IsOk());
    EXPECT_EQ(persistent->outcome, Outcome::kOptimal);
    EXPECT_EQ(persistent->prediction.makespan_seconds, 3 * n + 3);

    // First sweep with a^1 kept; once the large stage L is done, a^1 makes room for a^2, from which
    // every stage behind is recomputed for nothing; stages 1 and 2 run once more at the end.
    Schedule schedule;
    const auto add = [&schedule](OperationKind kind, int l) {
      schedule.operations.push_back({kind, l});
    };
    const auto sweep = [&add](int first, int last) {
      add(OperationKind::kForwardCheckpoint, first);
      for (int l = first + 1; l < last; ++l) add(OperationKind::kForwardDiscard, l);
      if (last > first) add(OperationKind::kForwardSave, last);
    };
    add(OperationKind::kForwardCheckpoint, 1);
    sweep(2, L);
    add(OperationKind::kForwardSave, L + 1);
    add(OperationKind::kBackward, L + 1);
    add(OperationKind::kBackward, L);
    add(OperationKind::kForwardDiscard, 2);  // drops a^1, which a forward had read and left
    for (int l = L - 1; l > 3; --l) {
      sweep(3, l);
      add(OperationKind::kBackward, l);
    }
    add(OperationKind::kForwardSave, 3);
    add(OperationKind::kBackward, 3);
    for (const int l : {1, 2}) add(OperationKind::kForwardSave, l);
    for (const int l : {2, 1}) add(OperationKind::kBackward, l);

    const auto faster = Simulate(chain, Memory(9), schedule);
    ASSERT_THAT(faster, IsOk());
    EXPECT_TRUE(faster->feasible());
    EXPECT_EQ(faster->prediction.makespan_seconds, 2 * n + 4);
  }
}

// The brute force confirms both figures.
TEST(Rotor, BruteForceConfirmsTheReportsExample) {
  const Chain chain = NonPersistentChain(3);
  EXPECT_EQ(FastestByBruteForce(chain, 9, ScheduleClass::kNestedPersistent)->seconds, 12);
  EXPECT_EQ(FastestByBruteForce(chain, 9, ScheduleClass::kAny)->seconds, 10);
}

// The proof of Theorem 1 assumes that while a checkpoint exists nothing before it needs to be
// recomputed. This does not hold if gradients differ from outputs: here stage 1 runs again early,
// before the large gradient of stage 4 exists, and the schedule still satisfies the definition of
// persistent. Rotor, like the report, excludes such schedules. They require zero-sized values or
// gradients larger than outputs.
TEST(Rotor, LeavesOutPersistentSchedulesThatAreNotNested) {
  Chain chain;
  chain.input_bytes = 0;
  chain.input_gradient_bytes = 3;
  chain.stages.resize(4);
  const int64_t output[] = {5, 0, 0, 0};
  const int64_t saved[] = {10, 1, 1, 5};
  const int64_t gradient[] = {0, 6, 0, 6};
  const int64_t overhead[] = {6, 0, 3, 0};
  const double backward[] = {2, 2, 0, 3};
  for (int i = 0; i < 4; ++i) {
    chain.stages[i].output_bytes = output[i];
    chain.stages[i].saved_bytes = saved[i];
    chain.stages[i].gradient_bytes = gradient[i];
    chain.stages[i].forward_overhead_bytes = overhead[i];
    chain.stages[i].forward_seconds = i == 0 ? 3 : 4;
    chain.stages[i].backward_seconds = backward[i];
  }
  chain.stages[0].forward_seconds = 4;
  chain.loss.output_bytes = chain.loss.saved_bytes = 3;
  const double nested = FastestByBruteForce(chain, 16, ScheduleClass::kNestedPersistent)->seconds;
  const double by_the_letter = FastestByBruteForce(chain, 16, ScheduleClass::kPersistent)->seconds;
  EXPECT_EQ(nested, 39);
  EXPECT_EQ(by_the_letter, 35);
  EXPECT_EQ(ExactRotor(chain, 16)->prediction.makespan_seconds, nested);
}

// If recomputation costs nothing, every schedule is equally fast, and most are far too long.
TEST(Rotor, TakesTheShortestOfEquallyFastSchedules) {
  Chain chain = EqualChain(200);
  for (Stage& stage : chain.stages) stage.forward_seconds = 0;
  const auto answer = ExactRotor(chain, 400);
  ASSERT_THAT(answer, IsOk());
  ASSERT_NE(answer->outcome, Outcome::kInfeasible);
  // The same with forwards that take time, which are not wasted.
  const auto timed = ExactRotor(EqualChain(200), 400);
  EXPECT_EQ(answer->schedule.operations.size(), timed->schedule.operations.size());
}

TEST(Rotor, StopsWhenCancelled) {
  std::stop_source stop;
  SolveContext context;
  context.stop = stop.get_token();
  context.progress = [&stop](double fraction) {
    if (fraction > 0.1) stop.request_stop();
  };
  const SolveRequest request{EqualChain(100), Memory(400), "rotor", {}};
  EXPECT_THAT(AnswerRequest(request, context), Fails(absl::StatusCode::kCancelled, testing::_));
}

TEST(Rotor, ReportsProgressThatOnlyGrows) {
  double last = 0;
  SolveContext context;
  context.progress = [&last](double fraction) {
    EXPECT_GE(fraction, last);
    EXPECT_LE(fraction, 1);
    last = fraction;
  };
  // More bytes than slots.
  Chain chain = EqualChain(20);
  chain.input_bytes = 1 << 20;
  chain.input_gradient_bytes = 0;
  ASSERT_THAT(
      AnswerRequest({chain, Memory((1 << 20) + 300), "rotor", {.memory_slots = 50}}, context),
      IsOk());
  EXPECT_EQ(last, 1);
}

TEST(Rotor, SaysHowManySlotsFitTheMemoryForASolve) {
  SolveContext context;
  context.working_bytes = 3 << 19;
  Chain chain = EqualChain(100);
  for (Stage& stage : chain.stages) stage.saved_bytes = 1'000'000;
  SolveRequest request{chain, Memory(30'000'000), "rotor", {}};
  const auto refused = AnswerRequest(request, context);
  ASSERT_THAT(refused, Fails(absl::StatusCode::kResourceExhausted,
                             testing::HasSubstr("set options.memory_slots to at most ")));
  const std::string text(refused.status().message());
  request.options.memory_slots = std::stoi(text.substr(text.find("at most ") + 8));
  EXPECT_GT(request.options.memory_slots, 5);
  EXPECT_THAT(AnswerRequest(request, context), IsOk());
  request.options.memory_slots *= 2;
  EXPECT_THAT(AnswerRequest(request, context),
              Fails(absl::StatusCode::kResourceExhausted, testing::_));
}

TEST(Rotor, SolvesShortChainsInBytesWhateverTheSlots) {
  Chain chain = EqualChain(12);
  for (Stage& stage : chain.stages) stage.saved_bytes = 1'000'003;
  const int64_t high = StoreAllPeakBytes(chain);
  const auto exact = ExactRotor(chain, high / 2);
  ASSERT_THAT(exact, IsOk());
  for (const int64_t slots : {100, 500}) {
    const auto answer =
        AnswerRequest({chain, Memory(high / 2), "rotor", {.memory_slots = slots}}, {});
    ASSERT_THAT(answer, IsOk());
    EXPECT_EQ(answer->outcome, Outcome::kOptimal);
    EXPECT_EQ(answer->prediction.makespan_seconds, exact->prediction.makespan_seconds);
  }
}

TEST(Rotor, FindsTheExactMinimumOfLongChainsWhateverTheSlots) {
  const Chain chain = EqualChain(70);
  const int64_t least = *ExactRotor(chain, 0)->minimum_memory_bytes;
  const auto coarse = AnswerRequest({chain, Memory(least), "rotor", {.memory_slots = 3}}, {});
  ASSERT_THAT(coarse, IsOk());
  EXPECT_NE(coarse->outcome, Outcome::kInfeasible);
  EXPECT_EQ(coarse->prediction.peak_memory_bytes, least);
}

// Saved values of about two slots, outputs of a fifth of a slot. Rounded to nearest the outputs
// cost nothing, and the table's best schedule that fits is slower than a periodic one.
TEST(Rotor, IsNoSlowerThanEqualSegmentsWhereOutputsAreRoundedToNothing) {
  Chain chain = EqualChain(300);
  chain.input_bytes = 100;
  for (Stage& stage : chain.stages) {
    stage.output_bytes = 100;
    stage.saved_bytes = 1000;
  }
  for (const int64_t budget : {45'000, 60'000, 75'000}) {
    const Platform platform = Memory(budget);
    const auto rotor = AnswerRequest({chain, platform, "rotor", {.memory_slots = 150}}, {});
    const auto periodic = AnswerRequest({chain, platform, "periodic", {}}, {});
    ASSERT_THAT(rotor, IsOk());
    ASSERT_THAT(periodic, IsOk());
    EXPECT_EQ(rotor->solver, "rotor");
    EXPECT_LE(rotor->prediction.makespan_seconds, periodic->prediction.makespan_seconds) << budget;
  }
}

// So few slots that no table can tell one stage from another.
TEST(Rotor, IsNoSlowerThanEqualSegmentsWithFewSlots) {
  const Chain chain = ResnetLikeNetwork(200);
  for (const int64_t slots : {3, 7, 20}) {
    const Platform platform = Memory(StoreAllPeakBytes(chain) / 4);
    const auto rotor = AnswerRequest({chain, platform, "rotor", {.memory_slots = slots}}, {});
    const auto periodic = AnswerRequest({chain, platform, "periodic", {}}, {});
    ASSERT_THAT(rotor, IsOk());
    ASSERT_THAT(periodic, IsOk());
    EXPECT_LE(rotor->prediction.makespan_seconds,
              periodic->prediction.makespan_seconds * (1 + 1e-9))
        << slots;
  }
}

// Recomputing everything for every backward takes a number of operations that grows with the square
// of the chain.
TEST(UnrollChoices, GivesUpOnSchedulesThatAreTooLong) {
  const auto keep_nothing = [](const RotorPart& part) { return RotorChoice{part.t, 0}; };
  EXPECT_EQ(UnrollChoices({1, 3, 0}, keep_nothing), Ops("C1 D2 S3 B3 C1 S2 B2 S1 B1"));
  EXPECT_TRUE(UnrollChoices({1, 1400, 0}, keep_nothing).has_value());
  EXPECT_FALSE(UnrollChoices({1, 1420, 0}, keep_nothing).has_value());
}

TEST(Triangle, NumbersEveryPairOnce) {
  const Triangle index(7);
  size_t expected = 0;
  for (int s = 0; s < 7; ++s) {
    for (int t = s; t < 7; ++t) EXPECT_EQ(index(s, t), expected++);
  }
  EXPECT_EQ(index.size(), expected);
}

TEST(SlotGrid, RoundsUpOrToNearestAndIsExactOnItsGranules) {
  const SlotGrid up{1000, 10, SlotGrid::Rounding::kUp};
  EXPECT_EQ(up.Slots(0), 0);
  EXPECT_EQ(up.Slots(1), 1);
  EXPECT_EQ(up.Slots(100), 1);
  EXPECT_EQ(up.Slots(101), 2);
  const SlotGrid nearest{1000, 10, SlotGrid::Rounding::kNearest};
  EXPECT_EQ(nearest.Slots(49), 0);
  EXPECT_EQ(nearest.Slots(50), 1);
  EXPECT_EQ(nearest.Slots(149), 1);
  EXPECT_FALSE(up.IsExact(1));
  EXPECT_TRUE(up.IsExact(100));
  // No overflow near the largest sizes.
  const SlotGrid huge{(int64_t{1} << 62) - 1, 1 << 20, SlotGrid::Rounding::kUp};
  EXPECT_EQ(huge.Slots((int64_t{1} << 62) - 1), 1 << 20);
}

}  // namespace
}  // namespace stowage
