// The searches through all schedules of short chains, and `auto`, which uses them, against those of
// tests/support, which know no schedule before and prune less.
#include "solver/bounds/short_chain_search.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "rapidcheck/gtest.h"
#include "solver/bounds/memory_range.h"
#include "solver/bounds/short_program_search.h"
#include "solver/model/modes.h"
#include "solver/simulator/simulator.h"
#include "solver/solve/answer_request.h"
#include "tests/support/brute_force.h"
#include "tests/support/chains.h"
#include "tests/support/program_search.h"

namespace stowage::short_chain_search_test {
namespace {

constexpr double kSlow = 1e6;  // above every makespan here

int64_t Below(int64_t bound) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<int64_t>(0, bound));
}

// Of all kinds; now and then stages are equal, so that many schedules take equally long.
Chain SomeChain(int max_stages) {
  Chain chain = *rc::gen::oneOf(SmallChains(max_stages), SmallReplayChains(max_stages),
                                SmallUnreadChains(max_stages));
  if (Below(4) == 0) chain.stages.assign(chain.stages.size(), chain.stages.front());
  for (Stage& stage : chain.stages) stage.no_offload = Below(6) == 0;
  return chain;
}

// All times are multiples of a quarter, so makespans can be compared exactly.
Platform SomeLink(int64_t memory_bytes) {
  constexpr double kRates[] = {0.25, 0.5, 1, 2, 4};
  Platform platform = Memory(memory_bytes);
  platform.offload_bytes_per_second = kRates[Below(5)];
  if (Below(2) == 0) platform.prefetch_bytes_per_second = kRates[Below(5)];
  platform.transfer_latency_seconds = Below(3) == 0 ? 0.25 : 0;
  platform.half_duplex = Below(2) == 0;
  platform.host_memory_bytes = Below(3) == 0 ? 1 + Below(12) : 0;
  return platform;
}

void ExpectTakes(const Chain& chain, const Platform& platform, const Schedule& schedule,
                 double seconds) {
  RC_LOG() << schedule;
  const auto simulation = Simulate(chain, platform, schedule);
  RC_ASSERT(simulation.ok());
  RC_ASSERT(simulation->feasible());
  RC_ASSERT(simulation->prediction.makespan_seconds == seconds);
}

// From just below the memory floor to just above the peak of storing everything.
int64_t SomeBudget(const Chain& chain) {
  const int64_t least = std::max<int64_t>(0, FloorOfMemory(chain).bytes - 1);
  return least + Below(StoreAllPeakBytes(chain) + 2 - least);
}

ShortChainResult Searched(const Chain& chain, int64_t memory_bytes, double below_seconds) {
  const auto result =
      SearchShortChain(chain, {.memory_bytes = memory_bytes, .below_seconds = below_seconds});
  RC_ASSERT(result.has_value());
  return *result;
}

RC_GTEST_PROP(ShortChainSearch, FindsExactlyWhatTheBruteForceFinds, ()) {
  const Chain chain = SomeChain(5);
  const int64_t budget = SomeBudget(chain);
  const auto fastest = FastestByBruteForce(chain, budget, ScheduleClass::kAny);
  const ShortChainResult found = Searched(chain, budget, kSlow);
  RC_CLASSIFY(!fastest.has_value(), "infeasible");
  RC_ASSERT(found.faster.has_value() == fastest.has_value());
  if (!fastest.has_value()) return;
  RC_CLASSIFY(fastest->seconds > ComputeSeconds(chain), "memory costs time");
  RC_ASSERT(found.seconds == fastest->seconds);
  ExpectTakes(chain, Memory(budget), *found.faster, fastest->seconds);
}

RC_GTEST_PROP(ShortChainSearch, FindsOnlyWhatIsFasterThanTheKnownSchedule, ()) {
  const Chain chain = SomeChain(4);
  const int64_t budget = SomeBudget(chain);
  const auto fastest = FastestByBruteForce(chain, budget, ScheduleClass::kAny);
  RC_PRE(fastest.has_value());
  const ShortChainResult equal = Searched(chain, budget, fastest->seconds);
  RC_ASSERT(!equal.faster.has_value());
  RC_ASSERT(equal.seconds == fastest->seconds);
  const ShortChainResult slower = Searched(chain, budget, fastest->seconds + 0.125);
  RC_ASSERT(slower.faster.has_value());
  RC_ASSERT(slower.seconds == fastest->seconds);
}

