// Merged chains (solver/algorithms/auto/merged_chain.h) and `auto` on chains that it coarsens.
// The simulator judges every expanded schedule on the chain itself.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "rapidcheck/gtest.h"
#include "solver/algorithms/auto/full_length.h"
#include "solver/algorithms/auto/merged_chain.h"
#include "solver/bounds/memory_range.h"
#include "solver/simulator/simulator.h"
#include "solver/solve/answer_request.h"
#include "solver/solve/catalog.h"
#include "tests/support/chains.h"
#include "tests/support/linked_chains.h"
#include "tests/support/network_chains.h"
#include "tests/support/profiles.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

RC_GTEST_PROP(MergedChain, HasGroupsThatMayBeMergedAndFit, ()) {
  const Chain chain = DrawLinkedChain(40);
  const auto stages = static_cast<int>(DrawBetween(1, 40));
  const int64_t most = DrawBetween(0, 200);
  const MergedChain merged =
      *MergedChain::Of(chain, {.stages = stages, .max_group_bytes = most}, {});
  int next = 1;
  for (int m = 1; m <= merged.chain().length() + 1; ++m) {
    RC_ASSERT(merged.first(m) == next);
    RC_ASSERT(merged.last(m) >= next);
    const Stage& stage = merged.chain().stage(m);
    int64_t saved = 0;
    for (int l = next; l <= merged.last(m); ++l) {
      RC_ASSERT(chain.stage(l).no_recompute <= stage.no_recompute);
      RC_ASSERT(chain.stage(l).no_offload <= stage.no_offload);
      saved += chain.saved_bytes(l);
    }
    RC_ASSERT(stage.saved_bytes == saved);
    if (merged.last(m) > next) RC_ASSERT(saved <= most);
    next = merged.last(m) + 1;
  }
  RC_ASSERT(next == chain.length() + 2);
  RC_ASSERT(StoreAllPeakBytes(merged.chain()) >= StoreAllPeakBytes(chain));
}

RC_GTEST_PROP(MergedChain, ExpandsASolversScheduleToOneThatNeedsNoMore, ()) {
  const bool ordinary = DrawBetween(0, 2) != 0;
  const Chain chain = ordinary ? DrawLinkedChain(24) : *SmallOptionChains(24);
  const auto stages = static_cast<int>(DrawBetween(1, chain.length()));
  MergedChain::Options options{.stages = stages, .max_group_bytes = DrawBetween(0, 300)};
  if (DrawBetween(0, 1) == 0) options.compact_bytes = DrawBetween(0, 60);
  const MergedChain merged = *MergedChain::Of(chain, options, {});
  RC_CLASSIFY(options.compact_bytes.has_value(), "compact");
  Platform platform = DrawLinkedPlatform(merged.chain());
  platform.half_duplex = *rc::gen::arbitrary<bool>();
  if (DrawBetween(0, 2) == 0) platform.host_memory_bytes = DrawBetween(1, 100);
  if (DrawBetween(0, 3) == 0) platform.offload_bytes_per_second = 0;
  const std::string solver = *rc::gen::element<std::string>("rotor", "pofo", "opportunist", "auto");
  const auto answer = AnswerRequest({merged.chain(), platform, solver, {.time_precision = 0}}, {});
  RC_ASSERT(answer.ok());
  RC_CLASSIFY(answer->outcome == Outcome::kInfeasible, "infeasible");
  if (answer->outcome == Outcome::kInfeasible) return;
  const Schedule expanded = merged.Expand(answer->schedule);
  RC_LOG() << chain << answer->schedule << "\n" << expanded;
  const auto simulation = Simulate(chain, platform, expanded);
  RC_ASSERT(simulation.ok());
  RC_ASSERT(simulation->feasible());
  const Prediction& prediction = simulation->prediction;
  const Prediction& of_merged = answer->prediction;
  RC_ASSERT(prediction.peak_memory_bytes <= of_merged.peak_memory_bytes);
  RC_ASSERT(prediction.peak_host_bytes <= of_merged.peak_host_bytes);
  RC_ASSERT(RelativeExcess(prediction.compute_seconds, of_merged.compute_seconds) < 1e-9);
  // The forward of a compact group is left out where its backward is next.
  if (options.compact_bytes.has_value() || !ordinary) return;
  RC_ASSERT(RelativeExcess(of_merged.compute_seconds, prediction.compute_seconds) < 1e-9);
}

