#include "solver/solve/find_frontier.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stop_token>
#include <utility>
#include <vector>

#include "solver/bounds/memory_range.h"
#include "solver/solve/answer_request.h"
#include "solver/solve/catalog.h"
#include "solver/solve/request_violations.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

// Long enough that rotor uses slots, with uneven sizes.
Chain LongChain() {
  Chain chain = EqualChain(90);
  for (int l = 0; l < 90; ++l) {
    chain.stages[l].saved_bytes = 1'000'000 + l * 7919 % 400'000;
    chain.stages[l].output_bytes = 300'000 + l * 104'729 % 90'000;
    chain.stages[l].forward_seconds = 1 + l % 5;
  }
  return chain;
}

FrontierRequest Ask(const Chain& chain, const char* solver, int points) {
  FrontierRequest request;
  request.chain = chain;
  request.solver = solver;
  request.points = points;
  return request;
}

TEST(FindFrontier, GoesFromTheLeastToStoringEverything) {
  const Chain chain = EqualChain(12);
  const auto frontier = FindFrontier(Ask(chain, "rotor", 7), {});
  ASSERT_THAT(frontier, IsOk());
  ASSERT_EQ(frontier->points.size(), 7);
  EXPECT_EQ(frontier->points.front().memory_bytes, frontier->minimum_memory_bytes);
  EXPECT_EQ(frontier->points.back().memory_bytes, StoreAllPeakBytes(chain));
  EXPECT_EQ(frontier->points.back().prediction.overhead, 0);
  EXPECT_EQ(frontier->most_memory_bytes, StoreAllPeakBytes(chain));
  EXPECT_EQ(frontier->memory_floor_bytes, FloorOfMemory(chain).bytes);
  EXPECT_EQ(FindFrontier(Ask(chain, "rotor", 0), {})->points.size(), 20);
}

TEST(FindFrontier, GivesShortChainsTheAnswerOfEachBudgetFromOneSolve) {
  const Chain chain = EqualChain(12);
  const auto frontier = FindFrontier(Ask(chain, "rotor", 9), {});
  ASSERT_THAT(frontier, IsOk());
  EXPECT_EQ(frontier->solves, 1);
  for (const FrontierPoint& point : frontier->points) {
    const auto answer = AnswerRequest({chain, Memory(point.memory_bytes), "rotor", {}}, {});
    EXPECT_EQ(point.outcome, Outcome::kOptimal);
    EXPECT_EQ(point.prediction.makespan_seconds, answer->prediction.makespan_seconds);
    EXPECT_LE(point.prediction.peak_memory_bytes, point.memory_bytes);
  }
}

TEST(FindFrontier, NeedsOneTableForEachFactorOfTwo) {
  const Chain chain = LongChain();
  const auto frontier = FindFrontier(Ask(chain, "rotor", 30), {});
  ASSERT_THAT(frontier, IsOk());
  const double span = static_cast<double>(frontier->points.back().memory_bytes) /
                      static_cast<double>(frontier->points.front().memory_bytes);
  EXPECT_GT(span, 4);
  EXPECT_GT(frontier->solves, 1);
  EXPECT_LE(frontier->solves, std::ceil(std::log2(span)) + 1);
  for (const FrontierPoint& point : frontier->points) {
    const auto alone = AnswerRequest({chain, Memory(point.memory_bytes), "rotor", {}}, {});
    ASSERT_THAT(alone, IsOk());
    EXPECT_LT(point.prediction.makespan_seconds, alone->prediction.makespan_seconds * 1.01)
        << point.memory_bytes;
  }
}

TEST(FindFrontier, NeverLosesTimeByMoreMemory) {
  for (const SolverInfo& info : AllSolvers()) {
    const auto frontier = FindFrontier(Ask(LongChain(), info.description.name, 25), {});
    ASSERT_THAT(frontier, IsOk());
    EXPECT_TRUE(frontier->rejected.empty());
    for (size_t i = 1; i < frontier->points.size(); ++i) {
      EXPECT_GT(frontier->points[i].memory_bytes, frontier->points[i - 1].memory_bytes);
      EXPECT_LE(frontier->points[i].prediction.makespan_seconds,
                frontier->points[i - 1].prediction.makespan_seconds)
          << info.description.name << " " << i;
    }
  }
}

TEST(FindFrontier, TakesBudgetsInAnyOrderAndSaysWhichAreTooSmall) {
  FrontierRequest request = Ask(EqualChain(12), "rotor", 0);
  request.budgets = {1000, 20, 1000, 200};
  const auto frontier = FindFrontier(request, {});
  ASSERT_THAT(frontier, IsOk());
  ASSERT_EQ(frontier->points.size(), 3);
  EXPECT_EQ(frontier->points[0].memory_bytes, 20);
  EXPECT_EQ(frontier->points[0].outcome, Outcome::kInfeasible);
  EXPECT_EQ(frontier->points[1].memory_bytes, 200);
  EXPECT_EQ(frontier->points[1].outcome, Outcome::kOptimal);
  EXPECT_EQ(frontier->points[2].prediction.overhead, 0);
}

