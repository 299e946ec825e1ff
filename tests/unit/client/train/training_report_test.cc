#include "client/train/training_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using testing::AllOf;
using testing::HasSubstr;

absl::StatusOr<std::string> Compared(double plain, double stowage) {
  return CompareLosses(
      {{.name = "plain", .losses = {1, plain, 1}}, {.name = "stowage", .losses = {1, stowage, 1}}});
}

TEST(CompareLosses, SaysWhereTheyAreEqualToTheBit) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double loss : {2.5, 1.78814e-07, 0.0, nan}) {
    EXPECT_EQ(Compared(loss, loss).value_or(""), "losses: equal to the bit") << loss;
  }
}

TEST(CompareLosses, StatesTheToleranceThatADifferenceIsWithin) {
  EXPECT_EQ(Compared(2.0, 2.01).value_or(""),
            "losses: not equal to the bit, but within 1 % and 1e-6: stowage by up to 0.01");
  EXPECT_THAT(Compared(1e-7, 2e-7).value_or(""), HasSubstr("stowage by up to 1e-07"));
}

// A loss near 0 is not excused from being right.
TEST(CompareLosses, RefusesALossThatIsAnother) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [plain, stowage] : {std::pair(2.0, 2.03), {1e-7, 1e-5}, {2.0, nan}}) {
    EXPECT_THAT(Compared(plain, stowage),
                Fails(absl::StatusCode::kInternal,
                      AllOf(HasSubstr("stowage: its loss of step 2 differs from that of plain "
                                      "training by "),
                            HasSubstr("(1 % and 1e-6)"))))
        << stowage;
  }
}

TEST(CompareLosses, SaysNothingWithoutPlainTraining) {
  EXPECT_EQ(CompareLosses({{.name = "stowage", .losses = {1}}}).value_or("no"), "");
  EXPECT_EQ(CompareLosses({{.name = "plain", .status = absl::ResourceExhaustedError("full")},
                           {.name = "stowage", .losses = {1}}})
                .value_or("no"),
            "");
}

// Each pair was measured under the same load.
TEST(OverheadOf, ComparesNeighboursSoThatLoadThatComesAndGoesIsNoOverhead) {
  const std::vector<double> plain = {1, 10, 1, 10, 1, 10, 1, 10};
  std::vector<double> slower;
  for (const double seconds : plain) slower.push_back(1.1 * seconds);
  const Overhead overhead = OverheadOf(slower, plain);
  EXPECT_NEAR(overhead.median, 0.1, 1e-9);
  EXPECT_FALSE(overhead.within_noise());
  EXPECT_TRUE(OverheadOf(plain, plain).within_noise());
}

TEST(OverheadOf, TakesFewSamplesForNoise) {
  EXPECT_TRUE(OverheadOf({2, 2, 2, 2, 2}, {1, 1, 1, 1, 1}).within_noise());
  EXPECT_FALSE(OverheadOf({2, 2, 2, 2, 2, 2}, {1, 1, 1, 1, 1, 1}).within_noise());
}

TEST(OverheadOf, CallsADifferenceOfBothSignsNoise) {
  EXPECT_TRUE(OverheadOf({1.2, 0.9, 1.1, 0.9, 1.1, 0.8, 1.2, 1.1}, {1, 1, 1, 1, 1, 1, 1, 1})
                  .within_noise());
}

TEST(ComparisonText, SaysHowManyStepsHowFarApartAndWhatIsNoise) {
  const std::string text =
      ComparisonText({{.name = "plain", .seconds = {1, 2, 3}, .peak_bytes = 1024, .losses = {2.5}},
                      {.name = "stowage",
                       .seconds = {1.5, 2, 3},
                       .peak_bytes = 512,
                       .host_bytes = 2048,
                       .losses = {2.5}},
                      {.name = "segments", .status = absl::ResourceExhaustedError("full")}},
                     /*batch=*/4);
  EXPECT_THAT(text,
              AllOf(HasSubstr("2.000 s  1.000 s to 3.000 s"), HasSubstr("+0.0 %, within noise"),
                    HasSubstr("2.00 KiB   2.5\n"), HasSubstr("segments  does not fit")));
}

TEST(PredictionErrorText, SaysThatThePeakIsOverTheBudget) {
  const TrainingSamples training = {
      .seconds = {1.1},
      .peak_bytes = 1100,
      .predicted = Prediction{.makespan_seconds = 1, .peak_memory_bytes = 1000}};
  EXPECT_EQ(PredictionErrorText(training, 1100),
            "measured against predicted: time +10.0 %, peak +10.0 %\n");
  EXPECT_THAT(PredictionErrorText(training, 1000), HasSubstr("note: the peak was 100 B over"));
}

}  // namespace
}  // namespace stowage
