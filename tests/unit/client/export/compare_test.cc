#include "client/export/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/export/local_export.h"
#include "solver/export/named_setting.h"
#include "solver/simulator/simulator.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAreArray;

Chain Uneven() {
  Chain chain = EqualChain(6);
  for (size_t i = 0; i < chain.stages.size(); ++i) {
    chain.stages[i].forward_seconds = 1 + 0.3 * static_cast<double>(i * 5 % 7);
    chain.stages[i].saved_bytes += static_cast<int64_t>(i * 3 % 5) * 7;
  }
  return chain;
}

std::vector<ComparedSchedule> Compared(absl::string_view target, const Chain& chain,
                                       int64_t bytes) {
  const auto compared =
      CompareSettings({FindTarget(target), chain, Memory(bytes), {1, chain.length()}}, {});
  EXPECT_THAT(compared, IsOk());
  return compared.value_or(std::vector<ComparedSchedule>());
}

std::vector<std::string> NamesOf(const std::vector<ComparedSchedule>& compared) {
  std::vector<std::string> names;
  for (const ComparedSchedule& setting : compared) names.push_back(setting.name);
  return names;
}

TEST(CompareSettings, SaysOfEachNameWhatItCosts) {
  const Chain chain = Uneven();
  const int64_t bytes = 250;
  std::map<std::string, int> times;
  for (const ComparedSchedule& compared : Compared("megatron", chain, bytes)) {
    SCOPED_TRACE(compared.name);
    ++times[compared.name];
    const auto named = ParseNamedSetting(compared.name);
    ASSERT_THAT(named, IsOk());
    const auto simulation =
        Simulate(chain, Memory(bytes), ScheduleOf(*named, chain, {1, chain.length()}));
    ASSERT_THAT(simulation, IsOk());
    EXPECT_EQ(simulation->prediction.makespan_seconds, compared.prediction.makespan_seconds);
    EXPECT_EQ(simulation->prediction.peak_memory_bytes, compared.prediction.peak_memory_bytes);
    EXPECT_EQ(simulation->feasible(), compared.fits);
  }
  EXPECT_EQ(times.size(), 12u) << "nothing, uniform 1 to 6, and block 1 to 5";
}

TEST(CompareSettings, HasOneOfEveryLayersWhereTheTargetHas) {
  for (const char* target : {"torchtitan", "huggingface"}) {
    SCOPED_TRACE(target);
    std::vector<std::string> names = {"best", "all", "none"};
    for (int layers = 2; layers <= 6; ++layers) names.push_back(absl::StrCat("every:", layers));
    for (std::string& name : names) name = absl::StrCat(target, name == "best" ? ": " : ":", name);
    const auto compared = Compared(target, Uneven(), 250);
    EXPECT_THAT(NamesOf(compared), UnorderedElementsAreArray(names));
    std::set<std::pair<double, int64_t>> figures;
    for (const ComparedSchedule& setting : compared) {
      const Prediction& prediction = setting.prediction;
      figures.insert({prediction.makespan_seconds, prediction.peak_memory_bytes});
      const double best = compared.front().prediction.makespan_seconds;
      EXPECT_TRUE(!setting.fits || prediction.makespan_seconds >= best) << setting.name;
    }
    EXPECT_GE(figures.size(), 7u);
  }
}

TEST(CompareSettings, BeginsWithTheFastestThatFits) {
  for (int64_t bytes = 100; bytes <= 400; bytes += 10) {
    const auto compared = Compared("megatron", Uneven(), bytes);
    for (size_t i = 1; i < compared.size(); ++i) {
      const ComparedSchedule& before = compared[i - 1];
      EXPECT_GE(before.fits, compared[i].fits);
      if (before.fits && compared[i].fits) {
        EXPECT_LE(before.prediction.makespan_seconds, compared[i].prediction.makespan_seconds);
      } else if (!before.fits) {
        EXPECT_LE(before.prediction.peak_memory_bytes, compared[i].prediction.peak_memory_bytes);
      }
    }
    const auto best = MakeExport({FindTarget("megatron"), Uneven(), Memory(bytes), {1, 6}}, {});
    ASSERT_THAT(best, IsOk());
    ASSERT_EQ(best->exported.has_value(), compared.front().fits);
    if (!compared.front().fits) continue;
    EXPECT_NEAR(best->exported->prediction.makespan_seconds,
                compared.front().prediction.makespan_seconds, 1e-9);
  }
}

TEST(CompareSettings, NamesTheBestPlanOfTargetsWhosePlansHaveNoName) {
  EXPECT_EQ(NamesOf(Compared("torchtitan", Uneven(), 250)).front(), "torchtitan: best");
  EXPECT_THAT(NamesOf(Compared("pytorch", Uneven(), 50)),
              ElementsAre("pytorch:all", "pytorch:none"));
}

TEST(CompareSettings, LeavesOutWhatTheFrameworkCannotRun) {
  Chain chain = EqualChain(3);
  chain.stages[1].no_recompute = true;
  EXPECT_THAT(NamesOf(Compared("megatron", chain, 1000)),
              ElementsAre("megatron:none", "megatron:block:1"));
}

}  // namespace
}  // namespace stowage