// All that a compact group saves is its output, which the next group's backward drops.
TEST(MergedChain, CopiesOnlyWhatItsScheduleStillHas) {
  const Chain chain = EqualChain(4);
  const MergedChain merged =
      *MergedChain::Of(chain, {.stages = 2, .max_group_bytes = 1000, .compact_bytes = 0}, {});
  ASSERT_EQ(merged.last(1), 2);
  ASSERT_TRUE(merged.compact());
  Platform platform = Memory(1000);
  platform.offload_bytes_per_second = 1;
  const auto expect = [&](absl::string_view schedule, absl::string_view transfers) {
    ASSERT_THAT(Simulate(merged.chain(), platform, Ops(schedule)), IsOk()) << schedule;
    Schedule expanded = merged.Expand(Ops(schedule));
    EXPECT_THAT(Simulate(chain, platform, expanded), IsOk()) << expanded;
    std::erase_if(expanded.operations, [](const auto& one) { return IsCompute(one.kind); });
    EXPECT_EQ(expanded, Ops(transfers)) << schedule;
  };
  expect("S1 O1 R1 P1 S2 S3 B3 B2 B1", "O2 R2 P2");
  expect("S1 O1 S2 R1 S3 B3 P1 B2 B1", "O2 R2 P2");
  expect("S1 O1 S2 S3 B3 B2 R1 P1 B1", "");
  expect("C1 S2 S3 B3 B2 S1 O1 R1 P1 B1", "");
  expect("S1 S2 S3 B3 B2 O1 R1 P1 B1", "");
}

// A random chain too long for all solvers, with every kind of stage.
Chain LongChain(int stages) {
  Chain chain = DrawLinkedChain(10);
  while (chain.length() < stages) {
    const Chain more = DrawLinkedChain(10);
    chain.stages.insert(chain.stages.end(), more.stages.begin(), more.stages.end());
  }
  return chain;
}

TEST(Coarsening, KeepsItsPromisesOnRandomChains) {
  rc::Random random(11);
  for (int i = 0; i < 6; ++i) {
    const rc::Gen<std::pair<Chain, Platform>> requests = rc::gen::exec([] {
      const Chain chain = LongChain(201);
      Platform platform = DrawLinkedPlatform(chain);
      platform.half_duplex = *rc::gen::arbitrary<bool>();
      return std::pair(chain, platform);
    });
    auto [chain, platform] = requests(random.split(), rc::kNominalSize).value();
    const auto answer = AnswerRequest({chain, platform, "auto", {}}, {});
    ASSERT_THAT(answer, IsOk());
    EXPECT_TRUE(answer->rejected.empty());
    ASSERT_TRUE(answer->minimum_memory_bytes.has_value());
    if (answer->outcome == Outcome::kInfeasible) {
      EXPECT_LT(platform.memory_bytes, *answer->minimum_memory_bytes);
    }
    // Rotor runs on the chain itself.
    const auto rotor = AnswerRequest({chain, platform, "rotor", {}}, {});
    ASSERT_THAT(rotor, IsOk());
    if (rotor->outcome != Outcome::kInfeasible) {
      ASSERT_NE(answer->outcome, Outcome::kInfeasible);
      EXPECT_LE(answer->prediction.makespan_seconds,
                rotor->prediction.makespan_seconds * (1 + 1e-9));
    }
    platform.memory_bytes = *answer->minimum_memory_bytes;
    const auto least = AnswerRequest({chain, platform, "auto", {}}, {});
    ASSERT_THAT(least, IsOk());
    EXPECT_NE(least->outcome, Outcome::kInfeasible) << "at the least memory that it names";
  }
}

// Which solvers it asks for the chain itself depends on lengths and links only, never on time.
void ExpectNoSolverAskedIsFaster(const Chain& chain, const Platform& platform) {
  const auto answer = AnswerRequest({chain, platform, "auto", {.time_precision = 0}}, {});
  ASSERT_THAT(answer, IsOk());
  for (const SolverInfo& info : AllSolvers()) {
    const SolverDescription& solver = info.description;
    if (solver.mixes_modes || (solver.offloads && !platform.has_link())) continue;
    if (!info.asked_by_auto) continue;
    if (!AsksAtFullLength(solver.name, chain, platform)) continue;
    const auto one =
        AnswerRequest({chain, platform, std::string(solver.name), {.time_precision = 0}}, {});
    ASSERT_THAT(one, IsOk());
    if (one->outcome == Outcome::kInfeasible) continue;
    ASSERT_NE(answer->outcome, Outcome::kInfeasible) << solver.name;
    EXPECT_LE(answer->prediction.makespan_seconds, one->prediction.makespan_seconds * (1 + 1e-9))
        << solver.name << " of " << chain.length() << " stages within " << platform.memory_bytes;
  }
}

