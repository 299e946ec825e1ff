#include "client/cli/experiment/measurement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "tests/support/chains.h"

namespace stowage {
namespace {

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

TEST(Measurement, IsComparedWithTheBound) {
  EXPECT_THAT(Row("rotor", 0.5, 30).RatioToBound(), Optional(1.5));
  EXPECT_EQ(Row("rotor", 0.5, {}).RatioToBound(), std::nullopt);
  Measurement instant = Row("rotor", 0.5, 0);
  instant.transfer_bound_seconds = 0;
  EXPECT_EQ(instant.RatioToBound(), std::nullopt);
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

}  // namespace
}  // namespace stowage
