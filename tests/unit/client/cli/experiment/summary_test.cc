#include "client/cli/experiment/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace stowage::summary_test {
namespace {

using testing::HasSubstr;
using testing::Optional;

// A row about a network that takes 10 s at least; no makespan: no schedule.
Measurement Row(const std::string& solver, double alpha, std::optional<double> makespan) {
  Measurement row;
  row.network = "net";
  row.alpha = alpha;
  row.solver = solver;
  if (!makespan.has_value()) return row;
  row.prediction.emplace();
  row.prediction->makespan_seconds = *makespan;
  row.prediction->overhead = *makespan / 10 - 1;
  return row;
}

TEST(Summary, ComparesOnPointsFeasibleForEverySolver) {
  const std::vector<Measurement> rows = {
      Row("rotor", 0.1, {}), Row("fast", 0.1, 20), Row("rotor", 0.5, 12), Row("fast", 0.5, 11),
      Row("rotor", 0.9, 14), Row("fast", 0.9, 11), Row("rotor", 1, 10),   Row("fast", 1, 10)};
  EXPECT_EQ(SummaryText(SummaryOf(rows)),
            "  solver  points  feasible  below +20 %  mean overhead  of rotor's  wins\n"
            "  rotor        4         3            2        +20.0 %       100 %     1\n"
            "  fast         4         4            3         +6.7 %        33 %     4\n"
            "  mean overhead: of the 3 of 4 points that every solver has a schedule for; wins: "
            "nobody was faster\n");
}

TEST(Summary, HasNoMeanWithoutACommonPoint) {
  const std::string text = SummaryText(SummaryOf({Row("a", 0.1, {}), Row("b", 0.1, 20)}));
  EXPECT_THAT(
      text, HasSubstr("a            1         0            0              -           -     0\n"));
  EXPECT_THAT(
      text, HasSubstr("b            1         1            0              -           -     1\n"));
}

TEST(Summary, CountsNetworksBudgetsAndLinksAsPoints) {
  Measurement other = Row("rotor", 0.5, 12);
  other.network = "other";
  Measurement fast = Row("rotor", 0.5, 11);
  fast.platform.offload_bytes_per_second = 24e9;
  const Summary summary = SummaryOf({Row("rotor", 0.5, 12), other, fast, Row("rotor", 0.9, {})});
  EXPECT_EQ(summary.points, 4U);
  EXPECT_EQ(summary.common_points, 3U);
  ASSERT_EQ(summary.records.size(), 1U);
  EXPECT_EQ(summary.records[0].wins, 3);
  EXPECT_THAT(summary.records[0].mean_overhead, Optional(testing::DoubleNear(0.5 / 3, 1e-12)));
  EXPECT_THAT(summary.records[0].share_of_rotor, Optional(1));
}

}  // namespace
}  // namespace stowage::summary_test
