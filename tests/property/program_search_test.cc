// The exhaustive program search (tests/support/program_search.h) against the simulator, the brute
// force, random programs and every short program. Cases worked out by hand are in
// tests/unit/support/program_search_test.cc.
#include "tests/support/program_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "rapidcheck/gtest.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/modes.h"
#include "solver/simulator/memory_walk.h"
#include "solver/simulator/queues.h"
#include "solver/simulator/simulator.h"
#include "tests/support/brute_force.h"
#include "tests/support/chains.h"
#include "tests/support/transfers.h"

namespace stowage::program_search_test {
namespace {

// Uniform in 0..bound-1; the nominal size keeps RapidCheck's small first cases from limiting it.
int64_t Below(int64_t bound) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<int64_t>(0, bound));
}

template <typename T>
T OneOf(std::vector<T> values) {
  return *rc::gen::elementOf(std::move(values));
}

// Small random chains with some no_offload stages.
Chain SomeChain(int max_stages) {
  Chain chain = *rc::gen::oneOf(SmallChains(max_stages), SmallUnreadChains(max_stages),
                                SmallOptionChains(max_stages));
  for (Stage& stage : chain.stages) stage.no_offload = Below(6) == 0;
  chain.loss.no_offload = Below(6) == 0;
  return chain;
}

int64_t SomeBudget(const Chain& chain) {
  const int64_t least = FloorOfMemory(chain).bytes;
  return least + Below(StoreAllPeakBytes(chain) + 1 - least);
}

// All times are multiples of a quarter, so makespans can be compared exactly.
Platform SomeLink(int64_t memory_bytes) {
  Platform platform = Memory(memory_bytes);
  platform.offload_bytes_per_second = OneOf<double>({0.25, 0.5, 1, 2, 4});
  platform.prefetch_bytes_per_second =
      OneOf<std::optional<double>>({std::nullopt, std::nullopt, 0.25, 0.5, 1, 2, 4});
  platform.transfer_latency_seconds = OneOf<double>({0, 0, 0, 0.25, 1});
  platform.half_duplex = *rc::gen::arbitrary<bool>();
  platform.host_memory_bytes = OneOf<int64_t>({0, 0, 0, 1, 2, 4, 6, 8, 10, 12});
  return platform;
}

// Infinite when no program fits.
double FastestSeconds(const Chain& chain, const Platform& platform) {
  const auto fastest = FastestProgram(chain, platform);
  if (!fastest.has_value()) return std::numeric_limits<double>::infinity();
  RC_ASSERT(!fastest->gave_up);
  return fastest->seconds;
}

Prediction PredictionOf(const Chain& chain, const Platform& platform, const Schedule& schedule) {
  const auto simulation = Simulate(chain, platform, schedule);
  RC_ASSERT(simulation.ok());
  RC_ASSERT(simulation->feasible());
  return simulation->prediction;
}

RC_GTEST_PROP(ProgramSearch, SaysOfItsScheduleWhatTheSimulatorSays, ()) {
  const Chain chain = SomeChain(3);
  const Platform platform = SomeLink(SomeBudget(chain));
  const auto fastest = FastestProgram(chain, platform);
  const auto without_link = FastestByBruteForce(chain, platform.memory_bytes, ScheduleClass::kAny);
  RC_CLASSIFY(!fastest.has_value(), "infeasible");
  RC_ASSERT(fastest.has_value() || !without_link.has_value());
  if (!fastest.has_value()) return;
  RC_ASSERT(!fastest->gave_up);
  RC_LOG() << fastest->schedule;
  const Prediction prediction = PredictionOf(chain, platform, fastest->schedule);
  RC_ASSERT(prediction.makespan_seconds == fastest->seconds);
  RC_CLASSIFY(!without_link.has_value(), "possible with transfers only");
  RC_CLASSIFY(without_link.has_value() && without_link->seconds > fastest->seconds,
              "faster with transfers");
}

