// Mixed Mode against a brute force over all splits, modes and shares, with slots of one byte.
#include "solver/algorithms/modes/mixed_mode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "rapidcheck/gtest.h"
#include "solver/algorithms/modes/convex_splits.h"
#include "solver/algorithms/modes/mixed_splits.h"
#include "solver/algorithms/modes/mode_tables.h"
#include "solver/algorithms/modes/split_certificate.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/modes.h"
#include "solver/model/validate.h"
#include "solver/simulator/simulator.h"
#include "solver/solve/answer_request.h"
#include "solver/solve/catalog.h"
#include "tests/support/chains.h"
#include "tests/support/mixed_brute_force.h"

namespace stowage::mixed_mode_test {
namespace {

// More slots than any of these budgets has bytes, so memory is not rounded.
SolveRequest Exactly(const char* solver, const Chain& chain, int64_t memory_bytes) {
  return {chain, Memory(memory_bytes), solver, {.memory_slots = 1000}};
}

// From just below the memory floor to beyond the peak of storing everything.
int64_t SomeBudget(const Chain& chain) {
  const int64_t least = std::max<int64_t>(0, FloorOfMemory(chain).bytes - 1);
  const int64_t most = std::max(least, StoreAllPeakBytes(chain)) + 6;
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(least, most));
}

// Tolerance: times are sums of small whole numbers, but each forward of a table is charged a
// millionth more to break ties.
constexpr double kTies = 1e-4;

ModeTables TablesOf(const Chain& chain, int64_t budget) {
  const SlotGrid grid{budget, budget, SlotGrid::Rounding::kUp};
  return *ModeTables::Build(chain, {grid, budget}, {});
}

RC_GTEST_PROP(ModeTables, HaveTheTimesOfPlainRecursion, ()) {
  const Chain chain = *SmallModeChains(6);
  RC_ASSERT(Violations(chain).empty());
  const int64_t budget = SomeBudget(chain) + 1;
  const ModeTables tables = TablesOf(chain, budget);
  MixedBruteForce brute(chain);
  for (int begin = 0; begin < tables.operators(); ++begin) {
    for (int end = begin + 1; end <= tables.operators(); ++end) {
      // The tables only cover shares that leave room for the output before the sub-sequence.
      const int64_t most = budget - chain.input_bytes - (begin > 0 ? chain.output_bytes(begin) : 0);
      for (int64_t share = 0; share <= most; ++share) {
        const double eager = brute.Eager(begin + 1, end, share);
        const double graph = brute.Graph(begin + 1, end, share);
        const double table_eager = tables.Eager(begin, end, share);
        const double table_graph = tables.Graph(begin, end, share);
        RC_ASSERT(table_eager == eager || std::abs(table_eager - eager) < kTies);
        RC_ASSERT(table_graph == graph || std::abs(table_graph - graph) < kTies);
      }
    }
  }
}

// Both programs must have the brute force's makespan, within the budget, wherever it has a
// solution.
void CheckAgainstBruteForce(const char* solver) {
  const Chain chain = *SmallModeChains(6);
  RC_ASSERT(Violations(chain).empty());
  const int64_t budget = SomeBudget(chain);
  const std::optional<double> least = MixedBruteForce(chain).Seconds(budget);
  const absl::StatusOr<Answer> answer = AnswerRequest(Exactly(solver, chain, budget), {});
  RC_ASSERT(answer.ok());
  RC_ASSERT(answer->rejected.empty());
  RC_CLASSIFY(!least.has_value(), "infeasible");
  if (!least.has_value()) {
    // Storing everything may need less than any shares: shares count a gradient throughout.
    const bool stores_all = answer->outcome != Outcome::kInfeasible &&
                            answer->prediction.makespan_seconds == ComputeSeconds(chain);
    RC_ASSERT(answer->outcome == Outcome::kInfeasible || stores_all);
    return;
  }
  RC_ASSERT(answer->outcome != Outcome::kInfeasible);
  RC_ASSERT(answer->prediction.peak_memory_bytes <= budget);
  RC_CLASSIFY(HasGraphOperations(answer->schedule), "graph mode");
  RC_CLASSIFY(*least > ComputeSeconds(chain), "costs time");
  // For the same reason it may be faster than any shares; then it is optimal.
  const double makespan = answer->prediction.makespan_seconds;
  RC_ASSERT(makespan == *least || (makespan < *least && makespan == ComputeSeconds(chain)));
}

RC_GTEST_PROP(MixedModeExact, HasTheMakespanOfTheBruteForce, ()) {
  CheckAgainstBruteForce("mixed_mode_exact");
}

RC_GTEST_PROP(MixedMode, HasTheMakespanOfTheBruteForce, ()) {
  CheckAgainstBruteForce("mixed_mode");
}

RC_GTEST_PROP(MixedMode, CertifiesWhatTheFullRecurrenceFinds, ()) {
  const Chain chain = *SmallModeChains(12);
  const int64_t budget = SomeBudget(chain) + 1;
  const ModeTables tables = TablesOf(chain, budget);
  const auto exact = ExactSplits::Find(tables, {});
  RC_ASSERT(exact.ok());
  const int64_t share = static_cast<int64_t>(tables.shares()) - 1;
  RC_PRE(share >= 0);
  const auto convex = FindConvexSplits(tables, share, {});
  RC_ASSERT(convex.ok());
  const auto result = CertifySplits(tables, share, *convex, {});
  RC_ASSERT(result.ok());
  const double least = exact->SecondsWithin(share);
  RC_ASSERT(result->certified);
  RC_ASSERT(result->splits.sequences.empty() == !(least < 1e300));
  if (result->splits.sequences.empty()) return;
  RC_ASSERT(std::abs(result->splits.seconds - least) < kTies);
  RC_ASSERT(result->bound_seconds <= least + kTies);
  RC_CLASSIFY(convex->splits.seconds > least + kTies, "the convex program is not optimal");
  RC_CLASSIFY(convex->wrong_splits > 0, "a second split was better");
}

// With no work allowed for the proof, its bound must still hold.
RC_GTEST_PROP(MixedMode, SaysHowFarFromTheBestItMayBe, ()) {
  const Chain chain = *SmallModeChains(12);
  const int64_t budget = SomeBudget(chain) + 1;
  const ModeTables tables = TablesOf(chain, budget);
  const int64_t share = static_cast<int64_t>(tables.shares()) - 1;
  RC_PRE(share >= 0);
  const auto exact = ExactSplits::Find(tables, {});
  const auto convex = FindConvexSplits(tables, share, {});
  RC_ASSERT(exact.ok() && convex.ok());
  const auto result = CertifySplits(tables, share, *convex, {}, 0);
  RC_ASSERT(result.ok());
  if (result->splits.sequences.empty()) return;
  const double least = exact->SecondsWithin(share);
  RC_ASSERT(result->splits.seconds >= least - kTies);
  RC_ASSERT(result->bound_seconds <= least + kTies);
  if (result->certified) RC_ASSERT(result->splits.seconds <= least + kTies);
}

RC_GTEST_PROP(MixedMode, HasAScheduleWithinTheLeastMemoryAndNoneBelow, ()) {
  const Chain chain = *SmallModeChains(8);
  const char* solver = *rc::gen::element("mixed_mode", "mixed_mode_exact", "auto");
  const auto any = AnswerRequest(Exactly(solver, chain, StoreAllPeakBytes(chain) * 2 + 50), {});
  RC_ASSERT(any.ok() && any->minimum_memory_bytes.has_value());
  const int64_t least = *any->minimum_memory_bytes;
  RC_ASSERT(least >= FloorOfMemory(chain).bytes);
  const auto at_least = AnswerRequest(Exactly(solver, chain, least), {});
  RC_ASSERT(at_least.ok() && at_least->outcome != Outcome::kInfeasible);
  RC_ASSERT(at_least->prediction.peak_memory_bytes <= least);
  if (least == 0) return;
  const auto below = AnswerRequest(Exactly(solver, chain, least - 1), {});
  RC_ASSERT(below.ok() && below->outcome == Outcome::kInfeasible);
  // Then the brute force has none either. auto does not use shares and may need less than it.
  RC_ASSERT(!MixedBruteForce(chain).Seconds(least - 1).has_value());
}

// So that auto, which tries all of them in eager mode, is no slower.
RC_GTEST_PROP(SolversThatMixNoModes, AnswerAsIfThereWereNone, ()) {
  const Chain chain = *SmallModeChains(6);
  Chain eager = chain;
  for (Stage& stage : eager.stages) stage.graph.reset();
  RC_PRE(ChainUnits(chain).HasGraph());
  const int64_t budget = SomeBudget(chain);
  const double rate = *rc::gen::inRange(0, 9);
  for (const SolverInfo& info : AllSolvers()) {
    if (info.description.mixes_modes) continue;
    SolveRequest request = Exactly(info.description.name, chain, budget);
    request.platform.offload_bytes_per_second = rate;
    const auto with_modes = AnswerRequest(request, {});
    request.chain = eager;
    const auto without = AnswerRequest(request, {});
    RC_ASSERT(with_modes.ok() && without.ok());
    RC_ASSERT(with_modes->schedule == without->schedule);
  }
}

// No schedule of any solver is faster than the bound, and auto is no slower than any of them.
RC_GTEST_PROP(Auto, IsNoSlowerThanMixedModeAndAllEager, ()) {
  const Chain chain = *SmallModeChains(6);
  SolveRequest request = Exactly("auto", chain, SomeBudget(chain));
  if (*rc::gen::arbitrary<bool>())
    request.platform.offload_bytes_per_second = *rc::gen::inRange(1, 9);
  const auto best = AnswerRequest(request, {});
  RC_ASSERT(best.ok() && best->rejected.empty());
  for (const char* solver : {"mixed_mode", "mixed_mode_exact", "rotor", "pofo", "store_all"}) {
    request.solver = solver;
    const auto other = AnswerRequest(request, {});
    RC_ASSERT(other.ok());
    if (other->outcome == Outcome::kInfeasible) continue;
    RC_ASSERT(best->outcome != Outcome::kInfeasible);
    constexpr double kNoise = 1e-9;
    RC_ASSERT(best->prediction.makespan_seconds <= other->prediction.makespan_seconds + kNoise);
    RC_ASSERT(other->prediction.lower_bound_seconds <= best->prediction.makespan_seconds + kNoise);
  }
}

// Rotor's makespan with the best of all choices of modes; nullopt when nothing fits.
std::optional<double> BestOverAllModes(const Chain& chain, int64_t budget) {
  std::vector<size_t> free;
  const ChainUnits units(chain);
  for (size_t u = 0; u < units.size(); ++u) {
    if (units[u].has_graph) free.push_back(u);
  }
  std::optional<double> best;
  for (size_t bits = 0; bits >> free.size() == 0; ++bits) {
    std::vector<bool> graph(units.size());
    for (size_t i = 0; i < free.size(); ++i) graph[free[i]] = (bits >> i & 1) != 0;
    const Execution execution = Execution::Of(chain, units, graph);
    const auto answer = AnswerRequest(Exactly("rotor", execution.chain(), budget), {});
    RC_ASSERT(answer.ok());
    if (answer->outcome == Outcome::kInfeasible) continue;
    const double seconds =
        answer->prediction.makespan_seconds + execution.Entries() * chain.graph_entry_seconds;
    best = std::min(best.value_or(seconds), seconds);
  }
  return best;
}

RC_GTEST_PROP(AutoOverModes, FindsTheBestChoiceOfModes, ()) {
  const Chain chain = *SmallModeChains(7);
  const int64_t budget = SomeBudget(chain);
  const std::optional<double> best = BestOverAllModes(chain, budget);
  RC_CLASSIFY(!best.has_value(), "infeasible");
  const auto answer = AnswerRequest(Exactly("auto", chain, budget), {});
  RC_ASSERT(answer.ok());
  if (!best.has_value() || answer->outcome == Outcome::kInfeasible) {
    // auto may fit where rotor does not, since Mixed Mode's schedules are not rotor's.
    RC_ASSERT(!best.has_value());
    return;
  }
  RC_ASSERT(answer->prediction.makespan_seconds <= *best * (1 + 1e-9));
}

// The modes of the second stage cost the same, so that two choices have one plain chain; the one
// that enters graph mode once is faster. A shrunk chain of the property above.
TEST(AutoOverModes, EntersGraphModeAsSeldomAsItCan) {
  Chain chain;
  chain.input_bytes = 4;
  chain.graph_entry_seconds = 1;
  chain.stages.resize(4);
  std::vector<Stage>& stages = chain.stages;
  stages[0].forward_seconds = 3;
  stages[0].backward_seconds = 7;
  stages[0].saved_bytes = 3;
  stages[1].backward_seconds = 2;
  stages[1].backward_overhead_bytes = 4;
  stages[2].forward_seconds = 2;
  stages[2].saved_bytes = 5;
  stages[3].forward_seconds = 2;
  stages[3].backward_seconds = 3;
  stages[3].output_bytes = 1;
  stages[3].saved_bytes = 1;
  stages[3].backward_overhead_bytes = 9;
  stages[0].graph = GraphCosts{.saved_bytes = 9};
  stages[1].graph = GraphCosts{.saved_bytes = 3};
  stages[2].graph = GraphCosts{.forward_seconds = 2, .saved_bytes = 5};
  stages[3].graph = GraphCosts{.saved_bytes = 5};
  for (Stage& stage : chain.stages) stage.no_recompute = true;
  ASSERT_TRUE(Violations(chain).empty());
  bool differs = false;
  for (int64_t budget = 10; budget < 30; ++budget) {
    const auto best = BestOverAllModes(chain, budget);
    const auto answer = AnswerRequest(Exactly("auto", chain, budget), {});
    ASSERT_TRUE(answer.ok());
    if (!best.has_value()) continue;
    EXPECT_LE(answer->prediction.makespan_seconds, *best) << budget;
    differs = differs || *best == 13;
  }
  EXPECT_TRUE(differs) << "there is a budget at which it takes three units in graph mode";
}

}  // namespace
}  // namespace stowage::mixed_mode_test
