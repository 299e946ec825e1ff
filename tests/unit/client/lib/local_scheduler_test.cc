#include "client/lib/local_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/service/origin.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

SolveRequest SmallRequest() {
  SolveRequest request;
  request.chain.input_bytes = 10;
  Stage stage;
  stage.forward_seconds = 1;
  stage.backward_seconds = 2;
  stage.output_bytes = 10;
  stage.saved_bytes = 30;
  request.chain.stages = {stage, stage, stage};
  request.platform.memory_bytes = 80;
  return request;
}

TEST(LocalScheduler, SolvesAndSimulatesAlike) {
  LocalScheduler scheduler({});
  const SolveRequest request = SmallRequest();
  const auto result = scheduler.Solve(request, {});
  ASSERT_THAT(result, IsOk());
  ASSERT_NE(result->answer->outcome, Outcome::kInfeasible);
  EXPECT_EQ(result->origin.source, Origin::Source::kSolved);
  EXPECT_THAT(result->origin.fingerprint, IsEmpty());
  const auto simulation =
      scheduler.Simulate({request.chain, request.platform, result->answer->schedule});
  ASSERT_THAT(simulation, IsOk());
  EXPECT_TRUE(simulation->simulation.feasible());
  EXPECT_EQ(simulation->simulation.prediction.makespan_seconds,
            result->answer->prediction.makespan_seconds);
}

TEST(LocalScheduler, ReportsEachBetterSchedule) {
  LocalScheduler scheduler({});
  double best = 0;
  SolveCall call;
  call.improved = [&best](const Answer& answer) { best = answer.prediction.makespan_seconds; };
  const auto result = scheduler.Solve(SmallRequest(), call);
  ASSERT_THAT(result, IsOk());
  EXPECT_GE(best, result->answer->prediction.makespan_seconds);
}

TEST(LocalScheduler, FindsAFrontier) {
  const SolveRequest request = SmallRequest();
  const auto result = LocalScheduler({}).FindFrontier(
      {request.chain, request.platform, "rotor", request.options, 0, {80, 200}});
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->frontier.points.size(), 2);
}

TEST(LocalScheduler, NamesEveryViolatedField) {
  LocalScheduler scheduler({});
  SolveRequest request = SmallRequest();
  request.chain.stages[1].saved_bytes = -1;
  EXPECT_THAT(scheduler.Solve(request, {}),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("chain.stages[1].saved_bytes")));
  EXPECT_THAT(scheduler.Simulate({request.chain, request.platform, {}}),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("chain.stages[1].saved_bytes")));
}

TEST(LocalScheduler, RefusesExecutionReports) {
  EXPECT_TRUE(absl::IsUnimplemented(LocalScheduler({}).ReportExecution({})));
}

}  // namespace
}  // namespace stowage