RC_GTEST_PROP(ProgramSearch, EqualsTheBruteForceWithoutALink, ()) {
  const Chain chain = SomeChain(4);
  Platform platform = Memory(SomeBudget(chain) - Below(2));
  platform.prefetch_bytes_per_second = OneOf<std::optional<double>>({std::nullopt, 1});
  const auto brute_force = FastestByBruteForce(chain, platform.memory_bytes, ScheduleClass::kAny);
  const auto fastest = FastestProgram(chain, platform);
  RC_ASSERT(fastest.has_value() == brute_force.has_value());
  if (fastest.has_value()) RC_ASSERT(fastest->seconds == brute_force->seconds);
}

// With exactly the memory that `schedule` needs, the search must find it or a faster one.
void ExpectNoSlowerThan(const Chain& chain, Platform platform, const Schedule& schedule) {
  platform.memory_bytes = kMaxTotalBytes;
  platform.host_memory_bytes = 0;
  const Prediction prediction = PredictionOf(chain, platform, schedule);
  platform.memory_bytes = prediction.peak_memory_bytes;
  platform.host_memory_bytes = prediction.peak_host_bytes;
  RC_LOG() << schedule;
  RC_ASSERT(FastestSeconds(chain, platform) <= prediction.makespan_seconds);
}

RC_GTEST_PROP(ProgramSearch, IsNeverSlowerThanSchedulesWithTransfersThrownIn, ()) {
  const Chain chain = SomeChain(3);
  const int64_t budget = SomeBudget(chain);
  const auto without = FastestByBruteForce(chain, budget, ScheduleClass::kAny);
  RC_PRE(without.has_value());
  std::mt19937 random(*rc::gen::arbitrary<uint32_t>());
  const double share = static_cast<double>(1 + Below(4)) / 4;
  ExpectNoSlowerThan(chain, SomeLink(budget),
                     WithTransfers(chain, without->schedule, share, &random));
}

std::vector<Operation> AllOperations(const Chain& chain) {
  std::vector<Operation> operations;
  for (int kind = 0; kind < 8; ++kind) {
    for (int l = 0; l <= chain.length() + 1; ++l) {
      operations.push_back({static_cast<OperationKind>(kind), l});
    }
  }
  return operations;
}

// A random program: each operation is drawn from the valid ones, and half of the time from the
// valid backwards, if there are any. nullopt when it does not end.
std::optional<Schedule> RandomWalk(const Chain& chain, const Platform& platform,
                                   std::mt19937* random) {
  std::optional<MemoryWalk> walk(std::in_place, chain, platform);
  Schedule schedule;
  std::vector<Operation> operations = AllOperations(chain);
  // Discarding a no_recompute stage's value leads to a dead end.
  std::erase_if(operations, [&chain](const Operation& operation) {
    return operation.kind == OperationKind::kForwardDiscard && operation.stage > 1 &&
           chain.stage(operation.stage - 1).no_recompute;
  });
  for (int i = 0; i < 60; ++i) {
    if (walk->Finish().ok()) return schedule;
    std::shuffle(operations.begin(), operations.end(), *random);
    if ((*random)() % 2 == 0) {
      std::partition(operations.begin(), operations.end(), [](const Operation& operation) {
        return operation.kind == OperationKind::kBackward;
      });
    }
    const auto step = std::find_if(operations.begin(), operations.end(), [&](Operation operation) {
      MemoryWalk next = *walk;
      if (!next.Execute(operation).ok()) return false;
      walk.emplace(next);
      return true;
    });
    if (step == operations.end()) return std::nullopt;
    schedule.operations.push_back(*step);
  }
  return std::nullopt;
}

RC_GTEST_PROP(ProgramSearch, IsNeverSlowerThanAWalkAtRandom, ()) {
  const Chain chain = SomeChain(3);
  const Platform platform = SomeLink(kMaxTotalBytes);
  std::mt19937 random(*rc::gen::arbitrary<uint32_t>());
  const std::optional<Schedule> walk = RandomWalk(chain, platform, &random);
  RC_PRE(walk.has_value());
  ExpectNoSlowerThan(chain, platform, *walk);
}

// Enumerates every program of up to a number of operations by the simulator's rules. Prunes only
// prefixes that cannot end in time or within the remaining operations.
class ShortPrograms {
 public:
  ShortPrograms(const Chain& chain, const Platform& platform, double seconds)
      : chain_(chain), platform_(platform), seconds_(seconds), all_(AllOperations(chain)) {}

