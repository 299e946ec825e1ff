// The lower bound on the makespan, against the optimum of small chains and against random programs
// of larger ones.
#include "solver/bounds/lower_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <utility>
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

namespace stowage::lower_bound_test {
namespace {

// Relative rounding error of the bound.
constexpr double kRounding = 1e-12;

// Uniform in 0..bound-1; the nominal size keeps RapidCheck's small first cases from limiting it.
int64_t Below(int64_t bound) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<int64_t>(0, bound));
}

// Makes some stages lopsided: sizes far above all others, or of zero; times of zero.
void MakeLopsided(Stage& stage) {
  constexpr int64_t kHuge = 100;
  switch (Below(6)) {
    case 0:
      stage.output_bytes *= kHuge;
      stage.saved_bytes *= kHuge;
      break;
    case 1:
      stage.saved_bytes *= kHuge;
      break;
    case 2:
      stage.backward_overhead_bytes += kHuge;
      break;
    case 3:
      stage.output_bytes = 0;
      break;
    case 4:
      stage.saved_bytes = stage.output_bytes;
      stage.gradient_bytes.reset();
      break;
    default:
      stage.forward_seconds = 0;
      break;
  }
}

Chain SomeChain(int max_stages) {
  const int64_t kind = Below(6);
  Chain chain = kind < 2    ? *SmallOptionChains(max_stages)
                : kind == 2 ? *SmallUnreadChains(max_stages)
                            : *SmallChains(max_stages);
  const bool runs_once = Below(4) == 0;
  const bool lopsided = Below(2) == 0;
  for (size_t i = 0; i < chain.stages.size(); ++i) {
    Stage& stage = chain.stages[i];
    if (lopsided && Below(2) == 0) MakeLopsided(stage);
    // A stage as large as the one before.
    if (lopsided && i > 0 && Below(4) == 0) stage = chain.stages[i - 1];
    stage.no_offload = Below(6) == 0;
    if (runs_once) stage.no_recompute = Below(2) == 0;
    if (stage.replay_seconds > stage.forward_seconds || stage.no_recompute) {
      stage.replay_seconds.reset();
    }
    for (SaveOption& option : stage.save_options) {
      option.saved_bytes = std::clamp(option.saved_bytes, stage.output_bytes, stage.saved_bytes);
    }
  }
  RaiseSaveOverheads(&chain);
  // Equal stages exercise the search's dominance rules most.
  if (Below(4) == 0) chain.stages.assign(chain.stages.size(), chain.stages.front());
  return chain;
}

