// The solvers that offload, on small random chains: against the paper's own program, and against
// the fastest of all programs.
#include "solver/algorithms/pofo/pofo.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "rapidcheck/gtest.h"
#include "solver/algorithms/transfers/compute_sequence.h"
#include "solver/algorithms/transfers/transfer_placement.h"
#include "solver/bounds/lower_bound.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/modes.h"
#include "solver/simulator/simulator.h"
#include "solver/solve/answer_request.h"
#include "solver/solve/catalog.h"
#include "tests/support/brute_force.h"
#include "tests/support/chains.h"
#include "tests/support/linked_chains.h"
#include "tests/support/literal_pofo.h"
#include "tests/support/program_search.h"

namespace stowage {
namespace {

// Collects by how much makespans exceed their references, and prints a summary.
class Losses {
 public:
  explicit Losses(const char* what) : what_(what) {}
  ~Losses() {
    if (count_ == 0) return;
    std::printf("%s: %zu cases, slower in %zu, by %.4f %% on average, %.2f %% at worst\n", what_,
                count_, slower_, 100 * sum_ / static_cast<double>(count_), 100 * worst_);
  }
  Losses(const Losses&) = delete;
  Losses& operator=(const Losses&) = delete;

  void Add(double seconds, double reference) {
    const double loss = reference > 0 ? std::max(0.0, seconds / reference - 1) : 0;
    ++count_;
    if (loss > 1e-9) ++slower_;
    sum_ += loss;
    worst_ = std::max(worst_, loss);
  }
  double mean() const { return count_ > 0 ? sum_ / static_cast<double>(count_) : 0; }
  size_t count() const { return count_; }

