#include "solver/solve/admit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "solver/solve/answer_request.h"
#include "solver/solve/request_violations.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using Fit = Verdict::Fit;
using Phase = Component::Phase;

AdmitRequest AskFor(TrainingJob job, std::vector<int64_t> memory) {
  AdmitRequest request;
  request.job = std::move(job);
  request.solver = "auto";
  for (const int64_t bytes : memory) request.devices.push_back({Memory(bytes)});
  return request;
}

Verdict Judge(const AdmitRequest& request, size_t device) {
  if (std::optional<Verdict> verdict = VerdictWithoutPlan(request, device)) return *verdict;
  const SolveRequest solve = PlanRequest(request, device);
  EXPECT_THAT(RequestViolations(solve), testing::IsEmpty());
  absl::StatusOr<Answer> answer = AnswerRequest(solve, {});
  EXPECT_THAT(answer, IsOk());
  return VerdictWithPlan(request, device, std::make_shared<const Answer>(*std::move(answer)));
}

// Storing all of EqualChain(3) takes 120 bytes, and its least is 60.
TrainingJob ThreeStages(std::vector<Component> components) {
  return {EqualChain(3), std::move(components)};
}

TEST(Admit, PartsOfAStepThatDoNotMeetAreNotAddedUp) {
  const AdmitRequest request = AskFor(
      ThreeStages(
          {{"weights", 100}, {"buckets", 50, Phase::kLayers}, {"copies", 180, Phase::kUpdate}}),
      {280, 279});
  const Verdict fits = Judge(request, 0);
  EXPECT_EQ(fits.fit, Fit::kFits);
  EXPECT_EQ(fits.peak_bytes, 280);
  EXPECT_TRUE(fits.peak_outside_layers);
  // No plan makes the optimizer's step smaller.
  const Verdict too_much = Judge(request, 1);
  EXPECT_EQ(too_much.fit, Fit::kDoesNotFit);
  EXPECT_EQ(too_much.minimum_memory_bytes, 280);
  EXPECT_EQ(too_much.plan, nullptr);
}

TEST(Admit, APlanIsForWhatTheRestOfTheJobLeaves) {
  const TrainingJob job = ThreeStages({{"weights", 1000}, {"buckets", 7, Phase::kLayers}});
  const Verdict verdict = Judge(AskFor(job, {1007 + 100}), 0);
  EXPECT_EQ(verdict.fit, Fit::kFitsWithPlan);
  EXPECT_EQ(verdict.platform.memory_bytes, 100);
  ASSERT_NE(verdict.plan, nullptr);
  EXPECT_EQ(verdict.peak_bytes, 1007 + verdict.plan->prediction.peak_memory_bytes);
  EXPECT_FALSE(verdict.minimum_memory_bytes.has_value());
}

TEST(Admit, WhatDoesNotFitSaysTheLeastThatDoes) {
  const TrainingJob job = ThreeStages({{"weights", 1000}});
  for (const int64_t memory : {0, 500, 1001}) {
    const Verdict verdict = Judge(AskFor(job, {memory}), 0);
    EXPECT_EQ(verdict.fit, Fit::kDoesNotFit);
    ASSERT_TRUE(verdict.minimum_memory_bytes.has_value());
    const int64_t least = *verdict.minimum_memory_bytes;
    EXPECT_EQ(Judge(AskFor(job, {least}), 0).fit, Fit::kFitsWithPlan);
    EXPECT_EQ(Judge(AskFor(job, {least - 1}), 0).fit, Fit::kDoesNotFit);
  }
}

TEST(Admit, WhatIsAroundTheLayersMeetsNeitherThemNorTheOptimizer) {
  const TrainingJob job = ThreeStages(
      {{"weights", 100}, {"copies", 60, Phase::kUpdate}, {"before", 70, Phase::kAround}});
  EXPECT_EQ(Judge(AskFor(job, {220}), 0).peak_bytes, 220);
  const Verdict least = Judge(AskFor(job, {1}), 0);
  EXPECT_EQ(least.minimum_memory_bytes, 170);
  const Verdict with_plan = Judge(AskFor(job, {170}), 0);
  EXPECT_EQ(with_plan.fit, Fit::kFitsWithPlan);
  EXPECT_EQ(with_plan.peak_bytes, 170);
}