  // Whether one of at most `operations` operations takes less than `seconds`.
  bool AnyIsFaster(int operations) {
    return AnyIsFaster(MemoryWalk(chain_, platform_), Queues(chain_, platform_), operations,
                       chain_.length() + 1);
  }

 private:
  bool AnyIsFaster(const MemoryWalk& memory, const Queues& queues, int operations_left,
                   int backwards_left) {
    double backward_seconds = 0;
    for (int l = 1; l <= backwards_left; ++l) backward_seconds += chain_.stage(l).backward_seconds;
    if (queues.compute_seconds() + backward_seconds >= seconds_) return false;
    if (queues.makespan_seconds() >= seconds_) return false;
    if (backwards_left == 0) return true;
    if (operations_left < backwards_left) return false;
    return std::any_of(all_.begin(), all_.end(), [&](Operation operation) {
      MemoryWalk memory_after = memory;
      if (!memory_after.Execute(operation).ok()) return false;
      if (memory_after.memory_bytes() > platform_.memory_bytes) return false;
      if (platform_.host_memory_bytes > 0 &&
          memory_after.host_bytes() > platform_.host_memory_bytes) {
        return false;
      }
      Queues queues_after = queues;
      queues_after.Run(operation);
      const int backwards = operation.kind == OperationKind::kBackward ? 1 : 0;
      return AnyIsFaster(memory_after, queues_after, operations_left - 1,
                         backwards_left - backwards);
    });
  }

  const Chain& chain_;
  const Platform& platform_;
  const double seconds_;
  const std::vector<Operation> all_;
};

RC_GTEST_PROP(ProgramSearch, IsNeverSlowerThanAnyShortProgram, ()) {
  const Chain chain = SomeChain(2);
  const Platform platform = SomeLink(SomeBudget(chain));
  if (Below(20) > 0) return;  // the enumeration takes milliseconds
  const double seconds = FastestSeconds(chain, platform);
  RC_CLASSIFY(seconds > ComputeSeconds(chain), "enumerated, and memory costs time");
  RC_ASSERT(!ShortPrograms(chain, platform, seconds).AnyIsFaster(chain.length() == 1 ? 11 : 9));
}

// Each pruning rule is switched off in turn: the result must not change.
RC_GTEST_PROP(ProgramSearch, LosesNothingByItsRules, ()) {
  const Chain chain = SomeChain(3);
  const Platform platform = SomeLink(SomeBudget(chain));
  ProgramSearchOptions options{.max_nodes = 1000};
  bool* const rules[] = {&options.dominance, &options.lifting, &options.bound};
  *rules[Below(3)] = false;
  const double seconds = FastestSeconds(chain, platform);
  const auto without_rule = FastestProgram(chain, platform, options);
  const bool gave_up = without_rule.has_value() && without_rule->gave_up;
  RC_CLASSIFY(gave_up, "gave up");
  if (gave_up) {
    RC_ASSERT(without_rule->seconds <= seconds);
  } else if (without_rule.has_value()) {
    RC_ASSERT(without_rule->seconds == seconds);
  } else {
    RC_ASSERT(seconds == std::numeric_limits<double>::infinity());
  }
}

RC_GTEST_PROP(ProgramSearch, NeverLosesByABetterPlatform, ()) {
  const Chain chain = SomeChain(3);
  const Platform platform = SomeLink(SomeBudget(chain));
  const double seconds = FastestSeconds(chain, platform);
  Platform better = platform;
  switch (Below(6)) {
    case 0:
      better.memory_bytes += 1 + Below(5);
      break;
    case 1:
      better.offload_bytes_per_second *= 2;
      better.prefetch_bytes_per_second = platform.prefetch_rate();
      break;
    case 2:
      better.prefetch_bytes_per_second = platform.prefetch_rate() * 2;
      break;
    case 3:
      better.transfer_latency_seconds = 0;
      break;
    case 4:
      better.half_duplex = false;
      break;
    default:
      better.host_memory_bytes = platform.host_memory_bytes == 1 ? 5 : 0;
      break;
  }
  const double better_seconds = FastestSeconds(chain, better);
  RC_CLASSIFY(better_seconds < seconds, "gains");
  RC_ASSERT(better_seconds <= seconds);
}

}  // namespace
}  // namespace stowage::program_search_test
