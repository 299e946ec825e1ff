#include "solver/algorithms/auto/incumbent.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "solver/algorithms/rematerialization/periodic.h"
#include "solver/algorithms/rematerialization/store_all.h"
#include "solver/bounds/memory_range.h"
#include "tests/support/chains.h"

namespace stowage {
namespace {

class IncumbentTest : public testing::Test {
 protected:
  Candidate Fast(const char* solver, Guarantee guarantee) const {
    return {StoreAllSchedule(chain_), solver, guarantee, {}};
  }
  Candidate Slow(const char* solver, Guarantee guarantee) const {
    return {PeriodicSchedule(chain_, 2), solver, guarantee, {}};
  }

  const Chain chain_ = EqualChain(10);
  const int64_t all_bytes_ = StoreAllPeakBytes(chain_);
  const Instance instance_ = Instance::Exact({chain_, Memory(all_bytes_), "auto", {}});
};

TEST_F(IncumbentTest, IsTheFastestAndOfEquallyFastOnesOneWithAGuarantee) {
  std::vector<std::string> published;
  SolveContext context;
  context.improved = [&](const Candidate& found) { published.emplace_back(found.solver); };
  Incumbent best(instance_, all_bytes_);
  EXPECT_TRUE(best.Consider(Slow("slow", Guarantee::kOptimal), context));
  EXPECT_TRUE(best.Consider(Fast("fast", Guarantee::kHeuristic), context));
  EXPECT_FALSE(best.Consider(Slow("slow again", Guarantee::kOptimal), context));
  EXPECT_TRUE(best.Consider(Fast("as fast", Guarantee::kOptimal), context));
  EXPECT_FALSE(best.Consider(Fast("as fast again", Guarantee::kOptimal), context));
  EXPECT_STREQ(best.candidate().solver, "as fast");
  EXPECT_EQ(published, (std::vector<std::string>{"slow", "fast"})) << "whoever was faster";
}

TEST_F(IncumbentTest, FitsTheBudget) {
  Incumbent best(instance_, all_bytes_ - 1);
  EXPECT_FALSE(best.Consider(Fast("too large", Guarantee::kOptimal), {}));
  EXPECT_FALSE(best.found());
}

TEST_F(IncumbentTest, TakesAGuaranteeForOneChoiceOfModesOnlyWhereNothingIsFaster) {
  const auto guarantee_of = [this](Candidate candidate) {
    Incumbent best(instance_, all_bytes_, GuaranteeScope::kOneChoiceOfModes);
    EXPECT_TRUE(best.Consider(std::move(candidate), {}));
    return best.candidate().guarantee;
  };
  EXPECT_EQ(guarantee_of(Fast("fast", Guarantee::kOptimal)), Guarantee::kOptimal);
  EXPECT_EQ(guarantee_of(Fast("fast", Guarantee::kUpToRounding)), Guarantee::kHeuristic);
  EXPECT_EQ(guarantee_of(Slow("slow", Guarantee::kOptimal)), Guarantee::kHeuristic);
  EXPECT_EQ(guarantee_of(Slow("slow", Guarantee::kBestOfClass)), Guarantee::kHeuristic);
}

}  // namespace
}  // namespace stowage
