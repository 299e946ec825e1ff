// The lower bound on the makespan, against the optimum of small chains and against random programs
// of larger ones.
#include "solver/bounds/lower_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

#include "rapidcheck/gtest.h"
#include "solver/bounds/memory_range.h"
#include "solver/bounds/priced_recurrence.h"
#include "solver/bounds/recurrence_bound.h"
#include "solver/model/modes.h"
#include "solver/simulator/simulator.h"
#include "solver/solve/answer_request.h"
#include "tests/support/brute_force.h"
#include "tests/support/chains.h"
#include "tests/support/program_search.h"
#include "tests/support/transfers.h"

namespace stowage {
namespace {

// Relative rounding error of the bound.
constexpr double kRounding = 1e-12;

// Uniform in 0..bound-1; the nominal size keeps RapidCheck's small first cases from limiting it.
int64_t Below(int64_t bound) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<int64_t>(0, bound));
}

Chain SomeChain(int most_stages) {
  Chain chain = *SmallChains(most_stages);
  for (Stage& stage : chain.stages) stage.no_offload = Below(6) == 0;
  // Equal stages exercise the search's dominance rules most.
  if (Below(4) == 0) chain.stages.assign(chain.stages.size(), chain.stages.front());
  return chain;
}

int64_t SomeBudget(const Chain& chain) {
  const int64_t least = FloorOfMemory(chain).bytes;
  return least + Below(StoreAllPeakBytes(chain) + 1 - least);
}

Platform SomePlatform(const Chain& chain) {
  constexpr double kRates[] = {0.25, 0.5, 1, 2, 4, 1e6};
  Platform platform = Memory(SomeBudget(chain));
  platform.offload_bytes_per_second = kRates[Below(6)];
  if (Below(2) == 0) platform.prefetch_bytes_per_second = kRates[Below(6)];
  if (Below(3) == 0) platform.transfer_latency_seconds = static_cast<double>(Below(4)) / 2;
  if (Below(3) == 0) platform.host_memory_bytes = 1 + Below(15);
  platform.half_duplex = Below(2) == 0;
  return platform;
}