 private:
  const char* const what_;
  size_t count_ = 0;
  size_t slower_ = 0;
  double sum_ = 0;
  double worst_ = 0;
};

RC_GTEST_PROP(Pofo, RelaxedPlansAreWithinOnePercentOfThePapersProgram, ()) {
  static Losses losses("relaxed pofo against the paper's program in exact bytes");
  const Chain chain = DrawLinkedChain(5);
  const Platform platform = DrawLinkedPlatform(chain);
  const auto literal = LiteralPofoInBytes(chain, platform);
  const Instance instance = Instance::Exact({chain, platform, "pofo", {}});
  const auto outcome = SolvePofo(instance, platform.memory_bytes, PofoExtent::kOnePlan, {});
  RC_ASSERT(outcome.ok());
  RC_ASSERT(literal.has_value() == !outcome->schedule.operations.empty());
  if (!literal.has_value()) return;
  if (platform.memory_bytes >= StoreAllPeakBytes(chain)) return;
  if (!outcome->relaxed_lost_seconds.has_value()) {
    // With one link a direction, whole copies may overlap at the loss, where the relaxation adds
    // both times. Then the incumbent may be faster than every relaxed plan.
    RC_ASSERT(outcome->seconds <= literal->seconds * (1 + 1e-9));
    return;
  }
  const double relaxed = ComputeSeconds(chain) + *outcome->relaxed_lost_seconds;
  losses.Add(relaxed, literal->seconds);
  RC_ASSERT(relaxed >= literal->seconds * (1 - 1e-9));
  RC_ASSERT(relaxed <= literal->seconds * 1.01 + 1e-9);
}

RC_GTEST_PROP(TransferPlacement, SaysWhatTheSimulatorSays, ()) {
  const Chain chain = DrawLinkedChain(4);
  Platform platform = DrawLinkedPlatform(chain);
  platform.half_duplex = *rc::gen::arbitrary<bool>();
  platform.transfer_latency_seconds = static_cast<double>(DrawBetween(0, 2)) / 4;
  platform.host_memory_bytes = DrawBetween(0, 1) * DrawBetween(1, 60);
  const auto computed = FastestByBruteForce(chain, DrawBetween(platform.memory_bytes, 400),
                                            ScheduleClass::kPersistent);
  RC_PRE(computed.has_value());
  const ComputeSequence sequence = SequenceOf(chain, computed->schedule);
  std::vector<GapChoice> choices(sequence.gaps.size());
  for (GapChoice& choice : choices) {
    choice.moved = DrawBetween(0, 3) > 0;
    choice.early_release = DrawBetween(0, 3) == 0;
    choice.offload_delay = static_cast<int16_t>(DrawBetween(0, 1) * DrawBetween(0, 4));
    choice.prefetch_delay = static_cast<int16_t>(DrawBetween(0, 1) * DrawBetween(0, 4));
  }
  TransferPlacement placement(chain, platform);
  const auto seconds = placement.Place(sequence, choices, platform.memory_bytes);
  if (!seconds.has_value()) return;
  const Schedule schedule = placement.ToSchedule(sequence);
  const auto simulation = SimulateWithBound(chain, platform, schedule);
  if (!simulation.ok()) RC_FAIL(std::string(simulation.status().message()));
  RC_ASSERT(simulation->feasible());
  RC_ASSERT(std::abs(simulation->prediction.makespan_seconds - *seconds) <= 1e-9);
}

// The input has two gaps. The second is released at once and is therefore placed first, but its
// OFFLOAD must wait for the PREFETCH of the first.
TEST(TransferPlacement, BringsAValueBackBeforeItLeavesAgain) {
  Chain chain = EqualChain(3);
  chain.input_bytes = 100;
  chain.loss.forward_overhead_bytes = 500;  // the peak is in the first of the two gaps
  Platform platform = Memory(0);
  platform.offload_bytes_per_second = 100;
  const ComputeSequence sequence = SequenceOf(chain, Ops("C1 D2 D3 S4 B4 C1 D2 S3 B3 S1 S2 B2 B1"));
  std::vector<GapChoice> choices(sequence.gaps.size());
  int input_gaps = 0;
  for (size_t g = 0; g < choices.size(); ++g) {
    if (sequence.gaps[g].value != 0) continue;
    choices[g].moved = true;
    choices[g].early_release = ++input_gaps > 1;
  }
  ASSERT_GE(input_gaps, 2);
  platform.memory_bytes =
      *std::max_element(sequence.need_bytes.begin(), sequence.need_bytes.end()) - 1;
  TransferPlacement placement(chain, platform);
  const auto seconds = placement.Place(sequence, choices, platform.memory_bytes);
  ASSERT_TRUE(seconds.has_value());
  const auto simulation = SimulateWithBound(chain, platform, placement.ToSchedule(sequence));
  ASSERT_TRUE(simulation.ok()) << simulation.status().message();
  EXPECT_NEAR(simulation->prediction.makespan_seconds, *seconds, 1e-9);
}

// With every value offloaded in every gap, the least memory is the highest need of an operation.
RC_GTEST_PROP(TransferPlacement, FitsWhateverTheSequenceItselfCouldNotDoWithout, ()) {
  const Chain chain = DrawLinkedChain(4);
  const Platform platform = DrawLinkedPlatform(chain);
  const auto computed = FastestByBruteForce(chain, 400, ScheduleClass::kPersistent);
  RC_PRE(computed.has_value());
  const ComputeSequence sequence = SequenceOf(chain, computed->schedule);
  std::vector<int64_t> need = sequence.need_bytes;
  for (const Gap& gap : sequence.gaps) {
    for (int k = gap.after + 1; k < gap.before; ++k) need[static_cast<size_t>(k)] -= gap.bytes;
  }
  const int64_t least = *std::max_element(need.begin(), need.end());
  std::vector<GapChoice> choices(sequence.gaps.size());
  for (GapChoice& choice : choices) choice.moved = true;
  TransferPlacement placement(chain, platform);
  RC_ASSERT(placement.Place(sequence, choices, least).has_value());
  RC_ASSERT(!placement.Place(sequence, choices, least - 1).has_value());
}

// `auto` and all other solvers on a fixed sample of requests; STOWAGE_TEST_EVERYTHING enlarges it.
TEST(Auto, IsNoSlowerThanAnyOtherAndNearTheFastestProgramThereIs) {
  Losses losses("auto against the fastest program");
  const int request_count = std::getenv("STOWAGE_TEST_EVERYTHING") != nullptr ? 2000 : 300;
  rc::Random random(7);
  for (int i = 0; i < request_count; ++i) {
    const rc::Gen<std::pair<Chain, Platform>> requests = rc::gen::exec([] {
      const Chain chain = DrawLinkedChain(3);
      Platform platform = DrawLinkedPlatform(chain);
      platform.half_duplex = *rc::gen::arbitrary<bool>();
      platform.transfer_latency_seconds = static_cast<double>(DrawBetween(0, 2)) / 4;
      platform.host_memory_bytes = DrawBetween(0, 1) * DrawBetween(1, 60);
      return std::pair(chain, platform);
    });
    const auto [chain, platform] = requests(random.split(), rc::kNominalSize).value();
    const auto best = AnswerRequest({chain, platform, "auto", {}}, {});
    ASSERT_TRUE(best.ok()) << best.status().message();
    for (const SolverInfo& info : AllSolvers()) {
      const auto answer = AnswerRequest({chain, platform, info.description.name, {}}, {});
      ASSERT_TRUE(answer.ok()) << answer.status().message();
      if (answer->outcome == Outcome::kInfeasible) continue;
      ASSERT_NE(best->outcome, Outcome::kInfeasible) << info.description.name << chain;
      EXPECT_LE(best->prediction.makespan_seconds,
                answer->prediction.makespan_seconds * (1 + 1e-12))
          << info.description.name << chain;
    }
    const auto fastest = FastestProgram(chain, platform);
    if (!fastest.has_value() || fastest->gave_up || best->outcome == Outcome::kInfeasible) continue;
    EXPECT_GE(best->prediction.makespan_seconds, fastest->seconds * (1 - 1e-9)) << chain;
    losses.Add(best->prediction.makespan_seconds, fastest->seconds);
  }
  EXPECT_GE(losses.count(), 100U);
  EXPECT_LT(losses.mean(), 0.02);
}

}  // namespace
}  // namespace stowage
