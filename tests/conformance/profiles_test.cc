// What the solvers do with real chains: every profile of tests/data, at budgets from the least that
// a solver can work with to what storing everything takes.
#include "tests/support/profiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "solver/algorithms/rematerialization/periodic.h"
#include "solver/bounds/memory_range.h"
#include "solver/simulator/simulator.h"
#include "solver/solve/answer_request.h"
#include "solver/solve/catalog.h"
#include "tests/support/chains.h"
#include "tests/support/effort.h"
#include "tests/support/status_matchers.h"
#include "tests/support/step_rotor.h"

namespace stowage {
namespace {

// Sums of the same times in another order may differ by so much, relatively.
constexpr double kSame = 1e-9;

// A solver with its options.
struct Setting {
  std::string name;
  std::string solver;
  int64_t memory_slots = 0;
};

// Each solver as it comes, and on slots those that would not use any on short chains.
std::vector<Setting> AllSettings() {
  std::vector<Setting> settings;
  for (const SolverInfo& info : AllSolvers()) {
    settings.push_back({info.description.name, info.description.name});
  }
  for (const char* solver : {"rotor", "revolve"}) {
    settings.push_back({std::string(solver) + "_500", solver, 500});
  }
  return settings;
}

void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }

Answer Ask(const Chain& chain, int64_t memory_bytes, const Setting& setting) {
  const auto answer = AnswerRequest(
      {chain, Memory(memory_bytes), setting.solver, {.memory_slots = setting.memory_slots}}, {});
  EXPECT_THAT(answer, IsOk()) << setting.name << " within " << memory_bytes;
  return answer.value_or(Answer{});
}

int64_t LeastBytes(const Chain& chain, const Setting& setting) {
  return Ask(chain, 0, setting).minimum_memory_bytes.value();
}

// Evenly from `least` to what storing everything takes: 4, thoroughly 20, and fewer for chains of
// hundreds of stages, which take seconds each.
std::vector<int64_t> Budgets(const Chain& chain, int64_t least) {
  int count = IsThorough() ? 20 : 4;
  if (chain.length() > 100) count = IsThorough() ? 6 : 3;
  const int64_t most = std::max(least, StoreAllPeakBytes(chain));
  std::vector<int64_t> budgets;
  budgets.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) budgets.push_back(least + (most - least) / (count - 1) * i);
  budgets.back() = most;
  return budgets;
}