TEST(Coarsening, IsNeverSlowerThanASolverThatItAsksAtFullLength) {
  rc::Random random(5);
  for (const int stages : {50, 140, 190, 240, 450, 590}) {
    const rc::Gen<std::pair<Chain, Platform>> requests = rc::gen::exec([stages] {
      Chain chain = LongChain(stages);
      // Longer stretches that may not run again, and equal stages.
      const auto kind = DrawBetween(0, 2);
      for (size_t i = 1; i < chain.stages.size(); ++i) {
        Stage& stage = chain.stages[i];
        if (kind == 0) stage.no_recompute = i % 2 == 0;
        if (kind == 1 && i % 3 != 0) stage = chain.stages[i - 1];
      }
      Platform platform = DrawLinkedPlatform(chain);
      platform.half_duplex = *rc::gen::arbitrary<bool>();
      return std::pair(chain, platform);
    });
    auto [chain, platform] = requests(random.split(), rc::kNominalSize).value();
    ExpectNoSolverAskedIsFaster(chain, platform);
    platform.offload_bytes_per_second = 0;
    ExpectNoSolverAskedIsFaster(chain, platform);
  }
}

TEST(Coarsening, IsNeverSlowerThanASolverThatItAsksOnRealChains) {
  struct Case {
    const char* profile;
    int percent;
    double bytes_per_second;
  };
  constexpr Case kCases[] = {{"preact-resnet1001-8-224", 10, 12e9},
                             {"preact-resnet1001-1-224", 30, 0},
                             {"cases/harmony-vgg416", 15, 0},
                             {"analytic-gpt2xl-4-1024", 5, 12e9}};
  for (const Case& one : kCases) {
    const Chain chain = LoadProfile(one.profile);
    const int64_t low = FloorOfMemory(chain).bytes;
    Platform platform = Memory(low + (StoreAllPeakBytes(chain) - low) / 100 * one.percent);
    platform.offload_bytes_per_second = one.bytes_per_second;
    ExpectNoSolverAskedIsFaster(chain, platform);
  }
}

TEST(Coarsening, SaysThatItMergedStagesAndPublishesOnItsWay) {
  const Chain chain = ResnetLikeNetwork(1200);
  Platform platform;
  const int64_t low = FloorOfMemory(chain).bytes;
  platform.memory_bytes = low + (StoreAllPeakBytes(chain) - low) / 10;
  platform.offload_bytes_per_second = 12e9;
  int published = 0;
  double fastest = 0;
  const auto answer = AnswerRequest({chain, platform, "auto", {}}, {}, [&](const Answer& better) {
    if (published > 0) {
      EXPECT_LT(better.prediction.makespan_seconds, fastest);
    }
    fastest = better.prediction.makespan_seconds;
    ++published;
  });
  ASSERT_THAT(answer, IsOk());
  ASSERT_EQ(answer->explanation.notes.size(), 1U);
  EXPECT_NE(answer->explanation.notes[0].find("1200 stages were merged to"), std::string::npos)
      << answer->explanation.notes[0];
  EXPECT_GE(published, 4);
  EXPECT_EQ(fastest, answer->prediction.makespan_seconds);
  EXPECT_LT(answer->prediction.gap, 0.05);
}

TEST(Coarsening, StopsWhenCancelled) {
  const Chain chain = ResnetLikeNetwork(1200);
  Platform platform = Memory(StoreAllPeakBytes(chain) / 5);
  platform.offload_bytes_per_second = 12e9;
  std::stop_source stop;
  SolveContext context;
  context.stop = stop.get_token();
  const auto answer = AnswerRequest({chain, platform, "auto", {}}, context,
                                    [&](const Answer&) { stop.request_stop(); });
  EXPECT_TRUE(absl::IsCancelled(answer.status())) << answer.status();
}

}  // namespace
}  // namespace stowage
