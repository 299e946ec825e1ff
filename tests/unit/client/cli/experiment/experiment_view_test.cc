#include "client/cli/experiment/experiment_view.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/chains.h"

namespace stowage {
namespace {

// An answer within so many bytes; no makespan: no schedule.
Measurement Row(const std::string& network, int64_t bytes, const std::string& solver,
                std::optional<double> makespan) {
  Measurement row;
  row.network = network;
  row.platform = Memory(bytes);
  row.solver = solver;
  row.outcome = makespan.has_value() ? "FEASIBLE" : "DEADLINE_EXCEEDED";
  row.transfer_bound_seconds = 10;
  if (makespan.has_value()) row.prediction.emplace().makespan_seconds = *makespan;
  return row;
}

TEST(ExperimentView, HasAPointForEachBudgetWithAnAnswerOfEachSolver) {
  const std::vector<NetworkProfile> networks = {{"a", EqualChain(3), {}}, {"b", EqualChain(4), {}}};
  const std::vector<Measurement> rows = {Row("a", 80, "rotor", 12), Row("a", 80, "auto", {}),
                                         Row("a", 90, "rotor", 11), Row("a", 90, "auto", 10),
                                         Row("b", 90, "rotor", 9),  Row("b", 90, "auto", 8)};
  v1::Experiment experiment;
  Fill(networks, rows, SummaryOf(rows), &experiment);
  ASSERT_EQ(experiment.networks_size(), 2);
  const v1::ExperimentNetwork& a = experiment.networks(0);
  EXPECT_EQ(a.name(), "a");
  EXPECT_EQ(a.stages(), 3);
  EXPECT_EQ(a.store_all_seconds(), 9);
  EXPECT_EQ(a.most_memory_bytes(), 120);
  ASSERT_EQ(a.points_size(), 2);
  EXPECT_EQ(a.points(1).platform().memory_bytes(), 90);
  ASSERT_EQ(a.points(0).answers_size(), 2);
  EXPECT_EQ(a.points(0).answers(0).prediction().makespan_seconds(), 12);
  EXPECT_EQ(a.points(0).answers(0).transfer_ratio(), 1.2);
  EXPECT_EQ(a.points(0).answers(1).outcome(), "DEADLINE_EXCEEDED");
  EXPECT_FALSE(a.points(0).answers(1).has_prediction());
  EXPECT_FALSE(a.points(0).answers(1).has_transfer_ratio());
  EXPECT_EQ(experiment.networks(1).points_size(), 1);
}

TEST(ExperimentView, LeavesOutWhatASummaryLacks) {
  const std::vector<Measurement> rows = {Row("a", 80, "auto", {}), Row("a", 80, "periodic", 12)};
  v1::Experiment experiment;
  Fill({{"a", EqualChain(3), {}}}, rows, SummaryOf(rows), &experiment);
  ASSERT_EQ(experiment.summary().solvers_size(), 2);
  EXPECT_EQ(experiment.summary().points(), 1);
  EXPECT_EQ(experiment.summary().common_points(), 0);
  EXPECT_EQ(experiment.summary().solvers(1).feasible(), 1);
  EXPECT_FALSE(experiment.summary().solvers(1).has_mean_overhead());
  EXPECT_FALSE(experiment.summary().solvers(1).has_share_of_rotor());
}

}  // namespace
}  // namespace stowage