TEST(FindFrontier, AnswersWhenNothingIsFeasible) {
  FrontierRequest request = Ask(EqualChain(12), "", 0);
  request.budgets = {1, 2};
  const auto frontier = FindFrontier(request, {});
  ASSERT_THAT(frontier, IsOk());
  EXPECT_EQ(frontier->solves, 0);
  EXPECT_FALSE(frontier->knee.has_value());
}

TEST(FindFrontier, StopsWhenCancelled) {
  std::stop_source stop;
  stop.request_stop();
  SolveContext context;
  context.stop = stop.get_token();
  EXPECT_THAT(FindFrontier(Ask(LongChain(), "rotor", 5), context),
              Fails(absl::StatusCode::kCancelled, testing::_));
}

TEST(FindFrontier, RefusesWhatDoesNotFitItsMemory) {
  SolveContext context;
  context.working_bytes = 100'000;
  EXPECT_THAT(FindFrontier(Ask(LongChain(), "rotor", 5), context),
              Fails(absl::StatusCode::kResourceExhausted, testing::HasSubstr("rotor would need")));
}

// With a link each point starts from its neighbour's schedule. A budget that is solved alone starts
// from nothing, and must not be much faster for it.
void ExpectPointsCloseToSolves(const Chain& chain) {
  FrontierRequest request = Ask(chain, "", 5);
  request.platform.offload_bytes_per_second = 2e6;
  const auto frontier = FindFrontier(request, {});
  ASSERT_THAT(frontier, IsOk());
  EXPECT_TRUE(frontier->rejected.empty());
  ASSERT_EQ(frontier->points.size(), 5);
  for (const FrontierPoint& point : frontier->points) {
    EXPECT_NE(point.outcome, Outcome::kInfeasible);
    EXPECT_LE(point.prediction.peak_memory_bytes, point.memory_bytes);
    SolveRequest alone{chain, request.platform, "", {}};
    alone.platform.memory_bytes = point.memory_bytes;
    const auto answer = AnswerRequest(alone, {});
    ASSERT_THAT(answer, IsOk());
    EXPECT_LT(point.prediction.makespan_seconds, answer->prediction.makespan_seconds * 1.01)
        << point.memory_bytes;
    EXPECT_GE(point.prediction.makespan_seconds,
              answer->prediction.lower_bound_seconds * (1 - 1e-9));
  }
}

TEST(FindFrontier, WithALinkGivesWhatSolvesOfItsBudgetsGive) {
  Chain chain = LongChain();
  chain.stages.resize(30);
  ExpectPointsCloseToSolves(chain);
}

TEST(FindFrontier, WithALinkGivesWhatSolvesOfItsBudgetsGiveInGraphMode) {
  Chain chain = LongChain();
  chain.stages.resize(20);
  chain.graph_entry_seconds = 0.01;
  for (Stage& stage : chain.stages) {
    stage.graph = GraphCosts{.forward_seconds = 0.8 * stage.forward_seconds,
                             .backward_seconds = 0.9 * stage.backward_seconds,
                             .saved_bytes = stage.saved_bytes - 50'000};
  }
  ExpectPointsCloseToSolves(chain);
}

std::vector<FrontierPoint> Points(const std::vector<std::pair<int64_t, double>>& figures) {
  std::vector<FrontierPoint> points;
  for (const auto& [bytes, seconds] : figures) {
    FrontierPoint point;
    point.memory_bytes = bytes;
    point.outcome = seconds > 0 ? Outcome::kFeasible : Outcome::kInfeasible;
    point.prediction.makespan_seconds = seconds;
    points.push_back(point);
  }
  return points;
}

TEST(KneeOf, IsWhereTheLineBendsMost) {
  EXPECT_EQ(KneeOf(Points({{1, 0}, {2, 10}, {4, 4}, {8, 3}, {16, 2}})), 2);
  EXPECT_EQ(KneeOf(Points({{2, 10}, {4, 9}, {8, 3}, {16, 2}})), 2);
}

TEST(KneeOf, IsNotThereWhereNothingBends) {
  EXPECT_EQ(KneeOf({}), std::nullopt);
  EXPECT_EQ(KneeOf(Points({{1, 0}, {2, 0}})), std::nullopt);
  EXPECT_EQ(KneeOf(Points({{2, 10}, {4, 2}})), std::nullopt);
  EXPECT_EQ(KneeOf(Points({{2, 5}, {4, 5}, {8, 5}})), std::nullopt);
  EXPECT_EQ(KneeOf(Points({{2, 10}, {4, 9}, {8, 2}})), std::nullopt);  // above the line
}

TEST(RequestViolations, CoverTheBudgetsOfAFrontier) {
  FrontierRequest request = Ask(EqualChain(3), "rotor", 1);
  EXPECT_EQ(RequestViolations(request).size(), 1);
  request.points = 2;
  EXPECT_TRUE(RequestViolations(request).empty());
  request.budgets = {5};
  EXPECT_EQ(RequestViolations(request).front().field, "points");
  request.points = 0;
  request.budgets = {5, -1};
  ASSERT_EQ(RequestViolations(request).size(), 1);
  EXPECT_EQ(RequestViolations(request).front().field, "memory_bytes[1]");
  request.budgets.assign(1001, 5);
  EXPECT_EQ(RequestViolations(request).front().field, "memory_bytes");
}

}  // namespace
}  // namespace stowage
