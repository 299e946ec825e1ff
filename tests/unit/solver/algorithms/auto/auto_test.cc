// How `auto` divides its working memory among solvers and labels its answer, and regressions.
#include "solver/algorithms/auto/auto.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "solver/algorithms/rematerialization/store_all.h"
#include "solver/bounds/memory_range.h"
#include "solver/solve/answer_request.h"
#include "solver/solve/catalog.h"
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

// Stores everything, and names a bound on its own schedules. Counts its solves, and how often it is
// asked for its least memory.
class Bounded final : public Solver {
 public:
  static int solves;
  static int asked;
  static double min_seconds;

  int64_t WorkingBytes(const Instance& instance) const override {
    return MakeStoreAll()->WorkingBytes(instance);
  }
  absl::StatusOr<std::optional<int64_t>> LeastBytes(const Instance& instance,
                                                    const SolveContext& context) const override {
    ++asked;
    return MakeStoreAll()->LeastBytes(instance, context);
  }
  double LeastSeconds(const Instance&) const override { return min_seconds; }
  absl::StatusOr<std::unique_ptr<const Solution>> Solve(
      const Instance& instance, const SolveContext& context) const override {
    ++solves;
    return MakeStoreAll()->Solve(instance, context);
  }
};
int Bounded::solves = 0;
int Bounded::asked = 0;
double Bounded::min_seconds = 0;

// EqualChain(10) within 200 bytes, by periodic and by Bounded.
TEST(Auto, LeavesOutASolverThatCannotWin) {
  SolverInfo bounded = *FindSolver("store_all");
  bounded.make = []() -> std::unique_ptr<Solver> { return std::make_unique<Bounded>(); };
  const SolverInfo solvers[] = {*FindSolver("periodic"), bounded};
  const auto solves = [&](double min_seconds, double bytes_per_second, int64_t lowest_bytes) {
    Bounded::solves = 0;
    Bounded::min_seconds = min_seconds;
    Platform platform = Memory(200);
    platform.offload_bytes_per_second = bytes_per_second;
    SolveContext context;
    context.lowest_bytes = lowest_bytes;
    const Instance instance = Instance::Exact({EqualChain(10), platform, "auto", {}});
    EXPECT_THAT(MakeAuto(solvers)->Solve(instance, context), IsOk());
    return Bounded::solves;
  };
  const double periodic =
      AnswerRequest({EqualChain(10), Memory(200), "periodic", {}}, {})->prediction.makespan_seconds;
  EXPECT_EQ(solves(periodic * 1.001, 0, 200), 0);
  EXPECT_EQ(solves(periodic * 0.999, 0, 200), 1);
  EXPECT_EQ(solves(periodic * 1.001, 0, 150), 1) << "for 150 bytes periodic may be slower";
  EXPECT_EQ(solves(periodic * 1.001, 1e-6, 200), 1) << "the local search starts from several";
}

