// The local search: improvements that it must find, determinism, cancellation.
#include "solver/algorithms/pofo/local_search.h"

#include <gtest/gtest.h>

#include <optional>
#include <stop_token>
#include <vector>

#include "solver/algorithms/pofo/part_sequences.h"
#include "solver/simulator/simulator.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

// Six stages that save 30 bytes each, and a budget of 120 bytes: rotor recomputes, but offloading
// is faster, since the link copies what a stage saves in 1 s.
class Improvement : public testing::Test {
 protected:
  Improvement() { platform_.offload_bytes_per_second = 30; }

  absl::StatusOr<std::optional<Schedule>> Improved(const Schedule& schedule,
                                                   const SolveContext& context = {}) const {
    const auto sequences = PartSequences::Build(chain_,
                                                {.memory_bytes = platform_.memory_bytes,
                                                 .max_recompute_seconds = 100,
                                                 .max_steps_per_part = 12},
                                                {});
    return Improve(chain_, platform_, schedule,
                   {.memory_bytes = platform_.memory_bytes,
                    .effort = 200'000,
                    .others = others_,
                    .sequences = &*sequences},
                   context);
  }
  double Seconds(const Schedule& schedule) const {
    const auto simulation = Simulate(chain_, platform_, schedule);
    EXPECT_THAT(simulation, IsOk());
    EXPECT_TRUE(simulation->feasible());
    return simulation->prediction.makespan_seconds;
  }

  Chain chain_ = EqualChain(6);
  Platform platform_ = Memory(120);
  std::vector<Schedule> others_;
  // Recomputes every stage but the last.
  Schedule recomputing_ =
      Ops("C1 D2 D3 D4 D5 S6 S7 B7 B6 C1 D2 D3 D4 S5 B5 C1 D2 D3 S4 B4 C1 D2 S3 B3 C1 S2 B2 S1 B1");
};

TEST_F(Improvement, OffloadsInsteadOfRecomputing) {
  const auto better = Improved(recomputing_);
  ASSERT_THAT(better, IsOk());
  ASSERT_TRUE(better->has_value());
  EXPECT_EQ(Seconds(recomputing_), 18 + 4 + 1 + 3 + 1 + 2 + 1 + 1 + 1 + 1);
  EXPECT_EQ(Seconds(**better), 18);
}

// Without a link: a way that takes 0.1 s more in the backward beats a forward of 1 s.
TEST_F(Improvement, SavesInOtherWaysInsteadOfRecomputing) {
  platform_.offload_bytes_per_second = 0;
  for (Stage& stage : chain_.stages) stage.save_options = {{"", 10, 2.1, 0}};
  const auto better = Improved(recomputing_);
  ASSERT_THAT(better, IsOk());
  ASSERT_TRUE(better->has_value());
  EXPECT_LE(Seconds(**better), 18 + 6 * 0.1 + 1e-9);
}

TEST_F(Improvement, GivesTheSameAnswerTwice) {
  const auto first = Improved(recomputing_);
  const auto second = Improved(recomputing_);
  ASSERT_THAT(first, IsOk());
  ASSERT_THAT(second, IsOk());
  EXPECT_EQ(**first, **second);
}

// Also from one that fits only after repairs.
TEST_F(Improvement, StartsFromOthersToo) {
  others_ = {recomputing_, Ops("S1 S2 S3 S4 S5 S6 S7 B7 B6 B5 B4 B3 B2 B1")};
  const auto better = Improved(recomputing_);
  ASSERT_THAT(better, IsOk());
  ASSERT_TRUE(better->has_value());
  EXPECT_EQ(Seconds(**better), 18);
}

TEST_F(Improvement, FindsNothingFasterThanComputingOnce) {
  platform_.memory_bytes = 300;
  const auto better = Improved(Ops("S1 S2 S3 S4 S5 S6 S7 B7 B6 B5 B4 B3 B2 B1"));
  ASSERT_THAT(better, IsOk());
  EXPECT_FALSE(better->has_value());
}

TEST_F(Improvement, StopsWhenCancelled) {
  std::stop_source source;
  source.request_stop();
  SolveContext context;
  context.stop = source.get_token();
  EXPECT_EQ(Improved(recomputing_, context).status().code(), absl::StatusCode::kCancelled);
}

TEST_F(Improvement, RepairsAScheduleThatDoesNotFit) {
  const Schedule storing = Ops("S1 S2 S3 S4 S5 S6 S7 B7 B6 B5 B4 B3 B2 B1");
  const auto simulation = Simulate(chain_, platform_, storing);
  ASSERT_THAT(simulation, IsOk());
  ASSERT_FALSE(simulation->feasible());
  const auto repaired = Improved(storing);
  ASSERT_THAT(repaired, IsOk());
  ASSERT_TRUE(repaired->has_value());
  EXPECT_EQ(Seconds(**repaired), 18);
}

}  // namespace
}  // namespace stowage
