#include "client/train/training_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using testing::AllOf;
using testing::HasSubstr;

absl::StatusOr<std::string> Compared(double plain, double stowage) {
  ComparisonTable table(/*batch=*/1, /*compute_seconds=*/1);
  EXPECT_THAT(table.Add(ComparisonTable::kPlain, TrainingMeasurement{.loss = plain}, std::nullopt),
              IsOk());
  EXPECT_THAT(table.Add("stowage", TrainingMeasurement{.loss = stowage}, std::nullopt), IsOk());
  return table.CompareLosses();
}

TEST(CompareLosses, SaysWhereTheyAreEqualToTheBit) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double loss : {2.5, 1.78814e-07, 0.0, nan}) {
    EXPECT_EQ(Compared(loss, loss).value_or(""), "losses: equal to the bit") << loss;
  }
}

TEST(CompareLosses, StatesTheToleranceThatADifferenceIsWithin) {
  EXPECT_EQ(Compared(2.0, 2.01).value_or(""),
            "losses: not equal to the bit, but within 0.02 (1 % and 1e-6): stowage by 0.01");
  EXPECT_THAT(Compared(1e-7, 2e-7).value_or(""), HasSubstr("but within 1e-06"));
}

// A loss near 0 is not excused from being right.
TEST(CompareLosses, RefusesALossThatIsAnother) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [plain, stowage] : {std::pair(2.0, 2.03), {1e-7, 1e-5}, {2.0, nan}}) {
    EXPECT_THAT(Compared(plain, stowage),
                Fails(absl::StatusCode::kInternal,
                      AllOf(HasSubstr("stowage: its loss differs from that of plain training by "),
                            HasSubstr("(1 % and 1e-6)"))))
        << stowage;
  }
}

TEST(CompareLosses, SaysNothingWithoutPlainTraining) {
  ComparisonTable table(/*batch=*/1, /*compute_seconds=*/1);
  EXPECT_THAT(table.Add("stowage", TrainingMeasurement{}, std::nullopt), IsOk());
  EXPECT_EQ(table.CompareLosses().value_or("no"), "");
}

}  // namespace
}  // namespace stowage
