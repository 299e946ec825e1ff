// The search over complete programs, held against all that can judge it: the simulator, the brute
// force, programs drawn at random, every short program, and cases worked out by hand.
#include "tests/support/program_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "rapidcheck/gtest.h"
#include "solver/simulator/lower_bound.h"
#include "solver/simulator/memory_walk.h"
#include "solver/simulator/queues.h"
#include "solver/simulator/simulator.h"
#include "tests/support/brute_force.h"
#include "tests/support/chains.h"
#include "tests/support/transfers.h"

namespace stowage {
namespace {

// Drawn evenly, however small the cases are that RapidCheck starts with.
int64_t Below(int64_t bound) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<int64_t>(0, bound));
}

template <typename T>
T OneOf(std::vector<T> values) {
  return *rc::gen::elementOf(std::move(values));
}

// Small random chains, some of whose values may not leave the device.
Chain SomeChain(int most_stages) {
  Chain chain = *SmallChains(most_stages);
  for (Stage& stage : chain.stages) stage.no_offload = Below(6) == 0;
  chain.loss.no_offload = Below(6) == 0;
  return chain;
}

int64_t SomeBudget(const Chain& chain) {
  const int64_t least = FloorOfMemory(chain).bytes;
  return least + Below(StoreAllPeakBytes(chain) + 1 - least);
}

// With times that are sums of quarters, so that makespans can be compared exactly.
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

// Infinite where no program fits.
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

// Asks for what `schedule` takes and no more; it must be found, or a faster one.
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
  for (int kind = 0; kind < 7; ++kind) {
    for (int l = 0; l <= chain.length() + 1; ++l) {
      operations.push_back({static_cast<OperationKind>(kind), l});
    }
  }
  return operations;
}

// A program of operations drawn among those that are valid, a backward half of the time that one
// is; nullopt when it comes to no end.
std::optional<Schedule> RandomWalk(const Chain& chain, const Platform& platform,
                                   std::mt19937* random) {
  std::optional<MemoryWalk> walk(std::in_place, chain, platform);
  Schedule schedule;
  std::vector<Operation> operations = AllOperations(chain);
  // Nothing brings a no_recompute stage's value back.
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

// Every program of at most so many operations, by the simulator's rules and with nothing left out
// but what has no hope in sight.
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
  if (Below(20) > 0) return;  // a look at all of them takes milliseconds
  const double seconds = FastestSeconds(chain, platform);
  RC_CLASSIFY(seconds > chain.ComputeSeconds(), "looked at, and not trivial");
  RC_ASSERT(!ShortPrograms(chain, platform, seconds).AnyIsFaster(chain.length() == 1 ? 11 : 9));
}

