#include "tests/gpu/figures/batch_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using testing::ElementsAre;

// Batches of up to `most` train; keeps what was asked.
class Trials {
 public:
  explicit Trials(int most) : most_(most) {}
  int Largest(const BatchSearch& search) {
    const auto largest = LargestBatch(search, [this](int batch) -> absl::StatusOr<bool> {
      asked.push_back(batch);
      return batch <= most_;
    });
    EXPECT_THAT(largest, IsOk());
    return largest.value_or(-1);
  }
  std::vector<int> asked;

 private:
  const int most_;
};

TEST(LargestBatch, IsFoundByDoublingAndBisection) {
  Trials trials(11);
  EXPECT_EQ(trials.Largest({.first = 2}), 11);
  EXPECT_THAT(trials.asked, ElementsAre(2, 4, 8, 16, 12, 10, 11));
}

TEST(LargestBatch, IsTheLargestOneWithoutAResolution) {
  for (int first = 1; first <= 9; ++first) {
    for (int largest = first; largest <= 100; ++largest) {
      EXPECT_EQ(Trials(largest).Largest({.first = first, .most = 100}), largest);
    }
  }
}

TEST(LargestBatch, StopsWhereThereIsLittleLeftToFind) {
  Trials trials(1000);
  const int largest = trials.Largest({.first = 16, .resolution = 0.1});
  EXPECT_LE(largest, 1000);
  EXPECT_GE(largest * 1.1, 1000);
  EXPECT_LE(trials.asked.size(), 11U);
}

TEST(LargestBatch, IsZeroWhereTheFirstDoesNotTrain) {
  Trials trials(3);
  EXPECT_EQ(trials.Largest({.first = 4}), 0);
  EXPECT_THAT(trials.asked, ElementsAre(4));
}

TEST(LargestBatch, GoesNoFurtherThanItMay) {
  Trials trials(1 << 20);
  EXPECT_EQ(trials.Largest({.first = 3, .most = 50}), 50);
  EXPECT_THAT(trials.asked, ElementsAre(3, 6, 12, 24, 48, 50));
}

TEST(LargestBatch, EndsWithTheErrorOfATrial) {
  const auto failed = LargestBatch({}, [](int batch) -> absl::StatusOr<bool> {
    if (batch < 4) return true;
    return absl::InternalError("broken");
  });
  EXPECT_THAT(failed, Fails(absl::StatusCode::kInternal, "broken"));
}

}  // namespace
}  // namespace stowage