RC_GTEST_PROP(ShortChainSearch, MakesAutoOptimal, ()) {
  const Chain chain = SomeChain(4);
  const int64_t budget = SomeBudget(chain);
  const auto fastest = FastestByBruteForce(chain, budget, ScheduleClass::kAny);
  const auto answer = AnswerRequest({chain, Memory(budget), "auto", {.time_precision = 0}}, {});
  RC_ASSERT(answer.ok());
  RC_ASSERT(answer->rejected.empty());
  RC_ASSERT(fastest.has_value() || answer->outcome == Outcome::kInfeasible);
  // Schedules of kinds that no member knows may need less than the least memory of all members.
  if (answer->outcome == Outcome::kInfeasible) {
    RC_ASSERT(*answer->minimum_memory_bytes > budget);
    return;
  }
  RC_ASSERT(answer->outcome == Outcome::kOptimal);
  RC_ASSERT(answer->prediction.makespan_seconds == fastest->seconds);
  RC_ASSERT(answer->prediction.gap == 0);
}

RC_GTEST_PROP(ShortProgramSearch, FindsExactlyWhatTheSearchWithoutAKnownScheduleFinds, ()) {
  const Chain chain = SomeChain(Below(20) == 0 ? 4 : 3);
  const Platform platform = SomeLink(SomeBudget(chain));
  const auto fastest = FastestProgram(chain, platform, {.max_nodes = 20'000});
  const bool gave_up = fastest.has_value() && fastest->gave_up;
  RC_CLASSIFY(gave_up, "gave up");
  if (gave_up) return;
  const auto searched = [&](double below_seconds) {
    return SearchShortProgram(
        chain, platform, {.memory_bytes = platform.memory_bytes, .below_seconds = below_seconds});
  };
  const auto found = searched(kSlow);
  if (!found.has_value()) return;  // which a known schedule avoids
  RC_CLASSIFY(!fastest.has_value(), "infeasible");
  RC_ASSERT(found->faster.has_value() == fastest.has_value());
  if (!fastest.has_value()) return;
  RC_CLASSIFY(fastest->seconds > ComputeSeconds(chain), "memory costs time");
  RC_ASSERT(found->seconds == fastest->seconds);
  ExpectTakes(chain, platform, *found->faster, fastest->seconds);
  const auto equal = searched(fastest->seconds);
  RC_ASSERT(equal.has_value());
  RC_ASSERT(!equal->faster.has_value());
  const auto slower = searched(fastest->seconds + 0.125);
  RC_ASSERT(slower.has_value());
  RC_ASSERT(slower->faster.has_value());
  RC_ASSERT(slower->seconds == fastest->seconds);
}

RC_GTEST_PROP(ShortProgramSearch, MakesAutoOptimalWithALink, ()) {
  const Chain chain = SomeChain(3);
  const Platform platform = SomeLink(SomeBudget(chain));
  const auto fastest = FastestProgram(chain, platform, {.max_nodes = 20'000});
  const bool gave_up = fastest.has_value() && fastest->gave_up;
  if (gave_up) return;
  const auto answer = AnswerRequest({chain, platform, "auto", {.time_precision = 0}}, {});
  RC_ASSERT(answer.ok());
  RC_ASSERT(answer->rejected.empty());
  RC_CLASSIFY(answer->outcome == Outcome::kInfeasible, "infeasible");
  if (answer->outcome == Outcome::kInfeasible) return;
  RC_ASSERT(answer->outcome == Outcome::kOptimal);
  RC_ASSERT(answer->prediction.makespan_seconds == fastest->seconds);
  RC_ASSERT(answer->prediction.gap == 0);
}

}  // namespace
}  // namespace stowage::short_chain_search_test