// A chain says what is enough; a step as it is may have been seen to take less.
TEST(Admit, APlainStepTakesWhatWasMeasured) {
  TrainingJob job = ThreeStages({{"weights", 100}, {"buckets", 30, Phase::kLayers}});
  job.plain_peak_bytes = 45;
  EXPECT_EQ(Judge(AskFor(job, {145}), 0).fit, Fit::kFits);
  const Verdict verdict = Judge(AskFor(job, {144}), 0);
  EXPECT_EQ(verdict.fit, Fit::kDoesNotFit);
  EXPECT_EQ(verdict.minimum_memory_bytes, 145);
}

TEST(Admit, AStageOfAPipelineHoldsMicroBatchesInFlight) {
  TrainingJob job = ThreeStages({{"weights", 100}});
  job.chain.loss.saved_bytes = 7;
  const int64_t alone = Judge(AskFor(job, {1000}), 0).peak_bytes;
  int64_t kept = job.chain.input_bytes;
  for (int l = 1; l <= 4; ++l) kept += job.chain.stage(l).saved_bytes;
  job.in_flight = 4;
  const Verdict plain = Judge(AskFor(job, {1000}), 0);
  EXPECT_EQ(plain.fit, Fit::kFits);
  EXPECT_EQ(plain.peak_bytes, alone + 3 * kept);
  const Verdict planned = Judge(AskFor(job, {plain.peak_bytes - 1}), 0);
  EXPECT_EQ(planned.fit, Fit::kFitsWithPlan);
  EXPECT_EQ(planned.platform.memory_bytes, (plain.peak_bytes - 101) / 4);
  EXPECT_LE(planned.peak_bytes, plain.peak_bytes - 1);
  EXPECT_GT(planned.peak_bytes, 100 + planned.plan->prediction.peak_memory_bytes);
  const std::optional<int64_t> least = Judge(AskFor(job, {1}), 0).minimum_memory_bytes;
  ASSERT_TRUE(least.has_value());
  EXPECT_EQ(Judge(AskFor(job, {*least}), 0).fit, Fit::kFitsWithPlan);
  EXPECT_EQ(Judge(AskFor(job, {*least - 1}), 0).fit, Fit::kDoesNotFit);
}

TEST(Admit, WhatIsAroundTheLayersMeetsOtherMicroBatches) {
  TrainingJob job =
      ThreeStages({{"copies", 900, Phase::kUpdate}, {"embedding", 500, Phase::kAround}});
  int64_t kept = job.chain.input_bytes;
  for (int l = 1; l <= 4; ++l) kept += job.chain.stage(l).saved_bytes;
  job.in_flight = 8;
  const AdmitRequest request = AskFor(job, {5000, 500 + 7 * 70});
  const Verdict plain = Judge(request, 0);
  EXPECT_EQ(plain.fit, Fit::kFits);
  EXPECT_EQ(plain.peak_bytes, 500 + 7 * kept);
  EXPECT_TRUE(plain.peak_outside_layers);
  const std::vector<Component> parts = PartsOfPeak(job, plain);
  ASSERT_EQ(parts.size(), 2);
  EXPECT_EQ(parts[0].name, "embedding");
  EXPECT_EQ(parts[1].bytes, 7 * kept);
  const Verdict planned = Judge(request, 1);
  EXPECT_EQ(planned.fit, Fit::kFitsWithPlan);
  EXPECT_EQ(planned.platform.memory_bytes, 70);
  EXPECT_LE(planned.peak_bytes, 500 + 7 * 70);
}

TEST(Admit, NoNumberOfMicroBatchesOverflows) {
  TrainingJob job = ThreeStages({{"weights", (int64_t{1} << 62) - 1}});
  job.chain.stages[1].saved_bytes = int64_t{1} << 61;
  job.in_flight = kMaxInFlight;
  const Verdict verdict = Judge(AskFor(job, {int64_t{1} << 61}), 0);
  EXPECT_EQ(verdict.fit, Fit::kDoesNotFit);
  EXPECT_EQ(verdict.peak_bytes, INT64_MAX);
}

