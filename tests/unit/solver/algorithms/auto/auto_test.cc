// How `auto` divides its working memory among solvers and labels its answer, and regressions.
#include "solver/algorithms/auto/auto.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "solver/bounds/memory_range.h"
#include "solver/solve/answer_request.h"
#include "tests/support/chains.h"
#include "tests/support/network_chains.h"
#include "tests/support/profiles.h"
#include "tests/support/status_matchers.h"

namespace stowage {
namespace {

Platform Linked(const Chain& chain, int percent, double bytes_per_second) {
  const int64_t low = FloorOfMemory(chain).bytes;
  Platform platform = Memory(low + (StoreAllPeakBytes(chain) - low) / 100 * percent);
  platform.offload_bytes_per_second = bytes_per_second;
  return platform;
}

// rotor's table could use all of the working memory; the solvers that offload must still run.
TEST(Auto, LeavesMemoryForOffloadingBesideRotorsTable) {
  const Chain chain = ResnetLikeNetwork(100);
  const Platform platform = Linked(chain, 20, 20e9);
  SolveContext context;
  context.working_bytes = int64_t{38} << 20;
  const auto best = AnswerRequest({chain, platform, "auto", {}}, context);
  ASSERT_THAT(best, IsOk());
  for (const std::string& note : best->explanation.notes) {
    EXPECT_THAT(note, testing::Not(testing::HasSubstr("pofo was left out")));
  }
  for (const char* solver : {"rotor", "autocapper", "pofo"}) {
    const auto answer = AnswerRequest({chain, platform, solver, {}}, context);
    ASSERT_THAT(answer, IsOk()) << solver;
    EXPECT_LE(best->prediction.makespan_seconds, answer->prediction.makespan_seconds * (1 + 1e-9))
        << solver;
  }
}

// rotor wins and is optimal without offloading, but a schedule that offloads might be faster.
TEST(Auto, CallsOptimalWithALinkOnlyWhatTheBoundProves) {
  const Chain chain = LoadProfile("torchvision-resnet18-16-500");
  Platform platform = Linked(chain, 50, 12e9);
  platform.half_duplex = true;
  const auto linked = AnswerRequest({chain, platform, "auto", {}}, {});
  ASSERT_THAT(linked, IsOk());
  EXPECT_EQ(linked->solver, "rotor");
  EXPECT_GT(linked->prediction.gap, 0);
  EXPECT_EQ(linked->outcome, Outcome::kFeasible);
  const auto alone = AnswerRequest({chain, Memory(platform.memory_bytes), "auto", {}}, {});
  ASSERT_THAT(alone, IsOk());
  EXPECT_EQ(alone->outcome, Outcome::kOptimal);
}

// The last stage has an output of 4 bytes. A relaxation's axis there spans a few bytes, and the
// load of a gigabyte lies billions of grid points beyond it.
TEST(Auto, CopesWithAStageOfFourBytesBesideOthersOfGigabytes) {
  Chain chain = EqualChain(13);
  chain.input_bytes = 1'000'000'000;
  chain.input_gradient_bytes = 0;
  for (Stage& stage : chain.stages) {
    stage.forward_seconds = 0.01;
    stage.backward_seconds = 0.02;
    stage.output_bytes = 1'000'000'000;
    stage.saved_bytes = 3'000'000'000;
  }
  Stage& last = chain.stages.back();
  last.output_bytes = last.saved_bytes = 4;
  last.forward_seconds = last.backward_seconds = 0.001;
  for (const int percent : {30, 50, 70, 90}) {
    for (const double latency : {0.0, 0.1}) {
      Platform platform = Linked(chain, percent, 12e9);
      platform.transfer_latency_seconds = latency;
      for (const char* solver : {"pofo", "auto"}) {
        const auto answer = AnswerRequest({chain, platform, solver, {}}, {});
        ASSERT_THAT(answer, IsOk());
        EXPECT_NE(answer->outcome, Outcome::kInfeasible) << solver << " at " << percent << " %";
      }
    }
  }
}

// autocapper's sequence for the least memory reads one value four times and offloads it in the
// first and the third of its gaps.
TEST(Auto, HasAScheduleForTheLeastMemoryThatItNames) {
  struct Line {
    double forward, backward;
    int64_t output, saved, gradient, backward_overhead;
  };
  Chain chain;
  chain.input_bytes = 1;
  chain.input_gradient_bytes = 1;
  for (const Line& line :
       {Line{3.29, 3.47, 2, 2, 0, 2}, Line{4.26, 8.59, 4, 6, 4, 5}, Line{9.63, 1.14, 2, 2, 2, 0},
        Line{6.73, 2.85, 2, 2, 2, 0}, Line{3.21, 9.41, 4, 6, 4, 0}, Line{4.64, 0, 4, 7, 2, 0},
        Line{3.77, 6.67, 0, 0, 0, 0}}) {
    Stage stage;
    stage.forward_seconds = line.forward * 1e8;
    stage.backward_seconds = line.backward * 1e8;
    stage.output_bytes = line.output;
    stage.saved_bytes = line.saved;
    stage.gradient_bytes = line.gradient;
    stage.backward_overhead_bytes = line.backward_overhead;
    chain.stages.push_back(stage);
  }
  chain.stages[5].no_recompute = chain.stages[6].no_recompute = true;
  chain.stages[6].no_offload = true;
  chain.loss.forward_seconds = 2.76e8;
  chain.loss.backward_seconds = 2.01e8;
  chain.loss.saved_bytes = 2;
  chain.loss.backward_overhead_bytes = 4;
  Platform platform = Memory(17);
  platform.offload_bytes_per_second = 0.001;
  platform.transfer_latency_seconds = 5.0792e7;
  for (const char* solver : {"autocapper", "auto"}) {
    const auto least = AnswerRequest({chain, platform, solver, {}}, {})->minimum_memory_bytes;
    ASSERT_TRUE(least.has_value()) << solver;
    platform.memory_bytes = *least;
    const auto answer = AnswerRequest({chain, platform, solver, {}}, {});
    ASSERT_THAT(answer, IsOk()) << solver << " within " << *least;
    EXPECT_NE(answer->outcome, Outcome::kInfeasible);
    EXPECT_TRUE(answer->rejected.empty());
  }
}

}  // namespace
}  // namespace stowage
