#include "solver/solve/answer_request.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <stop_token>
#include <utility>

#include "solver/algorithms/working_bytes.h"
#include "solver/bounds/memory_range.h"
#include "solver/simulator/simulator.h"
#include "solver/solve/catalog.h"
#include "tests/support/chains.h"
#include "tests/support/profiles.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

TEST(AnswerRequest, NamesTheFloorAndItsOperationWhenInfeasible) {
  const auto answer = AnswerRequest({EqualChain(4), Memory(10), "", {}}, {});
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(answer->outcome, Outcome::kInfeasible);
  EXPECT_EQ(answer->solver, "auto");
  EXPECT_EQ(answer->memory_floor_bytes, 60);
  EXPECT_EQ(answer->memory_floor_operation, (Operation{OperationKind::kBackward, 1}));
  EXPECT_GE(answer->minimum_memory_bytes, 60);
  EXPECT_TRUE(answer->schedule.operations.empty());
}

TEST(AnswerRequest, PredictsForTheExactChainNotTheRoundedOne) {
  SolveRequest request{EqualChain(6), Memory(int64_t{150} << 20), "rotor", {.time_precision = 0.5}};
  for (Stage& stage : request.chain.stages) {
    stage.forward_seconds = 1.234567;
    stage.output_bytes = 10'000'001;
    stage.saved_bytes = 30'000'001;
  }
  const auto answer = AnswerRequest(request, {});
  ASSERT_THAT(answer, IsOk());
  ASSERT_NE(answer->outcome, Outcome::kInfeasible);
  const auto exact = Simulate(request.chain, request.platform, answer->schedule);
  ASSERT_THAT(exact, IsOk());
  EXPECT_EQ(answer->prediction.makespan_seconds, exact->prediction.makespan_seconds);
  EXPECT_EQ(answer->prediction.peak_memory_bytes, exact->prediction.peak_memory_bytes);
  EXPECT_TRUE(exact->feasible());
}

TEST(AnswerRequest, CallsNothingOptimalThatWasRounded) {
  // A schedule outside rotor's class is faster, so that the lower bound proves nothing.
  SolveRequest request{NonPersistentChain(5), Memory(9), "rotor", {.memory_slots = 1000}};
  EXPECT_EQ(AnswerRequest(request, {})->outcome, Outcome::kOptimal);
  request.options.time_precision = 0.3;
  const auto rounded = AnswerRequest(request, {});
  EXPECT_EQ(rounded->outcome, Outcome::kFeasible);
  EXPECT_EQ(rounded->guarantee, Guarantee::kUpToRounding);
}

TEST(AnswerRequest, ReportsWhatRoundingCosts) {
  Chain chain = EqualChain(80);
  for (int l = 0; l < 80; ++l) chain.stages[l].saved_bytes = 1'000'000 + l * 7919 % 400'000;
  SolveRequest request{chain, Memory(30'000'000), "rotor", {.memory_slots = 20}};
  EXPECT_FALSE(AnswerRequest(request, {})->rounding_loss.has_value());
  request.options.report_rounding_loss = true;
  const auto coarse = AnswerRequest(request, {});
  ASSERT_THAT(coarse, IsOk());
  ASSERT_TRUE(coarse->rounding_loss.has_value());
  EXPECT_EQ(coarse->rounding_loss->finer_slots, 200);
  EXPECT_GT(coarse->rounding_loss->loss, 0);
  request.options.memory_slots = 200;
  EXPECT_EQ(AnswerRequest(request, {})->prediction.makespan_seconds,
            coarse->rounding_loss->finer_seconds);
  // An optimal answer loses nothing, and a solver without slots has no loss.
  request.chain = EqualChain(10);
  request.platform = Memory(200);
  EXPECT_EQ(AnswerRequest(request, {})->rounding_loss->finer_slots, 0);
  EXPECT_EQ(AnswerRequest(request, {})->rounding_loss->loss, 0);
  request.solver = "periodic";
  EXPECT_FALSE(AnswerRequest(request, {})->rounding_loss.has_value());
}

TEST(AnswerRequest, LeavesOutTheRoundingLossWhereMemoryIsShort) {
  Chain chain = EqualChain(80);
  for (int l = 0; l < 80; ++l) chain.stages[l].saved_bytes = 1'000'000 + l * 7919 % 400'000;
  SolveContext context;
  context.working_bytes = 1'500'000;
  const auto answer = AnswerRequest(
      {chain, Memory(30'000'000), "rotor", {.memory_slots = 20, .report_rounding_loss = true}},
      context);
  ASSERT_THAT(answer, IsOk());
  EXPECT_FALSE(answer->rounding_loss.has_value());
  EXPECT_THAT(answer->explanation.notes,
              testing::ElementsAre(testing::HasSubstr("loss due to rounding is not known")));
}

