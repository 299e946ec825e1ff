// What every solver of the catalog owes its users, on every kind of chain.
#include <gtest/gtest.h>

#include <string>

#include "solver/base/thread_pool.h"
#include "solver/bounds/lower_bound.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/modes.h"
#include "solver/simulator/simulator.h"
#include "solver/solve/answer_request.h"
#include "solver/solve/catalog.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"

namespace stowage {

// Names tests and failures after the solver.
void PrintTo(const SolverInfo& info, std::ostream* out) { *out << info.description.name; }

namespace {

class EverySolver : public testing::TestWithParam<SolverInfo> {
 protected:
  std::string Name() const { return GetParam().description.name; }

  absl::StatusOr<Answer> Ask(const Chain& chain, const Platform& platform) const {
    return AnswerRequest({chain, platform, Name(), {}}, {});
  }
  absl::StatusOr<Answer> Ask(const Chain& chain, int64_t memory_bytes) const {
    return Ask(chain, Memory(memory_bytes));
  }

  // Links that move a chain's values in a few of its steps, or in a tenth of one.
  static std::vector<Platform> Links(const Chain& chain) {
    const auto bytes = static_cast<double>(StoreAllPeakBytes(chain) + 1);
    const double seconds = ComputeSeconds(chain) + 1;
    Platform fast;
    fast.offload_bytes_per_second = 10 * bytes / seconds;
    Platform slow;
    slow.offload_bytes_per_second = bytes / seconds / 3;
    slow.half_duplex = true;
    slow.transfer_latency_seconds = seconds / 100;
    Platform uneven;
    uneven.offload_bytes_per_second = bytes / seconds;
    uneven.prefetch_bytes_per_second = 2 * bytes / seconds;
    uneven.host_memory_bytes = StoreAllPeakBytes(chain) / 4;
    Platform one_way;
    one_way.offload_bytes_per_second = bytes / seconds;
    one_way.prefetch_bytes_per_second = 0;
    return {fast, slow, uneven, one_way};
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
    Chain half_fixed = EqualChain(6);
    for (const int i : {1, 2}) half_fixed.stages[i].no_offload = true;
    chains.push_back(half_fixed);
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

// Says whether the answer is what a job may rely on.
void ExpectSound(const Chain& chain, const Platform& platform, const Answer& answer) {
  EXPECT_TRUE(answer.rejected.empty()) << chain;
  ASSERT_TRUE(answer.minimum_memory_bytes.has_value());
  EXPECT_EQ(answer.outcome == Outcome::kInfeasible,
            platform.memory_bytes < *answer.minimum_memory_bytes)
      << chain;
  if (answer.outcome == Outcome::kInfeasible) return;
  const auto simulation = SimulateWithBound(chain, platform, answer.schedule);
  ASSERT_THAT(simulation, IsOk()) << chain;
  EXPECT_TRUE(simulation->feasible()) << chain;
  EXPECT_GE(answer.prediction.makespan_seconds,
            answer.prediction.lower_bound_seconds * (1 - 1e-12));
}

TEST_P(EverySolver, AnswersWithSchedulesThatFitOrWithTheLeastMemory) {
  for (const Chain& chain : Chains()) {
    const int64_t low = FloorOfMemory(chain).bytes;
    const int64_t high = StoreAllPeakBytes(chain);
    for (int percent = 0; percent <= 110; percent += 10) {
      const Platform platform = Memory(low + (high - low) * percent / 100);
      const auto answer = Ask(chain, platform);
      ASSERT_THAT(answer, IsOk()) << chain;
      ExpectSound(chain, platform, *answer);
    }
  }
}

TEST_P(EverySolver, AnswersLikewiseWithALink) {
  for (const Chain& chain : Chains()) {
    const int64_t low = FloorOfMemory(chain).bytes;
    const int64_t high = StoreAllPeakBytes(chain);
    for (Platform platform : Links(chain)) {
      for (const int percent : {5, 40, 80}) {
        platform.memory_bytes = low + (high - low) * percent / 100;
        const auto answer = Ask(chain, platform);
        ASSERT_THAT(answer, IsOk()) << chain;
        ExpectSound(chain, platform, *answer);
      }
    }
  }
}

TEST_P(EverySolver, HasAScheduleForItsLeastMemoryAndNoneBelow) {
  for (const Chain& chain : Chains()) {
    std::vector<Platform> platforms = Links(chain);
    platforms.push_back({});
    for (Platform platform : platforms) {
      const int64_t least = *Ask(chain, platform)->minimum_memory_bytes;
      EXPECT_GE(least, FloorOfMemory(chain).bytes);
      platform.memory_bytes = least;
      EXPECT_NE(Ask(chain, platform)->outcome, Outcome::kInfeasible) << chain;
      if (least == 0) continue;
      platform.memory_bytes = least - 1;
      EXPECT_EQ(Ask(chain, platform)->outcome, Outcome::kInfeasible) << chain;
    }
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
  Platform linked = Memory(250);
  linked.offload_bytes_per_second = 20;
  EXPECT_EQ(Ask(chain, linked)->schedule, Ask(chain, linked)->schedule);
}

// Threads that help, as a server lends them.
TEST_P(EverySolver, GivesTheSameAnswerWithHelpers) {
  ThreadPool helpers(2);
  SolveContext context;
  context.threads = &helpers;
  const Chain chain = EqualChain(150);  // of so many stages tables have tiles for several threads
  const Platform platform = Memory(StoreAllPeakBytes(chain) / 2);
  const auto alone = Ask(chain, platform);
  const auto helped = AnswerRequest({chain, platform, Name(), {}}, context);
  ASSERT_THAT(alone, IsOk());
  ASSERT_THAT(helped, IsOk());
  EXPECT_EQ(helped->outcome, alone->outcome);
  EXPECT_EQ(helped->schedule, alone->schedule);
  EXPECT_TRUE(Name() != "rotor" || helped->outcome != Outcome::kInfeasible);
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
