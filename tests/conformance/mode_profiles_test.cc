// Mixed Mode on the real chains of tests/data/modes, which have costs in both modes: every schedule
// is simulated, both programs agree, and nothing is lost by having a choice.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "solver/bounds/lower_bound.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/modes.h"
#include "solver/model/validate.h"
#include "solver/simulator/simulator.h"
#include "solver/solve/answer_request.h"
#include "tests/support/chains.h"
#include "tests/support/graph_mode_rule.h"
#include "tests/support/profiles.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

// With STOWAGE_WRITE_MODE_PROFILES set each file is written first: the eager profile's with what
// the rule adds, a stage a line.
void WriteFile(const std::string& name, const Chain& chain) {
  const std::string folder = std::string(STOWAGE_TEST_DATA) + "/";
  std::ifstream source(folder + name + ".json");
  nlohmann::ordered_json file = nlohmann::ordered_json::parse(source);
  const auto graph_of = [](const Stage& stage) {
    const GraphCosts& graph = *stage.graph;
    return nlohmann::ordered_json{{"forward_seconds", graph.forward_seconds},
                                  {"backward_seconds", graph.backward_seconds},
                                  {"saved_bytes", graph.saved_bytes},
                                  {"forward_overhead_bytes", graph.forward_overhead_bytes},
                                  {"backward_overhead_bytes", graph.backward_overhead_bytes}};
  };
  file["graph_entry_seconds"] = chain.graph_entry_seconds;
  file["loss"]["graph"] = graph_of(chain.loss);
  file["provenance"]["graph_mode"] =
      "graph costs derived from the eager ones by the rule in tests/support/graph_mode_rule.h; "
      "not measured";
  const nlohmann::ordered_json stages = file["stages"];
  file["stages"] = nlohmann::ordered_json::array();
  std::string text = file.dump(1);
  std::string lines;
  for (size_t i = 0; i < stages.size(); ++i) {
    nlohmann::ordered_json stage = stages[i];
    const Stage& with = chain.stages[i];
    if (!with.fusion_group.empty()) stage["fusion_group"] = with.fusion_group;
    if (with.control_flow) stage["control_flow"] = true;
    stage["graph"] = graph_of(with);
    lines += (i == 0 ? "\n  " : ",\n  ") + stage.dump();
  }
  const std::string empty = "\"stages\": []";
  text.replace(text.find(empty), empty.size(), "\"stages\": [" + lines + "\n ]");
  std::ofstream(folder + "modes/" + name + ".json") << text << "\n";
}

class ModeProfile : public testing::TestWithParam<std::string> {
 protected:
  static int64_t Budget(const Chain& chain, double share) {
    const int64_t low = FloorOfMemory(chain).bytes;
    const auto range = static_cast<double>(StoreAllPeakBytes(chain) - low);
    return low + static_cast<int64_t>(share * range);
  }

  Answer Ask(const char* solver, int64_t memory_bytes) const {
    const auto answer = AnswerRequest({chain_, Memory(memory_bytes), solver, {}}, {});
    EXPECT_THAT(answer, IsOk()) << solver << " within " << memory_bytes;
    if (!answer.ok()) return {};
    EXPECT_TRUE(answer->rejected.empty()) << solver << " within " << memory_bytes;
    if (answer->outcome != Outcome::kInfeasible) {
      EXPECT_LE(answer->prediction.peak_memory_bytes, memory_bytes) << solver;
    }
    return *answer;
  }

  static Chain Load(const std::string& name) {
    if (std::getenv("STOWAGE_WRITE_MODE_PROFILES") != nullptr) {
      WriteFile(name, WithGraphMode(LoadProfile(name), name));
    }
    return LoadProfile("modes/" + name);
  }

  const Chain chain_ = Load(GetParam());
};

TEST_P(ModeProfile, IsWhatTheRuleMakesOfTheEagerOne) {
  EXPECT_TRUE(chain_ == WithGraphMode(LoadProfile(GetParam()), GetParam()));
  EXPECT_THAT(Violations(chain_), testing::IsEmpty());
  EXPECT_TRUE(ChainUnits(chain_).HasGraph());
}

TEST_P(ModeProfile, GainsFromHavingAChoice) {
  constexpr double kRounding = 1.02;  // a slot more or less of memory
  std::vector<double> budgets = {0.1, 0.3, 0.6, 0.9};
  if (chain_.length() > 100) budgets = {0.1, 0.6};  // each takes seconds
  for (const double share : budgets) {
    const int64_t memory = Budget(chain_, share);
    const Answer mixed = Ask("mixed_mode", memory);
    const Answer eager = Ask("rotor", memory);
    if (eager.outcome == Outcome::kInfeasible) continue;
    ASSERT_NE(mixed.outcome, Outcome::kInfeasible) << share;
    EXPECT_TRUE(mixed.explanation.notes.empty()) << mixed.explanation.notes[0];  // it is certified
    EXPECT_LE(mixed.prediction.makespan_seconds, eager.prediction.makespan_seconds * kRounding);
    EXPECT_GE(mixed.prediction.makespan_seconds, ComputeSeconds(chain_) * (1 - 1e-9));
    const Answer best = Ask("auto", memory);
    EXPECT_LE(best.prediction.makespan_seconds, mixed.prediction.makespan_seconds * (1 + 1e-9));
    EXPECT_LE(best.prediction.makespan_seconds, eager.prediction.makespan_seconds * (1 + 1e-9));
    EXPECT_LE(best.prediction.lower_bound_seconds, best.prediction.makespan_seconds * (1 + 1e-9));
  }
}

TEST_P(ModeProfile, BothProgramsAgree) {
  std::vector<double> budgets = {0.1, 0.5};
  if (chain_.length() > 100) budgets = {0.1};  // the full recurrence takes seconds
  for (const double share : budgets) {
    const int64_t memory = Budget(chain_, share);
    const Answer mixed = Ask("mixed_mode", memory);
    const Answer exact = Ask("mixed_mode_exact", memory);
    ASSERT_EQ(mixed.outcome == Outcome::kInfeasible, exact.outcome == Outcome::kInfeasible);
    if (mixed.outcome == Outcome::kInfeasible) continue;
    EXPECT_NEAR(mixed.prediction.makespan_seconds / exact.prediction.makespan_seconds, 1, 1e-4)
        << share;
  }
}

// Whoever cannot wait has a schedule long before the best one is proved to be that.
TEST_P(ModeProfile, TellsOfSchedulesOnTheWay) {
  for (const char* solver : {"mixed_mode", "auto"}) {
    SolveContext context;
    double last = std::numeric_limits<double>::infinity();
    int told = 0;
    context.improved = [&](const Candidate& candidate) {
      const auto simulation =
          SimulateWithBound(chain_, Memory(Budget(chain_, 0.3)), candidate.schedule);
      ASSERT_THAT(simulation, IsOk());
      EXPECT_TRUE(simulation->feasible());
      last = std::min(last, simulation->prediction.makespan_seconds);
      ++told;
    };
    const auto answer = AnswerRequest({chain_, Memory(Budget(chain_, 0.3)), solver, {}}, context);
    ASSERT_THAT(answer, IsOk());
    EXPECT_GT(told, 0) << solver;
    EXPECT_GE(last, answer->prediction.makespan_seconds * (1 - 1e-9)) << solver;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ModeProfile, testing::ValuesIn(ModeProfiles()), [](const auto& test) {
  std::string name = test.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace stowage