// Without input_unread stages, each saved in one way.
Chain SomeReadingChain(int max_stages) {
  Chain chain = SomeChain(max_stages);
  const auto plain = [](Stage& stage) {
    stage.input_unread = false;
    stage.save_options.clear();
  };
  for (Stage& stage : chain.stages) plain(stage);
  plain(chain.loss);
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
  const auto fastest = FastestProgram(chain, platform, {.max_nodes = 20'000});
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

double SomeShare() { return Below(4) == 0 ? 0.0 : static_cast<double>(Below(101)) / 100; }

// Any prices give a bound, not only those that the search finds: half of them with few steps.
LinkPrices SomePrices(const Chain& chain, const Platform& platform) {
  if (Below(4) == 0) {
    const double backward = SomeShare() * SomeShare();
    const EvenLinkPrices even{SomeShare(), backward, std::max(backward, SomeShare())};
    return PricesOf(even, chain.length(), platform);
  }
  LinkPrices prices(chain.length());
  const int64_t changes = 1 + Below(4);
  const auto fill = [&](std::vector<double>& values) {
    double value = Below(2) == 0 ? 0 : SomeShare() * SomeShare();
    for (double& one : values) {
      if (Below(changes) == 0) value = std::max(value, SomeShare());
      one = value;
    }
  };
  fill(prices.forward);
  fill(prices.backward);
  fill(prices.gap);
  std::reverse(prices.gap.begin(), prices.gap.end());
  for (double& gap : prices.gap) gap = std::max(gap, prices.backward.back());
  prices.held = 2 * SomeShare();
  return prices;
}

RC_GTEST_PROP(RecurrenceBound, IsNeverAboveTheBestOfAllSchedulesWithoutALink, ()) {
  const Chain chain = SomeReadingChain(5);
  const Platform platform = Memory(SomeBudget(chain));
  const auto fastest = FastestByBruteForce(chain, platform.memory_bytes, ScheduleClass::kAny);
  RC_PRE(fastest.has_value());
  const double bound = RecurrenceBoundSeconds(chain, platform);
  RC_ASSERT(bound <= fastest->seconds * (1 + kRounding));
  RC_CLASSIFY(bound > LowerBoundSeconds(chain, platform), "closer than the cuts");
  RC_CLASSIFY(bound >= fastest->seconds * (1 - kRounding), "equal to the optimum");
}

RC_GTEST_PROP(RecurrenceBound, IsNeverAboveTheBestOfAllProgramsAtAnyPrices, ()) {
  const Chain chain = SomeReadingChain(3);
  const Platform platform = SomePlatform(chain);
  const std::optional<double> seconds = FastestSeconds(chain, platform);
  RC_PRE(seconds.has_value());
  constexpr int64_t kLevels = 64;
  PricedRecurrence recurrence(chain, platform, kLevels);
  for (int i = 0; i < 5; ++i) {
    RC_ASSERT(recurrence.SecondsAt(SomePrices(chain, platform)) <= *seconds * (1 + kRounding));
  }
  const double bound = RecurrenceBoundSeconds(chain, platform);
  RC_ASSERT(bound <= *seconds * (1 + kRounding));
  RC_CLASSIFY(bound > LowerBoundSeconds(chain, platform), "closer than the cuts");
}

// Of the whole, with what is known of a schedule: the fastest one, or one somewhat slower.
void ExpectRaisedBelow(const Chain& chain, const Platform& platform, double seconds) {
  Prediction prediction;
  prediction.makespan_seconds = seconds * (Below(2) == 0 ? 1 : 1.1);
  prediction.peak_memory_bytes = platform.memory_bytes;
  FillBound(chain, ChainUnits(chain), platform, &prediction);
  const double before = prediction.lower_bound_seconds;
  RaiseBound(chain, platform, &prediction, BoundTime::kLong);
  RC_ASSERT(prediction.lower_bound_seconds >= before);
  RC_ASSERT(prediction.lower_bound_seconds <= seconds * (1 + kRounding));
  RC_ASSERT(prediction.gap >= 0);
  const double recurrence =
      RecurrenceBoundSeconds(chain, platform, {.max_seconds = prediction.makespan_seconds});
  RC_ASSERT(recurrence <= seconds * (1 + kRounding));
}

RC_GTEST_PROP(RaisedBound, IsNeverAboveTheBestOfAllSchedulesWithoutALink, ()) {
  const Chain chain = SomeReadingChain(5);
  const Platform platform = Memory(SomeBudget(chain));
  const auto fastest = FastestByBruteForce(chain, platform.memory_bytes, ScheduleClass::kAny);
  RC_PRE(fastest.has_value());
  ExpectRaisedBelow(chain, platform, fastest->seconds);
}

RC_GTEST_PROP(RaisedBound, IsNeverAboveTheBestOfAllPrograms, ()) {
  const Chain chain = SomeReadingChain(3);
  const Platform platform = SomePlatform(chain);
  const std::optional<double> seconds = FastestSeconds(chain, platform);
  RC_PRE(seconds.has_value());
  ExpectRaisedBelow(chain, platform, *seconds);
}

// The bound is concave in the prices: nowhere above what its slopes say.
RC_GTEST_PROP(RecurrenceBound, IsNeverAboveItsSlopes, ()) {
  const Chain chain = SomeReadingChain(8);
  const Platform platform = SomePlatform(chain);
  PricedRecurrence recurrence(chain, platform, 64);
  const LinkPrices from = SomePrices(chain, platform);
  const LinkPrices to = SomePrices(chain, platform);
  const double seconds = recurrence.SecondsAt(from);
  RC_PRE(std::isfinite(seconds));
  const LinkPrices slopes = recurrence.Slopes();
  double most = seconds + slopes.held * (to.held - from.held);
  for (size_t l = 0; l < from.forward.size(); ++l) {
    most += slopes.forward[l] * (to.forward[l] - from.forward[l]) +
            slopes.backward[l] * (to.backward[l] - from.backward[l]) +
            slopes.gap[l] * (to.gap[l] - from.gap[l]);
  }
  constexpr double kSums = 1e-9;
  RC_ASSERT(recurrence.SecondsAt(to) <= most + kSums * std::max(1.0, std::abs(most)));
}

// What has to run again for FORWARD_SAVE l or BACKWARD l alone, were parts of forwards enough: the
// cheapest forwards a byte, until the rest fits. 0 where it never does.
double RerunsOfStage(const Chain& chain, int l, int64_t memory_bytes) {
  const Stage& stage = chain.stage(l);
  const int64_t gradients = chain.gradient_bytes(l) + chain.gradient_bytes(l - 1);
  int64_t excess = chain.input_bytes + stage.saved_bytes - memory_bytes +
                   std::max(stage.save_overhead_bytes.value_or(stage.forward_overhead_bytes),
                            gradients + stage.backward_overhead_bytes);
  std::vector<std::pair<double, int64_t>> freed;  // seconds and bytes
  for (int k = 1; k < l; ++k) {
    excess += chain.saved_bytes(k);
    const bool output_stays = k == l - 1 || chain.stage(k + 1).no_recompute;
    const int64_t bytes = chain.saved_bytes(k) - (output_stays ? chain.output_bytes(k) : 0);
    if (bytes == 0 || chain.stage(k).no_recompute) continue;
    freed.emplace_back(chain.stage(k).ReplaySeconds(), bytes);
  }
  std::sort(freed.begin(), freed.end(), [](const auto& a, const auto& b) {
    return a.first * static_cast<double>(b.second) < b.first * static_cast<double>(a.second);
  });
  double seconds = 0;
  for (const auto& [forward_seconds, bytes] : freed) {
    if (excess <= 0) break;
    const auto share = static_cast<double>(std::min(excess, bytes)) / static_cast<double>(bytes);
    seconds += share * forward_seconds;
    excess -= bytes;
  }
  return excess > 0 ? 0 : seconds;
}

RC_GTEST_PROP(LowerBound, CountsWhatAnyStageHasRunAgain, ()) {
  const Chain chain = SomeReadingChain(80);
  const Platform platform = Memory(SomeBudget(chain));
  double reruns = 0;
  for (int l = 1; l <= chain.length() + 1; ++l) {
    reruns = std::max(reruns, RerunsOfStage(chain, l, platform.memory_bytes));
  }
  RC_ASSERT(LowerBoundSeconds(chain, platform) >=
            (ComputeSeconds(chain) + reruns) * (1 - kRounding));
  RC_CLASSIFY(reruns > 0, "memory costs time");
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
  RaiseBound(chain, platform, &closer, BoundTime::kLong);
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
    if (stage.replay_seconds.has_value()) *stage.replay_seconds *= 2;
  }
  chain.loss.forward_seconds *= 2;
  chain.loss.backward_seconds *= 2;
  platform.prefetch_bytes_per_second = platform.prefetch_rate() / 2;
  platform.offload_bytes_per_second /= 2;
  platform.transfer_latency_seconds *= 2;
  RC_ASSERT(LowerBoundSeconds(chain, platform) == 2 * seconds);
}

}  // namespace
}  // namespace stowage::lower_bound_test