// What a rule may leave out is found without it, too: the answer is the same.
RC_GTEST_PROP(ProgramSearch, LosesNothingByItsRules, ()) {
  const Chain chain = SomeChain(3);
  const Platform platform = SomeLink(SomeBudget(chain));
  ProgramSearchOptions options{.most_nodes = 1000};
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

// Worked out by hand.

// Stages that run once and take nothing, but for what a test sets.
Chain Bare(int stages) {
  Chain chain;
  chain.stages.resize(static_cast<size_t>(stages));
  for (Stage& stage : chain.stages) stage.no_recompute = true;
  return chain;
}

void Holds(Stage* stage, int64_t bytes) {
  stage->output_bytes = bytes;
  stage->saved_bytes = bytes;
  stage->gradient_bytes = 0;
}

Platform Link(int64_t memory_bytes, double bytes_per_second) {
  Platform platform = Memory(memory_bytes);
  platform.offload_bytes_per_second = bytes_per_second;
  return platform;
}

double Seconds(const Chain& chain, const Platform& platform) {
  const auto fastest = FastestProgram(chain, platform);
  EXPECT_TRUE(fastest.has_value() && !fastest->gave_up);
  return fastest.has_value() ? fastest->seconds : -1;
}

// There is room for the two values that a forward reads and leaves; the loss reads value 3 and
// wants the other's room. So one copy (1 s) after the other is waited for, three out and three
// back.
TEST(ProgramSearch, AllValuesLeaveInTurn) {
  Chain chain = Bare(3);
  chain.input_bytes = 1;
  chain.input_gradient_bytes = 0;
  for (Stage& stage : chain.stages) Holds(&stage, 1);
  chain.loss.forward_overhead_bytes = 1;
  EXPECT_EQ(Seconds(chain, Link(2, 1)), 6);
}

// Value 1, of 10 bytes, must be away while the loss runs forward. It may leave while stage 2 runs
// (4 s) and come back while the loss runs backward (4 s): 14 s of compute with stage 2's backward.
Chain OneValueInTheWay() {
  Chain chain = Bare(2);
  Holds(&chain.stages[0], 10);
  chain.stages[1].forward_seconds = 4;
  chain.stages[1].backward_seconds = 5;
  chain.loss.forward_seconds = 1;
  chain.loss.backward_seconds = 4;
  chain.loss.forward_overhead_bytes = 10;
  return chain;
}

TEST(ProgramSearch, CopiesHideBehindComputeThatIsLongEnough) {
  EXPECT_EQ(Seconds(OneValueInTheWay(), Link(10, 2.5)), 14);
  EXPECT_EQ(FastestProgram(OneValueInTheWay(), Memory(10)), std::nullopt);
}

TEST(ProgramSearch, WhatACopyTakesLongerShows) {
  EXPECT_EQ(Seconds(OneValueInTheWay(), Link(10, 2)), 16);  // 5 s each way
  Platform platform = Link(10, 2.5);
  platform.prefetch_bytes_per_second = 1.25;  // 8 s back
  EXPECT_EQ(Seconds(OneValueInTheWay(), platform), 18);
  platform = Link(10, 2.5);
  platform.transfer_latency_seconds = 0.5;
  EXPECT_EQ(Seconds(OneValueInTheWay(), platform), 15);
}

TEST(ProgramSearch, TheHostsMemoryIsALimit) {
  Platform platform = Link(10, 2.5);
  platform.host_memory_bytes = 10;
  EXPECT_EQ(Seconds(OneValueInTheWay(), platform), 14);
  platform.host_memory_bytes = 9;
  EXPECT_EQ(FastestProgram(OneValueInTheWay(), platform), std::nullopt);
}

TEST(ProgramSearch, AValueThatMayNotLeaveStays) {
  Chain chain = OneValueInTheWay();
  chain.stages[0].no_offload = true;
  EXPECT_EQ(FastestProgram(chain, Link(10, 2.5)), std::nullopt);
}

// Value 2, of 2 bytes, must be away while the loss runs backward (value 1's leaving would not do),
// and value 1, of 1 byte, during BACKWARD 3, which reads value 2. Nothing but copies takes time.
Chain TwoValuesInTurn() {
  Chain chain = Bare(3);
  Holds(&chain.stages[0], 1);
  Holds(&chain.stages[1], 2);
  chain.stages[2].backward_overhead_bytes = 1;
  chain.loss.backward_overhead_bytes = 2;
  return chain;
}

// 2 s out and 2 s back before BACKWARD 3, 1 s back after it; value 1 leaves meanwhile, unless the
// link has one direction at a time: then all four copies wait for each other.
TEST(ProgramSearch, CopiesOfAHalfDuplexLinkWaitForEachOther) {
  Platform platform = Link(3, 1);
  EXPECT_EQ(Seconds(TwoValuesInTurn(), platform), 5);
  platform.half_duplex = true;
  EXPECT_EQ(Seconds(TwoValuesInTurn(), platform), 6);
}

// While value 1 leaves (from 2 to 3 s) the loss ends (at 2.5 s), and value 2 comes back at once
// (0.5 s) if the link lets it: BACKWARD 3 at 3 s instead of 3.5 s, then value 1 (0.25 s).
TEST(ProgramSearch, CopiesGoBothWaysAtOnceWhereTheLinkAllowsIt) {
  Chain chain = TwoValuesInTurn();
  chain.loss.backward_seconds = 0.5;
  Platform platform = Link(3, 1);
  platform.prefetch_bytes_per_second = 4;
  EXPECT_EQ(Seconds(chain, platform), 3.25);
  platform.half_duplex = true;
  EXPECT_EQ(Seconds(chain, platform), 3.75);
}

// With room for one of the two on the host, value 1 can only leave once value 2 has come back,
// which is after the loss's backward.
TEST(ProgramSearch, OffloadsInTheBackwardPhaseWhereNothingElseWillDo) {
  Platform platform = Link(3, 1);
  platform.host_memory_bytes = 2;
  const auto fastest = FastestProgram(TwoValuesInTurn(), platform);
  ASSERT_TRUE(fastest.has_value());
  EXPECT_EQ(fastest->seconds, 5);
  const auto& operations = fastest->schedule.operations;
  const auto offload = std::find(operations.begin(), operations.end(), Ops("O1").operations[0]);
  const auto backward = std::find(operations.begin(), operations.end(), Ops("B4").operations[0]);
  EXPECT_NE(offload, operations.end());
  EXPECT_LT(backward, offload);
}

// Values 1 and 2 leave while stages 3 and 4 run (6 s): stage 4 needs `room_bytes` of theirs, the
// loss all 6. They come back while it runs backward (6 s).
struct Leaving {
  int64_t first_bytes = 0;
  int64_t second_bytes = 0;
  int64_t room_bytes = 0;
  double before_seconds = 0;  // of stage 3, until that room is needed
};

double LeavingSeconds(const Leaving& leaving) {
  Chain chain = Bare(4);
  Holds(&chain.stages[0], leaving.first_bytes);
  Holds(&chain.stages[1], leaving.second_bytes);
  chain.stages[2].forward_seconds = leaving.before_seconds;
  chain.stages[3].forward_seconds = 6 - leaving.before_seconds;
  chain.stages[3].forward_overhead_bytes = leaving.room_bytes;
  chain.loss.forward_overhead_bytes = 6;
  chain.loss.backward_seconds = 6;
  return Seconds(chain, Link(6, 1));
}

TEST(ProgramSearch, FindsTheOrderInWhichCopiesMustLeave) {
  // The larger one must leave first: it alone makes the room. The other one would delay it to 6 s.
  EXPECT_EQ(LeavingSeconds({2, 4, 4, 5}), 12);
  EXPECT_EQ(LeavingSeconds({4, 2, 4, 5}), 12);
  // The smaller one must: the room is needed before the larger one can have left.
  EXPECT_EQ(LeavingSeconds({2, 4, 2, 3}), 12);
  EXPECT_EQ(LeavingSeconds({4, 2, 2, 3}), 12);
  EXPECT_EQ(LeavingSeconds({4, 2, 2, 1}), 13);  // nor can the smaller one
}

// The input must be away while the loss runs backward and during BACKWARD 2, and between the two it
// is needed: value 1, which may not leave, has to make room for the loss and to be computed again.
TEST(ProgramSearch, AValueTravelsTwiceWhereItMust) {
  Chain chain = Bare(2);
  chain.input_bytes = 1;
  chain.input_gradient_bytes = 0;
  Holds(&chain.stages[0], 1);
  chain.stages[0].no_offload = true;
  chain.stages[1].backward_overhead_bytes = 2;
  chain.loss.backward_overhead_bytes = 3;
  for (Stage& stage : chain.stages) stage.no_recompute = false;
  EXPECT_EQ(Seconds(chain, Link(3, 1)), 4);  // 1 s a copy
}

// RR-9302 section 4.1: 2n + 4, where persistent schedules take 3n + 3.
TEST(ProgramSearch, DropsWhatItHasReadWhereThatIsFaster) {
  EXPECT_EQ(Seconds(NonPersistentChain(2), Memory(9)), 8);
}

TEST(ProgramSearch, GivesUpWithABoundThatHolds) {
  const auto early = FastestProgram(OneValueInTheWay(), Link(10, 2), {.most_nodes = 20});
  ASSERT_TRUE(early.has_value());
  EXPECT_TRUE(early->gave_up);
  EXPECT_TRUE(early->schedule.operations.empty());
  EXPECT_GE(early->seconds, 14);
  EXPECT_LE(early->seconds, 16);
}

// Without memory pressure no link is used, however fast.
TEST(ProgramSearch, TakesTheComputeTimeWhereEverythingFits) {
  const Chain chain = EqualChain(4);
  EXPECT_EQ(Seconds(chain, Link(StoreAllPeakBytes(chain), 1e9)), chain.ComputeSeconds());
}

}  // namespace
}  // namespace stowage