TEST(Admit, ShardsHaveEqualPartsOfAComponent) {
  const TrainingJob job =
      ThreeStages({{"optimizer", 1000, Phase::kStep, 8}, {"weights", 1, Phase::kStep, 3}});
  EXPECT_EQ(Judge(AskFor(job, {1000}), 0).peak_bytes, 125 + 1 + 120);
}

TEST(Admit, AChainOfNothingStillHasALeast) {
  TrainingJob job = ThreeStages({{"weights", 10}});
  job.chain.input_bytes = 0;
  for (Stage& stage : job.chain.stages) stage.output_bytes = stage.saved_bytes = 0;
  EXPECT_EQ(Judge(AskFor(job, {5}), 0).minimum_memory_bytes, 10);
}

TEST(Admit, TheCheapestThatFitComeFirstWherePricesAreKnown) {
  AdmitRequest request = AskFor(ThreeStages({}), {1, 500, 100, 400});
  const auto order = [&request] {
    std::vector<Verdict> verdicts;
    for (size_t i = 0; i < request.devices.size(); ++i) verdicts.push_back(Judge(request, i));
    std::vector<size_t> devices;
    for (const Verdict& verdict : Ranked(request, verdicts)) devices.push_back(verdict.device);
    return devices;
  };
  EXPECT_THAT(order(), testing::ElementsAre(0, 1, 2, 3));
  request.devices[0].price = 0.1;
  request.devices[1].price = 3;
  request.devices[2].price = 2;  // with a plan
  EXPECT_THAT(order(), testing::ElementsAre(2, 1, 3, 0));
}

TEST(Admit, EveryFieldThatIsWrongIsNamed) {
  AdmitRequest request = AskFor(
      ThreeStages({{"weights", -1}, {"a", int64_t{1} << 61}, {"b", int64_t{1} << 61}}), {-5, 1});
  request.job.chain.stages[1].forward_seconds = -1;
  request.devices[1].price = -2;
  request.solver = "none";
  request.options.memory_slots = -1;
  request.job.in_flight = kMaxInFlight + 1;
  request.job.components[1].shards = -1;
  std::vector<std::string> fields;
  for (const FieldViolation& violation : RequestViolations(request)) {
    fields.push_back(violation.field);
  }
  EXPECT_THAT(fields, testing::UnorderedElementsAre(
                          "job.chain.stages[1].forward_seconds", "job.components[0].bytes",
                          "job.components[2].bytes", "job.components[1].shards", "job.in_flight",
                          "options.memory_slots", "solver", "devices[0].platform.memory_bytes",
                          "devices[1].price"));
  request.devices.clear();
  EXPECT_THAT(RequestViolations(request),
              testing::Contains(testing::Field(&FieldViolation::field, "devices")));
  request.devices.resize(kMaxDevices + 1);
  EXPECT_THAT(RequestViolations(request),
              testing::Contains(testing::Field(&FieldViolation::field, "devices")));
  request.job.components.resize(kMaxComponents + 1);
  EXPECT_THAT(RequestViolations(request),
              testing::Contains(testing::Field(&FieldViolation::field, "job.components")));
}

TEST(Admit, ALongNameIsNamedByItsPathAndNotRepeated) {
  AdmitRequest request = AskFor(ThreeStages({{"weights", 1}}), {1});
  const std::string longest(kMaxNameBytes, 'x');
  request.job.chain.name = request.job.chain.stages[1].name = longest;
  request.job.components[0].name = request.devices[0].platform.name = longest;
  EXPECT_THAT(RequestViolations(request), testing::IsEmpty());

  const std::string long_name(10'000'000, 'x');
  for (std::string* name : {&request.job.chain.name, &request.job.chain.stages[1].name,
                            &request.job.components[0].name, &request.devices[0].platform.name}) {
    *name = long_name;
  }
  std::vector<std::string> fields;
  for (const FieldViolation& violation : RequestViolations(request)) {
    fields.push_back(violation.field);
    EXPECT_LT(violation.problem.size(), 100U);
  }
  EXPECT_THAT(fields,
              testing::UnorderedElementsAre("job.chain.name", "job.chain.stages[1].name",
                                            "job.components[0].name", "devices[0].platform.name"));
}

}  // namespace
}  // namespace stowage