TEST(AnswerRequest, SaysWhenASolverKeepsInputsThatNoBackwardReads) {
  SolveRequest request{EqualChain(3), Memory(1000), "periodic", {}};
  EXPECT_THAT(AnswerRequest(request, {})->explanation.notes, testing::IsEmpty());
  request.chain.stages[1].input_unread = true;
  EXPECT_THAT(AnswerRequest(request, {})->explanation.notes,
              testing::ElementsAre(testing::HasSubstr("input_unread makes no difference")));
  request.solver = "rotor";
  EXPECT_THAT(AnswerRequest(request, {})->explanation.notes, testing::IsEmpty());
}

TEST(AnswerRequest, SaysWhenASolverSavesEveryStageInItsOwnWay) {
  SolveRequest request{EqualChain(3), Memory(1000), "periodic", {}};
  request.chain.stages[1].save_options = {{"", 10, 3, 0}};
  EXPECT_THAT(AnswerRequest(request, {})->explanation.notes,
              testing::ElementsAre(testing::HasSubstr("save_options make no difference")));
  for (const char* solver : {"rotor", "flat", "per_layer", "block", "every_nth"}) {
    request.solver = solver;
    EXPECT_THAT(AnswerRequest(request, {})->explanation.notes, testing::IsEmpty()) << solver;
  }
}

TEST(AnswerRequest, SaysWhenABandwidthMakesNoDifference) {
  SolveRequest request{EqualChain(3), Memory(1000), "rotor", {}};
  EXPECT_THAT(AnswerRequest(request, {})->explanation.notes, testing::IsEmpty());
  request.platform.offload_bytes_per_second = 12e9;
  EXPECT_THAT(AnswerRequest(request, {})->explanation.notes,
              testing::ElementsAre("rotor does not offload: the bandwidths make no difference"));
}

// The exact sizes fit the budget; the sizes rounded up to granules do not.
TEST(AnswerRequest, SolvesExactSizesWhereOnlyRoundingMakesABudgetTooSmall) {
  Chain chain = EqualChain(6);
  for (Stage& stage : chain.stages) {
    stage.output_bytes = 10'000'001;
    stage.saved_bytes = 30'000'001;
  }
  for (const char* solver : {"store_all", "periodic", "rotor", "auto"}) {
    const auto probe = AnswerRequest({chain, Memory(1000), solver, {}}, {});
    ASSERT_THAT(probe, IsOk());
    const int64_t least = *probe->minimum_memory_bytes;
    ASSERT_GT(least, int64_t{2} << 20) << "a granule is more than a byte";
    const auto at_least = AnswerRequest({chain, Memory(least), solver, {}}, {});
    ASSERT_THAT(at_least, IsOk());
    EXPECT_NE(at_least->outcome, Outcome::kInfeasible) << solver;
    EXPECT_EQ(at_least->prediction.peak_memory_bytes, least) << solver;
  }
}

TEST(Auto, TakesTheBestScheduleAndNamesItsSolver) {
  const Chain chain = EqualChain(12);
  const auto best = AnswerRequest({chain, Memory(200), "", {}}, {});
  ASSERT_THAT(best, IsOk());
  for (const SolverInfo& info : AllSolvers()) {
    const auto one = AnswerRequest({chain, Memory(200), info.description.name, {}}, {});
    ASSERT_THAT(one, IsOk());
    if (one->outcome == Outcome::kInfeasible) continue;
    EXPECT_LE(best->prediction.makespan_seconds, one->prediction.makespan_seconds);
  }
  EXPECT_EQ(best->solver, "rotor");
  EXPECT_EQ(best->outcome, Outcome::kOptimal);  // the guarantee of the solver that wins
  EXPECT_EQ(AnswerRequest({chain, Memory(1000), "", {}}, {})->solver, "store_all");
}

TEST(Auto, AsksForFewerSlotsOrLeavesOutWhatDoesNotFit) {
  Chain chain = EqualChain(40);
  for (Stage& stage : chain.stages) {
    stage.output_bytes = 200'001;
    stage.saved_bytes = 1'000'003;
  }
  chain.stages[0].forward_seconds = 5;  // every periodic schedule runs it twice
  const SolveRequest request{chain, Memory(12'000'000), "", {.memory_slots = 500}};
  SolveContext context;
  context.working_bytes = 1'000'000;  // a table of fewer slots
  const auto fewer = AnswerRequest(request, context);
  ASSERT_THAT(fewer, IsOk());
  EXPECT_EQ(fewer->solver, "rotor");
  EXPECT_THAT(fewer->explanation.notes,
              testing::ElementsAre(testing::StartsWith("rotor was given only"),
                                   testing::StartsWith("rotor finds the fastest nested")));
  EXPECT_EQ(fewer->guarantee, Guarantee::kBestOfClass);
  context.working_bytes = 50'000;  // no table at all
  const auto without = AnswerRequest(request, context);
  ASSERT_THAT(without, IsOk());
  EXPECT_EQ(without->solver, "periodic");
  EXPECT_THAT(without->explanation.notes,
              testing::ElementsAre(testing::StartsWith("rotor was left out")));
  EXPECT_LT(fewer->prediction.makespan_seconds, without->prediction.makespan_seconds);
}

