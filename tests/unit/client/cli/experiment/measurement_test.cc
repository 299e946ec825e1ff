#include "client/cli/experiment/measurement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "client/cli/experiment/measurement_plots.h"
#include "tests/support/chains.h"

namespace stowage {
namespace {

using testing::HasSubstr;
using testing::Optional;

// A row about a network that takes 10 s at least; no makespan: no schedule.
Measurement Row(const std::string& solver, double alpha, std::optional<double> makespan) {
  Measurement row;
  row.network = "net";
  row.stages = 3;
  row.alpha = alpha;
  row.platform.memory_bytes = 100;
  row.platform.offload_bytes_per_second = 12e9;
  row.solver = solver;
  row.outcome = "INFEASIBLE";
  row.sequential_seconds = 10;
  row.transfer_bound_seconds = 20;
  if (!makespan.has_value()) return row;
  row.outcome = "FEASIBLE";
  row.schedule_of = solver;
  row.prediction.emplace();
  row.prediction->makespan_seconds = *makespan;
  row.prediction->overhead = *makespan / 10 - 1;
  return row;
}

Platform Link(int64_t memory_bytes, double out, double back) {
  Platform platform = Memory(memory_bytes);
  platform.offload_bytes_per_second = out;
  platform.prefetch_bytes_per_second = back;
  return platform;
}

TEST(TransferBound, IsTheTimeToOffloadAndPrefetchTheExcess) {
  const Chain chain = EqualChain(3);  // storing everything: 120 bytes, 9 s
  EXPECT_EQ(TransferBoundSeconds(chain, Link(60, 6, 6)), 20);
  EXPECT_EQ(TransferBoundSeconds(chain, Link(60, 6, 12)), 15);
  Platform slow = Link(60, 6, 6);
  slow.transfer_latency_seconds = 0.5;
  EXPECT_EQ(TransferBoundSeconds(chain, slow), 21);
}

TEST(TransferBound, IsAtLeastTheComputeTime) {
  const Chain chain = EqualChain(3);
  EXPECT_EQ(TransferBoundSeconds(chain, Link(60, 1000, 1000)), 9);
  EXPECT_EQ(TransferBoundSeconds(chain, Link(120, 6, 6)), 9);
  EXPECT_EQ(TransferBoundSeconds(chain, Memory(60)), 9);  // no link
}

TEST(Measurement, IsComparedWithTheComputationAndWithTheBound) {
  EXPECT_THAT(Row("rotor", 0.5, 30).Slowdown(), Optional(3));
  EXPECT_THAT(Row("rotor", 0.5, 30).RatioToBound(), Optional(1.5));
  EXPECT_EQ(Row("rotor", 0.5, {}).Slowdown(), std::nullopt);
  Measurement instant = Row("rotor", 0.5, 0);
  instant.sequential_seconds = 0;
  EXPECT_EQ(instant.Slowdown(), std::nullopt);
}

TEST(CsvRow, HasACellForEachColumn) {
  Measurement row = Row("auto", 0.05, 12.5);
  row.network = "a, \"b\"";
  row.schedule_of = "rotor";
  row.platform.prefetch_bytes_per_second = 6.5e9;
  row.platform.half_duplex = true;
  row.prediction->peak_memory_bytes = 99;
  row.prediction->peak_host_bytes = 7;
  row.prediction->recompute_seconds = 2.25;
  row.prediction->idle_seconds = 0.1;
  row.solve_seconds = 0.0125;
  EXPECT_EQ(CsvHeader(),
            "network,stages,alpha,memory_bytes,offload_gb_per_second,prefetch_gb_per_second,"
            "transfer_latency_seconds,half_duplex,host_memory_bytes,solver,outcome,schedule_of,"
            "makespan_seconds,sequential_seconds,overhead,transfer_bound_seconds,ratio,"
            "peak_memory_bytes,peak_host_bytes,recompute_seconds,idle_seconds,solve_seconds\n");
  EXPECT_EQ(CsvRow(row),
            "\"a, \"\"b\"\"\",3,0.05,100,12,6.5,0,true,0,auto,FEASIBLE,rotor,"
            "12.5,10,0.25,20,0.625,99,7,2.25,0.1,0.012500\n");
}

TEST(CsvRow, LeavesMissingValuesEmpty) {
  EXPECT_EQ(CsvRow(Row("rotor", 0, {})),
            "net,3,0,100,12,12,0,false,0,rotor,INFEASIBLE,,,10,,20,,,,,,0.000000\n");
}

TEST(Summary, ComparesOnPointsFeasibleForEverySolver) {
  const std::vector<Measurement> rows = {
      Row("rotor", 0.1, {}), Row("fast", 0.1, 20), Row("rotor", 0.5, 12), Row("fast", 0.5, 11),
      Row("rotor", 0.9, 14), Row("fast", 0.9, 11), Row("rotor", 1, 10),   Row("fast", 1, 10)};
  EXPECT_EQ(SummaryText(rows),
            "  solver  points  feasible  below +20 %  mean overhead  of rotor's  wins\n"
            "  rotor        4         3            2        +20.0 %       100 %     1\n"
            "  fast         4         4            3         +6.7 %        33 %     4\n"
            "  mean overhead: of the 3 of 4 points that every solver has a schedule for; wins: "
            "nobody was faster\n");
}

TEST(Summary, HasNoMeanWithoutACommonPoint) {
  const std::string text = SummaryText({Row("a", 0.1, {}), Row("b", 0.1, 20)});
  EXPECT_THAT(
      text, HasSubstr("a            1         0            0              -           -     0\n"));
  EXPECT_THAT(
      text, HasSubstr("b            1         1            0              -           -     1\n"));
}

TEST(PlotOf, DrawsALineASolverWithGapsAndAPanelANetwork) {
  Measurement other = Row("rotor", 0.5, 15);
  other.network = "other";
  const Plot plot = PlotOf(PlotKind::kSlowdownByMemory,
                           {Row("rotor", 0.1, {}), Row("auto", 0.1, 20), Row("rotor", 0.5, 12),
                            Row("auto", 0.5, 11), other},
                           std::nullopt);
  EXPECT_EQ(plot.title, "Overhead by memory, 12 GB/s");
  ASSERT_EQ(plot.panels.size(), 2U);
  EXPECT_EQ(plot.panels[0].title, "net");
  EXPECT_EQ(plot.panels[1].title, "other");
  ASSERT_EQ(plot.panels[0].lines.size(), 2U);
  const PlotLine& rotor = plot.panels[0].lines[0];
  EXPECT_EQ(rotor.name, "rotor");
  ASSERT_EQ(rotor.points.size(), 2U);
  EXPECT_EQ(rotor.points[0].x, 0.1);
  EXPECT_EQ(rotor.points[0].y, std::nullopt);
  EXPECT_THAT(rotor.points[1].y, Optional(1.2));
}

TEST(PlotOf, HasAPanelForEachBudgetOrBandwidthThatIsFixed) {
  Measurement fast = Row("rotor", 0.5, 11);
  fast.platform.offload_bytes_per_second = 24e9;
  const std::vector<Measurement> rows = {Row("rotor", 0.5, 12), fast};
  const Plot by_bandwidth = PlotOf(PlotKind::kSlowdownByBandwidth, rows, std::nullopt);
  EXPECT_EQ(by_bandwidth.title, "Overhead by bandwidth, α = 0.5");
  ASSERT_EQ(by_bandwidth.panels.size(), 1U);
  EXPECT_EQ(by_bandwidth.panels[0].lines[0].points[1].x, 24);
  const Plot ratio = PlotOf(PlotKind::kRatioByMemory, rows, std::nullopt);
  EXPECT_EQ(ratio.title, "Ratio to the lower bound by memory");
  ASSERT_EQ(ratio.panels.size(), 2U);
  EXPECT_EQ(ratio.panels[1].title, "net, 24 GB/s");
  EXPECT_EQ(ratio.panels[1].lines[0].points[0].x, 50);
  EXPECT_THAT(ratio.panels[1].lines[0].points[0].y, Optional(0.55));
}

}  // namespace
}  // namespace stowage