// With a link pofo needs no more than any schedule does.
TEST(Auto, AsksForTheLeastMemoryUntilNoneCanBeLower) {
  SolverInfo bounded = *FindSolver("store_all");
  bounded.make = []() -> std::unique_ptr<Solver> { return std::make_unique<Bounded>(); };
  const SolverInfo solvers[] = {bounded, *FindSolver("pofo")};
  const Chain chain = EqualChain(10);
  const auto least = [&](double bytes_per_second) {
    Bounded::asked = 0;
    Platform platform = Memory(200);
    platform.offload_bytes_per_second = bytes_per_second;
    const auto bytes =
        MakeAuto(solvers)->LeastBytes(Instance::Exact({chain, platform, "auto", {}}), {});
    EXPECT_THAT(bytes, IsOk());
    return bytes.value_or(std::nullopt).value_or(0);
  };
  EXPECT_EQ(least(1), FloorOfMemory(chain).bytes);
  EXPECT_EQ(Bounded::asked, 0);
  EXPECT_EQ(least(0), StoreAllPeakBytes(chain));
  EXPECT_EQ(Bounded::asked, 1);
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

void ExpectNotBehind(const Chain& chain, const Platform& platform,
                     std::initializer_list<const char*> solvers) {
  const auto best = AnswerRequest({chain, platform, "auto", {.time_precision = 0}}, {});
  ASSERT_THAT(best, IsOk());
  ASSERT_NE(best->outcome, Outcome::kInfeasible);
  for (const char* solver : solvers) {
    const auto answer = AnswerRequest({chain, platform, solver, {.time_precision = 0}}, {});
    ASSERT_THAT(answer, IsOk()) << solver;
    EXPECT_LE(best->prediction.makespan_seconds, answer->prediction.makespan_seconds * (1 + 1e-9))
        << solver << " within " << platform.memory_bytes;
  }
}

Chain Twice(Chain chain) {
  const std::vector<Stage> stages = chain.stages;
  chain.stages.insert(chain.stages.end(), stages.begin(), stages.end());
  for (Stage& stage : chain.stages) stage.name.clear();
  return chain;
}

// Every second stage may run once only, so stages hardly merge, and each solver is fast.
TEST(Auto, IsNotBehindItsSolversWhereStagesMayNotRunAgain) {
  const Chain chain = LoadProfile("cases/analytic-qwen3moe");
  for (const int percent : {20, 50}) {
    ExpectNotBehind(chain, Linked(chain, percent, 12e9), {"pofo", "autocapper", "opportunist"});
  }
  // Twice as long, for all solvers too long.
  const Chain longer = Twice(chain);
  ExpectNotBehind(longer, Linked(longer, 20, 12e9), {"pofo", "autocapper", "opportunist"});
}

// What routing reads may go once it has run, and what the experts leave is computed again.
TEST(Auto, NeedsLittleMoreThanHalfTheMemoryWhereRoutingReadsNoInput) {
  const Chain reads = LoadProfile("cases/analytic-qwen3moe");
  const Chain unread = LoadProfile("cases/analytic-qwen3moe-unread");
  const auto least = [](const Chain& chain) {
    const auto answer = AnswerRequest({chain, Memory(0), "auto", {}}, {});
    return answer.ok() ? answer->minimum_memory_bytes.value_or(0) : 0;
  };
  EXPECT_GT(least(reads), 69'000'000'000);
  // At the last layer's BACKWARD of the experts: what routing saved, the chain's input, and what
  // that operation needs. No schedule takes less.
  EXPECT_EQ(least(unread), 38'048'628'736);
  ExpectNotBehind(unread, Memory(40'000'000'000), {"rotor", "revolve"});
  ExpectNotBehind(unread, Memory(45'000'000'000), {"rotor", "revolve"});
}

// The plans of offloading solvers keep all inputs; rotor's schedules, which do not, count too.
TEST(Auto, AnswersWithInputsThatLeaveWhereverRotorDoes) {
  const Chain unread = LoadProfile("cases/analytic-qwen3moe-unread");
  ExpectNotBehind(unread, Memory(45'000'000'000), {"pofo"});
  Chain longer = Twice(unread);
  for (Stage& stage : longer.stages) stage.no_offload = true;
  Platform platform = Memory(90'000'000'000);
  platform.offload_bytes_per_second = 12e9;
  platform.prefetch_bytes_per_second = 12e9;
  ExpectNotBehind(longer, platform, {"rotor", "pofo"});
}

// Of a merged chain the loss alone may have an input that leaves.
TEST(Auto, IsNotSlowerOnALongChainWhoseLossReadsNoInput) {
  const Chain reads = Twice(LoadProfile("preact-resnet1001-8-224"));
  Chain unread = reads;
  unread.loss.input_unread = true;
  const Platform platform = Linked(reads, 10, 0);
  const auto before = AnswerRequest({reads, platform, "auto", {}}, {});
  const auto after = AnswerRequest({unread, platform, "auto", {}}, {});
  ASSERT_THAT(before, IsOk());
  ASSERT_THAT(after, IsOk());
  ASSERT_EQ(after->outcome, Outcome::kFeasible);
  EXPECT_LE(after->prediction.makespan_seconds, 1.001 * before->prediction.makespan_seconds);
}

TEST(Auto, IsNotBehindRotorOnFourHundredStages) {
  const Chain chain = LoadProfile("cases/harmony-vgg416");
  ExpectNotBehind(chain, Linked(chain, 30, 0), {"rotor", "periodic"});
}

// rotor wins and is optimal without offloading, but a schedule that offloads might be faster.
TEST(Auto, CallsOptimalWithALinkOnlyWhatTheBoundProves) {
  const Chain chain = LoadProfile("torchvision-resnet18-16-500");
  Platform platform = Linked(chain, 50, 3e9);
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

// The fastest schedule copies the input to the host again as soon as it is back, before the forward
// that reads it: P0 O0 S1 S2 R0. Found by an exhaustive search.
TEST(Auto, OffloadsAgainBeforeTheUse) {
  Chain chain = EqualChain(3);
  chain.input_bytes = 3;
  chain.input_gradient_bytes = 5;
  const double forwards[] = {5, 1, 5};
  const double backwards[] = {4, 0, 0};
  const int64_t saved[] = {6, 7, 10};
  const int64_t gradients[] = {5, 6, 4};
  for (size_t l = 0; l < 3; ++l) {
    Stage& stage = chain.stages[l];
    stage.forward_seconds = forwards[l];
    stage.backward_seconds = backwards[l];
    stage.output_bytes = 6;
    stage.saved_bytes = saved[l];
    stage.gradient_bytes = gradients[l];
  }
  Platform platform = Memory(26);
  platform.offload_bytes_per_second = 0.5;
  const auto answer = AnswerRequest({chain, platform, "auto", {}}, {});
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(answer->prediction.makespan_seconds, 33);
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

// auto merges the stages of long chains, and then has fewer stages than the request has segments.
TEST(Auto, AnswersLongChainsWithMoreSegmentsThanMergedStages) {
  const Chain chain = ResnetLikeNetwork(450);
  for (const double bytes_per_second : {0.0, 12e9}) {
    SolveRequest request{chain, Linked(chain, 30, bytes_per_second), "auto", {.segments = 420}};
    const auto answer = AnswerRequest(request, {});
    ASSERT_THAT(answer, IsOk()) << bytes_per_second;
    EXPECT_NE(answer->outcome, Outcome::kInfeasible);
    EXPECT_TRUE(answer->rejected.empty());
  }
}

// Fused stages are one stage to the solvers.
TEST(Auto, AnswersFusedChainsWithMoreSegmentsThanFusedStages) {
  Chain chain = EqualChain(6);
  for (Stage& stage : chain.stages) {
    stage.fusion_group = "all";
    stage.graph = GraphCosts{.forward_seconds = 0.5, .backward_seconds = 1, .saved_bytes = 30};
  }
  for (const char* solver : {"auto", "periodic"}) {
    const SolveRequest request{chain, Memory(120), solver, {.segments = 6}};
    const auto answer = AnswerRequest(request, {});
    ASSERT_THAT(answer, IsOk()) << solver;
    EXPECT_NE(answer->outcome, Outcome::kInfeasible) << solver;
  }
}

}  // namespace
}  // namespace stowage
