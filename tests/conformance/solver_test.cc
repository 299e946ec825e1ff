// What every solver of the catalog owes its users, on every kind of chain.
#include <gtest/gtest.h>

#include <stop_token>
#include <string>

#include "solver/algorithms/answer.h"
#include "solver/algorithms/catalog.h"
#include "solver/simulator/lower_bound.h"
#include "solver/simulator/simulator.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"

namespace stowage {

// Names tests and failures after the solver.
void PrintTo(const SolverInfo& info, std::ostream* out) { *out << info.description.name; }

namespace {

class EverySolver : public testing::TestWithParam<SolverInfo> {
 protected:
  std::string Name() const { return GetParam().description.name; }

  absl::StatusOr<Answer> Ask(const Chain& chain, int64_t memory_bytes) const {
    return AnswerRequest({chain, Memory(memory_bytes), Name(), {}}, {});
  }

  // Chains that solvers tend to get wrong.
  static std::vector<Chain> Chains() {
    std::vector<Chain> chains = {EqualChain(1), EqualChain(2), EqualChain(17),
                                 NonPersistentChain(4)};
    Chain zero = EqualChain(3);
    for (Stage& stage : zero.stages) stage = Stage{};
    zero.input_bytes = 0;
    chains.push_back(zero);
    Chain fixed = EqualChain(9);
    for (const int i : {0, 4, 8}) fixed.stages[i].no_recompute = true;
    fixed.loss.saved_bytes = 50;
    fixed.loss.forward_seconds = 1;
    chains.push_back(fixed);
    Chain all_fixed = EqualChain(4);
    for (Stage& stage : all_fixed.stages) stage.no_recompute = stage.no_offload = true;
    chains.push_back(all_fixed);
    Chain large = EqualChain(11);
    for (Stage& stage : large.stages) {
      stage.output_bytes = 123'456'789;
      stage.saved_bytes = 987'654'321;
      stage.backward_overhead_bytes = 55'555'555;
    }
    chains.push_back(large);
    return chains;
  }
};

TEST_P(EverySolver, AnswersWithSchedulesThatFitOrWithTheLeastMemory) {
  for (const Chain& chain : Chains()) {
    const int64_t low = FloorOfMemory(chain).bytes;
    const int64_t high = StoreAllPeakBytes(chain);
    for (int percent = 0; percent <= 110; percent += 10) {
      const int64_t memory = low + (high - low) * percent / 100;
      const auto answer = Ask(chain, memory);
      ASSERT_THAT(answer, IsOk()) << chain;
      EXPECT_TRUE(answer->rejected.empty()) << chain;
      ASSERT_TRUE(answer->minimum_memory_bytes.has_value());
      EXPECT_EQ(answer->outcome == Outcome::kInfeasible, memory < *answer->minimum_memory_bytes)
          << chain;
      if (answer->outcome == Outcome::kInfeasible) continue;
      const auto simulation = Simulate(chain, Memory(memory), answer->schedule);
      ASSERT_THAT(simulation, IsOk()) << chain;
      EXPECT_TRUE(simulation->feasible()) << chain;
      EXPECT_GE(answer->prediction.makespan_seconds,
                answer->prediction.lower_bound_seconds * (1 - 1e-12));
    }
  }
}

TEST_P(EverySolver, HasAScheduleForItsLeastMemoryAndNoneBelow) {
  for (const Chain& chain : Chains()) {
    const int64_t least = *Ask(chain, 0)->minimum_memory_bytes;
    EXPECT_GE(least, FloorOfMemory(chain).bytes);
    EXPECT_NE(Ask(chain, least)->outcome, Outcome::kInfeasible) << chain;
    if (least == 0) continue;
    EXPECT_EQ(Ask(chain, least - 1)->outcome, Outcome::kInfeasible) << chain;
  }
}

TEST_P(EverySolver, RecomputesNothingWhereEverythingFits) {
  if (Name() == "revolve") return;  // by its nature it always does
  for (const Chain& chain : Chains()) {
    const auto answer = Ask(chain, StoreAllPeakBytes(chain));
    ASSERT_THAT(answer, IsOk());
    EXPECT_EQ(answer->outcome, Outcome::kOptimal) << chain;
    EXPECT_EQ(answer->prediction.overhead, 0) << chain;
  }
}

TEST_P(EverySolver, GivesEqualAnswersToEqualRequests) {
  const Chain chain = EqualChain(17);
  EXPECT_EQ(Ask(chain, 250)->schedule, Ask(chain, 250)->schedule);
}

TEST_P(EverySolver, DeclaresItsMemory) {
  const auto solver = GetParam().make();
  const Instance instance = Instance::Rounded({EqualChain(50), Memory(500), Name(), {}});
  EXPECT_GT(solver->WorkingBytes(instance), 0);
}

TEST_P(EverySolver, IsFoundByItsName) {
  EXPECT_EQ(FindSolver(Name()), &AllSolvers()[FindSolver(Name()) - AllSolvers().data()]);
  EXPECT_STREQ(FindSolver(Name())->description.name, Name().c_str());
  EXPECT_GE(GetParam().description.version, 1);
}

std::string NameOf(const testing::TestParamInfo<SolverInfo>& entry) {
  return entry.param.description.name;
}

INSTANTIATE_TEST_SUITE_P(Catalog, EverySolver,
                         testing::ValuesIn(AllSolvers().begin(), AllSolvers().end()), NameOf);

}  // namespace
}  // namespace stowage
