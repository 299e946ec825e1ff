#include "client/train/trace.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "solver/simulator/simulator.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"
#include "tests/support/training.h"

namespace stowage {
namespace {

using nlohmann::json;

TEST(TraceJson, ShowsWhatWasMeasuredBesideWhatWasPredicted) {
  Chain chain = EqualChain(2);
  chain.stages[0].name = "first \"\xff\"";
  Platform platform = Memory(1000);
  platform.offload_bytes_per_second = 30;
  const Schedule schedule = Ops("S1 O1 S2 R1 S3 B3 P1 B2 B1");
  const auto plan = MakeFrameworkPlan(chain, platform, schedule);
  ASSERT_THAT(plan, IsOk());
  std::vector<TimelineEntry> predicted;
  ASSERT_THAT(Simulate(chain, platform, schedule, &predicted), IsOk());
  MeasuredStep measured;
  for (size_t i = 0; i < plan->commands.size(); ++i) {
    const auto start = static_cast<double>(i);
    measured.times.push_back({start, start + 0.5});
    measured.peaks.push_back(plan->commands[i].queue == Queue::kCompute ? 100 + int64_t(i) : -1);
  }

  const json trace = json::parse(TraceJson(*plan, measured, predicted));
  int operations = 0;
  std::set<std::pair<int, int>> queues;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    ++operations;
    queues.emplace(event["pid"].get<int>(), event["tid"].get<int>());
    const size_t index = event["args"]["operation"];
    const bool is_measured = event["pid"] == 1;
    const double start =
        is_measured ? measured.times[index].start_seconds : predicted[index].start_seconds;
    EXPECT_DOUBLE_EQ(event["ts"], start * 1e6);
    EXPECT_EQ(event["name"], OperationName(schedule.operations[index]));
  }
  EXPECT_EQ(operations, 2 * 9);
  EXPECT_EQ(queues.size(), 2 * 3);

  int counters = 0;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "C") continue;
    ++counters;
    EXPECT_EQ(event["name"], "device memory");
  }
  EXPECT_EQ(counters, 2 * 7);  // copies have none
}

TEST(TraceJson, NamesUnitsInGraphModeAsTheScheduleDoes) {
  const Chain chain = EqualChainWithModes(3, {{1, 2}});
  const Schedule schedule = Ops("gS1-2 S3 S4 B4 B3 gB1-2");
  const auto plan = MakeFrameworkPlan(chain, Memory(1000), schedule);
  ASSERT_THAT(plan, IsOk());
  std::vector<TimelineEntry> predicted;
  ASSERT_THAT(Simulate(chain, Memory(1000), schedule, &predicted), IsOk());
  const MeasuredStep measured = {std::vector<CommandTimes>(6), std::vector<int64_t>(6, -1)};
  const json trace = json::parse(TraceJson(*plan, measured, predicted));
  std::vector<std::string> names;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["pid"] == 1) names.push_back(event["name"]);
  }
  EXPECT_THAT(names,
              testing::ElementsAre("FORWARD_SAVE 1-2 graph", "FORWARD_SAVE 3", "FORWARD_SAVE 4",
                                   "BACKWARD 4", "BACKWARD 3", "BACKWARD 1-2 graph"));
}

}  // namespace
}  // namespace stowage