TEST(MostSlotsWithin, FindsTheLastCountThatFits) {
  const auto rotor = FindSolver("rotor")->make();
  Chain chain = EqualChain(30);
  chain.input_bytes = 1 << 20;
  const Instance instance = Instance::Exact({chain, Memory(1 << 20), "rotor", {}});
  const auto most = MostSlotsWithin(*rotor, instance, 3'000'000);
  ASSERT_TRUE(most.has_value());
  EXPECT_LE(rotor->WorkingBytes(instance.WithMemorySlots(*most)), 3'000'000);
  EXPECT_GT(rotor->WorkingBytes(instance.WithMemorySlots(*most * 2)), 3'000'000);
  EXPECT_EQ(MostSlotsWithin(*rotor, instance, 10), std::nullopt);
}

// A table that rounds has levels beyond the budget, an exact one has not: no number of slots takes
// more than one slot for each byte.
TEST(MostSlotsWithin, FindsThatExactSlotsFit) {
  const auto rotor = FindSolver("rotor")->make();
  Chain chain = EqualChain(30);
  chain.input_bytes = 600;
  for (int l = 0; l < 30; ++l) chain.stages[l].saved_bytes = 10 + l * 37 % 29;  // no grid fits
  const Instance instance = Instance::Exact({chain, Memory(800), "rotor", {}});
  const int64_t exact_bytes = rotor->WorkingBytes(instance.WithMemorySlots(800));
  int64_t fewer = 0;
  for (int64_t slots = 1; slots < 2000; ++slots) {
    const int64_t bytes = rotor->WorkingBytes(instance.WithMemorySlots(slots));
    EXPECT_GE(bytes, fewer) << slots;
    EXPECT_LE(bytes, exact_bytes) << slots;
    fewer = bytes;
  }
  EXPECT_EQ(MostSlotsWithin(*rotor, instance, exact_bytes), 800);
}

TEST(AnswerRequest, ReportsEachFasterScheduleOnTheWay) {
  SolveRequest request{EqualChain(12), Memory(150), "auto", {}};
  request.platform.offload_bytes_per_second = 10;
  std::vector<double> seconds;
  SolveContext context;
  context.improved = [&](const Candidate& candidate) {
    const auto simulation = Simulate(request.chain, request.platform, candidate.schedule);
    ASSERT_THAT(simulation, IsOk());
    EXPECT_TRUE(simulation->feasible());
    seconds.push_back(simulation->prediction.makespan_seconds);
  };
  const auto answer = AnswerRequest(request, context);
  ASSERT_THAT(answer, IsOk());
  ASSERT_GE(seconds.size(), 2);
  for (size_t i = 1; i < seconds.size(); ++i) EXPECT_LT(seconds[i], seconds[i - 1]);
  EXPECT_EQ(seconds.back(), answer->prediction.makespan_seconds);
}

// `rotor` is the first to report, and optimal in its class; `pofo` is faster.
TEST(AnswerRequest, NoScheduleOnTheWayIsOptimalUnlessItMeetsTheBound) {
  SolveRequest request{EqualChain(12), Memory(150), "auto", {}};
  request.platform.offload_bytes_per_second = 10;
  std::vector<Answer> answers;
  const auto last = AnswerRequest(request, RequestInstances(request), SolveContext(),
                                  [&](const Answer& better) { answers.push_back(better); });
  ASSERT_THAT(last, IsOk());
  ASSERT_GE(answers.size(), 2);
  for (const Answer& answer : answers) {
    if (answer.prediction.makespan_seconds > last->prediction.makespan_seconds) {
      EXPECT_EQ(answer.outcome, Outcome::kFeasible) << answer.solver;
      EXPECT_EQ(answer.guarantee, Guarantee::kTimeRanOut) << answer.solver;
    }
  }
}

// For callers with little time: a chain this long takes `auto` minutes.
TEST(AnswerRequest, HasAScheduleBeforeAnythingThatTakesLong) {
  SolveRequest request{EqualChain(4000), {}, "auto", {}};
  const int64_t all = StoreAllPeakBytes(request.chain);
  // A hundredth is less than any checkpoints at equal distances need.
  for (const auto& [memory, solver] : {std::pair(all, "store_all"), std::pair(all / 3, "periodic"),
                                       std::pair(all / 100, "periodic")}) {
    request.platform = Memory(memory);
    std::optional<Answer> first;
    std::stop_source stop;
    SolveContext context;
    context.stop = stop.get_token();
    const auto answer =
        AnswerRequest(request, RequestInstances(request), context, [&](const Answer& better) {
          if (!first.has_value()) first = better;
          stop.request_stop();
        });
    EXPECT_TRUE(absl::IsCancelled(answer.status()));
    ASSERT_TRUE(first.has_value());
    EXPECT_EQ(first->solver, solver);
    const auto simulation = Simulate(request.chain, request.platform, first->schedule);
    ASSERT_THAT(simulation, IsOk());
    EXPECT_TRUE(simulation->feasible());
  }
}

}  // namespace
}  // namespace stowage