// Test names hold no hyphens.
std::string Identifier(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::string NameOf(const testing::TestParamInfo<std::string>& profile) {
  return Identifier(profile.param);
}

// Those with a number of stages in [first, last].
std::vector<std::string> ProfilesOfLength(int first, int last) {
  std::vector<std::string> names;
  for (const std::string& name : SampledProfiles()) {
    const int length = LoadProfile(name).length();
    if (first <= length && length <= last) names.push_back(name);
  }
  return names;
}

class EverySetting : public testing::TestWithParam<std::tuple<std::string, Setting>> {};

TEST_P(EverySetting, AnswersAllThatItCan) {
  const Chain chain = LoadProfile(std::get<0>(GetParam()));
  const Setting& setting = std::get<1>(GetParam());
  std::optional<double> best_optimum;
  for (const int64_t memory : Budgets(chain, LeastBytes(chain, setting))) {
    SCOPED_TRACE(memory);
    const Answer answer = Ask(chain, memory, setting);
    ASSERT_NE(answer.outcome, Outcome::kInfeasible);
    EXPECT_TRUE(answer.rejected.empty());
    const auto simulation = Simulate(chain, Memory(memory), answer.schedule);
    ASSERT_THAT(simulation, IsOk());
    EXPECT_TRUE(simulation->feasible());
    const double seconds = simulation->prediction.makespan_seconds;
    EXPECT_EQ(answer.prediction.makespan_seconds, seconds);
    if (memory == StoreAllPeakBytes(chain) && setting.solver != "revolve") {
      EXPECT_EQ(simulation->prediction.recompute_seconds, 0);
    }
    if (answer.outcome != Outcome::kOptimal) continue;
    EXPECT_LE(seconds, best_optimum.value_or(seconds));
    best_optimum = seconds;
  }
}

INSTANTIATE_TEST_SUITE_P(Profiles, EverySetting,
                         testing::Combine(testing::ValuesIn(SampledProfiles()),
                                          testing::ValuesIn(AllSettings())),
                         [](const auto& test) {
                           return Identifier(std::get<0>(test.param)) + "_" +
                                  std::get<1>(test.param).name;
                         });

class Profile : public testing::TestWithParam<std::string> {
 protected:
  const Chain chain_ = LoadProfile(GetParam());
};

TEST_P(Profile, IsSolvedNoSlowerByRotorThanByTheSimplerSolvers) {
  const Setting rotor = {"rotor", "rotor"};
  for (const std::string other : {"revolve", "periodic"}) {
    for (const int64_t memory : Budgets(chain_, LeastBytes(chain_, {other, other}))) {
      EXPECT_LE(Ask(chain_, memory, rotor).prediction.makespan_seconds,
                Ask(chain_, memory, {other, other}).prediction.makespan_seconds * (1 + kSame))
          << other << " within " << memory;
    }
  }
}

// Nothing to spare: the memory is what a schedule of the same class needs to the byte.
TEST_P(Profile, IsSolvedNoSlowerByRotorThanByEqualSegmentsWithTheirMemory) {
  const Platform unlimited = Memory(std::numeric_limits<int64_t>::max());
  for (int segments = 2; segments <= std::min(8, chain_.length()); ++segments) {
    const auto periodic = Simulate(chain_, unlimited, PeriodicSchedule(chain_, segments));
    ASSERT_THAT(periodic, IsOk());
    const int64_t memory = periodic->prediction.peak_memory_bytes;
    EXPECT_LE(Ask(chain_, memory, {"rotor", "rotor"}).prediction.makespan_seconds,
              periodic->prediction.makespan_seconds * (1 + kSame))
        << segments << " segments, within " << memory;
  }
}

class ShortProfile : public Profile {};

TEST_P(ShortProfile, IsSolvedAlmostAsWellOnSlotsAsInBytes) {
  constexpr double kSlotsLoss = 0.005;
  constexpr double kGranulesLoss = 1e-4;
  const StepRotor optimum(chain_);
  const Setting exact = {"rotor", "rotor"};
  const Setting slots = {"rotor_500", "rotor", 500};
  EXPECT_EQ(LeastBytes(chain_, exact), optimum.LeastBytes());
  EXPECT_EQ(LeastBytes(chain_, slots), optimum.LeastBytes());
  for (const int64_t memory : Budgets(chain_, optimum.LeastBytes())) {
    const double best = *optimum.Seconds(memory);
    const Answer answer = Ask(chain_, memory, exact);
    const double loss = answer.outcome == Outcome::kOptimal ? kSame : kGranulesLoss;
    EXPECT_LE(answer.prediction.makespan_seconds, best * (1 + loss)) << memory;
    EXPECT_GE(answer.prediction.makespan_seconds, best * (1 - kSame)) << memory;
    EXPECT_LE(Ask(chain_, memory, slots).prediction.makespan_seconds, best * (1 + kSlotsLoss))
        << memory;
  }
}

// The long chains have no exact optimum to compare with; a finer grid is the next best.
class LongProfile : public Profile {};

TEST_P(LongProfile, GainsLittleFromTenTimesTheSlots) {
  const Setting coarse = {"rotor_500", "rotor", 500};
  const Setting fine = {"rotor_5000", "rotor", 5000};
  for (const int64_t memory : Budgets(chain_, LeastBytes(chain_, coarse))) {
    EXPECT_LE(Ask(chain_, memory, coarse).prediction.makespan_seconds,
              Ask(chain_, memory, fine).prediction.makespan_seconds * 1.01)
        << memory;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Profile, testing::ValuesIn(AllProfiles()), NameOf);
INSTANTIATE_TEST_SUITE_P(All, ShortProfile, testing::ValuesIn(ProfilesOfLength(1, 50)), NameOf);
INSTANTIATE_TEST_SUITE_P(All, LongProfile, testing::ValuesIn(ProfilesOfLength(300, 400)), NameOf);

}  // namespace
}  // namespace stowage