// nullopt when nothing fits, or when the search runs out of nodes.
std::optional<double> FastestSeconds(const Chain& chain, const Platform& platform) {
  const auto fastest = FastestProgram(chain, platform, {.most_nodes = 20'000});
  if (!fastest.has_value() || fastest->gave_up) return std::nullopt;
  return fastest->seconds;
}

void ExpectBelow(const Chain& chain, const Platform& platform, double seconds) {
  const double bound = LowerBoundSeconds(chain, platform);
  RC_ASSERT(bound >= ComputeSeconds(chain));
  RC_ASSERT(bound <= seconds);
  RC_CLASSIFY(seconds > ComputeSeconds(chain), "memory costs time");
  RC_CLASSIFY(seconds > ComputeSeconds(chain) && seconds <= bound * (1 + kRounding),
              "memory costs time, the bound says how much");
}

RC_GTEST_PROP(LowerBound, IsNeverAboveTheBestOfAllSchedulesWithoutALink, ()) {
  const Chain chain = SomeChain(5);
  const Platform platform = Memory(SomeBudget(chain));
  const auto fastest = FastestByBruteForce(chain, platform.memory_bytes, ScheduleClass::kAny);
  RC_PRE(fastest.has_value());
  ExpectBelow(chain, platform, fastest->seconds);
}

RC_GTEST_PROP(LowerBound, IsNeverAboveTheBestOfAllPrograms, ()) {
  const Chain chain = SomeChain(3);
  const Platform platform = SomePlatform(chain);
  const std::optional<double> seconds = FastestSeconds(chain, platform);
  RC_PRE(seconds.has_value());
  ExpectBelow(chain, platform, *seconds);
}

// Any prices give a bound, not only those that the search finds.
LinkPrices SomePrices() {
  const auto share = [] { return Below(4) == 0 ? 0.0 : static_cast<double>(Below(101)) / 100; };
  LinkPrices prices{.offload = share(), .backward = share() * share()};
  prices.gap = std::max(prices.backward, share());
  return prices;
}

RC_GTEST_PROP(RecurrenceBound, IsNeverAboveTheBestOfAllSchedulesWithoutALink, ()) {
  const Chain chain = SomeChain(5);
  const Platform platform = Memory(SomeBudget(chain));
  const auto fastest = FastestByBruteForce(chain, platform.memory_bytes, ScheduleClass::kAny);
  RC_PRE(fastest.has_value());
  const double bound = RecurrenceBoundSeconds(chain, platform);
  RC_ASSERT(bound <= fastest->seconds * (1 + kRounding));
  RC_CLASSIFY(bound > LowerBoundSeconds(chain, platform), "closer than the cuts");
  RC_CLASSIFY(bound >= fastest->seconds * (1 - kRounding), "equal to the optimum");
}

RC_GTEST_PROP(RecurrenceBound, IsNeverAboveTheBestOfAllProgramsAtAnyPrices, ()) {
  const Chain chain = SomeChain(3);
  const Platform platform = SomePlatform(chain);
  const std::optional<double> seconds = FastestSeconds(chain, platform);
  RC_PRE(seconds.has_value());
  constexpr int64_t kLevels = 64;
  PricedRecurrence recurrence(chain, platform, kLevels);
  for (int i = 0; i < 5; ++i) {
    RC_ASSERT(recurrence.SecondsAt(SomePrices()) <= *seconds * (1 + kRounding));
  }
  const double bound = RecurrenceBoundSeconds(chain, platform);
  RC_ASSERT(bound <= *seconds * (1 + kRounding));
  RC_CLASSIFY(bound > LowerBoundSeconds(chain, platform), "closer than the cuts");
}

// The schedule's own peaks are the limits, the tightest ones that it fits.
RC_GTEST_PROP(LowerBound, IsNeverAboveAProgramOfALongerChain, ()) {
  const Chain chain = SomeChain(16);
  const absl::StatusOr<Answer> answer =
      AnswerRequest({chain, Memory(SomeBudget(chain)), "rotor", {}}, {});
  RC_ASSERT(answer.ok());
  RC_PRE(answer->outcome != Outcome::kInfeasible);
  std::mt19937 random(*rc::gen::arbitrary<uint32_t>());
  const double share = static_cast<double>(Below(5)) / 4;
  const Schedule schedule = WithTransfers(chain, answer->schedule, share, &random);
  Platform platform = SomePlatform(chain);
  platform.memory_bytes = 0;
  platform.host_memory_bytes = Below(2);  // 0: unlimited; 1: raised to what it needs
  const auto simulation = SimulateWithBound(chain, platform, schedule);
  RC_ASSERT(simulation.ok());
  const Prediction& prediction = simulation->prediction;
  RC_ASSERT(prediction.lower_bound_seconds <= prediction.makespan_seconds * (1 + kRounding));
  RC_ASSERT(prediction.gap >= 0);
  RC_CLASSIFY(prediction.lower_bound_seconds > ComputeSeconds(chain), "memory costs time");
  Prediction closer = prediction;
  RaiseBound(chain, platform, &closer);
  RC_ASSERT(closer.lower_bound_seconds >= prediction.lower_bound_seconds);
  RC_ASSERT(closer.lower_bound_seconds <= prediction.makespan_seconds * (1 + kRounding));
}

// Only where something fits: otherwise the bound is unspecified.
RC_GTEST_PROP(LowerBound, GainsFromMemoryAndBandwidth, ()) {
  const Chain chain = SomeChain(3);
  Platform platform = SomePlatform(chain);
  const double seconds = LowerBoundSeconds(chain, platform);
  RC_PRE(FastestSeconds(chain, platform).has_value());
  const auto no_more_with = [&chain, seconds](const Platform& richer) {
    RC_ASSERT(LowerBoundSeconds(chain, richer) <= seconds * (1 + kRounding));
  };
  Platform richer = platform;
  richer.memory_bytes += 1 + Below(4);
  no_more_with(richer);
  richer = platform;
  richer.offload_bytes_per_second *= 1.5;
  no_more_with(richer);
  richer.prefetch_bytes_per_second = platform.prefetch_rate() * 2;
  no_more_with(richer);
  richer.transfer_latency_seconds /= 2;
  no_more_with(richer);
  if (richer.host_memory_bytes > 0) ++richer.host_memory_bytes;
  no_more_with(richer);
  richer.host_memory_bytes = 0;
  no_more_with(richer);
}

RC_GTEST_PROP(LowerBound, GrowsWithTimesAndSizes, ()) {
  Chain chain = SomeChain(3);
  const Platform platform = SomePlatform(chain);
  const double seconds = LowerBoundSeconds(chain, platform);
  Stage& stage = chain.stages[static_cast<size_t>(Below(chain.length()))];
  switch (Below(4)) {
    case 0:
      stage.forward_seconds += 1;
      break;
    case 1:
      stage.backward_seconds += 1;
      break;
    case 2:
      stage.saved_bytes += 1;
      break;
    default:
      stage.backward_overhead_bytes += 1;
      break;
  }
  RC_PRE(FastestSeconds(chain, platform).has_value());
  RC_ASSERT(LowerBoundSeconds(chain, platform) >= seconds * (1 - kRounding));
}

RC_GTEST_PROP(LowerBound, IsTwiceAsLongWhenAllTimesAre, ()) {
  Chain chain = SomeChain(6);
  Platform platform = SomePlatform(chain);
  const double seconds = LowerBoundSeconds(chain, platform);
  for (Stage& stage : chain.stages) {
    stage.forward_seconds *= 2;
    stage.backward_seconds *= 2;
  }
  chain.loss.forward_seconds *= 2;
  chain.loss.backward_seconds *= 2;
  platform.prefetch_bytes_per_second = platform.prefetch_rate() / 2;
  platform.offload_bytes_per_second /= 2;
  platform.transfer_latency_seconds *= 2;
  RC_ASSERT(LowerBoundSeconds(chain, platform) == 2 * seconds);
}

}  // namespace
}  // namespace stowage
