// The dynamic programs of rotor and revolve, each against a plain reference: the table of slots
// against the textbook program and the brute force, the step functions in bytes against another
// implementation, the least memory against both.
#include "solver/algorithms/rematerialization/rotor_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

#include "rapidcheck/gtest.h"
#include "solver/algorithms/rematerialization/leaving_minimum.h"
#include "solver/algorithms/rematerialization/leaving_table.h"
#include "solver/algorithms/rematerialization/rotor_minimum.h"
#include "solver/algorithms/rematerialization/rotor_steps.h"
#include "solver/bounds/memory_range.h"
#include "solver/kernels/min_plus.h"
#include "solver/model/modes.h"
#include "solver/simulator/simulator.h"
#include "tests/support/brute_force.h"
#include "tests/support/chains.h"
#include "tests/support/step_rotor.h"
#include "tests/support/textbook_rotor.h"

namespace stowage::rotor_table_test {

// For failure messages.
void showValue(Saving saving, std::ostream& out) {
  out << (saving == Saving::kAlways ? "rotor" : "revolve");
}

namespace {

// Up to these lengths the references are fast enough for 5,000 chains.
constexpr int kMaxSmallStages = 32;
constexpr int kMaxStagesOfSteps = 20;

Saving SomeSaving() { return *rc::gen::element(Saving::kAlways, Saving::kWhereForced); }

Chain SomeChain(int max_stages) {
  return *rc::gen::oneOf(SmallChains(max_stages), SmallReplayChains(max_stages));
}

// From just below the memory floor to just above the peak of storing everything.
int64_t SomeBudget(const Chain& chain) {
  const int64_t least = std::max<int64_t>(0, FloorOfMemory(chain).bytes - 1);
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(least, StoreAllPeakBytes(chain) + 2));
}

bool OutputsOnly(Saving saving) { return saving == Saving::kWhereForced; }

RotorTable OneSlotAByte(const Chain& chain, int64_t bytes, Saving saving) {
  return *RotorTable::Build(chain, {{bytes, bytes, SlotGrid::Rounding::kUp}, bytes, saving}, {});
}

// The makespan of a schedule that must be valid and fit.
double SecondsWithin(int64_t memory_bytes, const Chain& chain, const Schedule& schedule) {
  const auto simulation = Simulate(chain, Memory(memory_bytes), schedule);
  RC_ASSERT(simulation.ok());
  RC_ASSERT(simulation->feasible());
  return simulation->prediction.makespan_seconds;
}

double ForwardSeconds(const Chain& chain) {
  double seconds = 0;
  for (int l = 1; l <= chain.length() + 1; ++l) seconds += chain.stage(l).forward_seconds;
  return seconds;
}

RC_GTEST_PROP(RotorTable, EqualsTheTextbookAtEveryLevel, ()) {
  const Chain chain = SomeChain(kMaxSmallStages);
  const Saving saving = SomeSaving();
  const int64_t levels = SomeBudget(chain);
  const RotorTable table = OneSlotAByte(chain, levels, saving);
  const TextbookRotor textbook(
      chain, [](int64_t bytes) { return bytes; }, static_cast<int>(levels), OutputsOnly(saving));
  // What the table charges for each forward of a sweep, to prefer short schedules; rounded up.
  const double tie = 1.1e-6 * ForwardSeconds(chain) / (chain.length() + 1);
  std::optional<double> below;
  for (int64_t level = 0; level <= levels; ++level) {
    const double expected = textbook.Seconds(static_cast<int>(level));
    const std::optional<double> lost = table.LostSecondsAt(level);
    RC_ASSERT(lost.has_value() == (expected != TextbookRotor::kNone));
    if (!lost.has_value() || lost == below) continue;
    below = lost;
    const std::optional<Schedule> schedule = table.ScheduleAt(level);
    RC_ASSERT(schedule.has_value());
    RC_ASSERT(SecondsWithin(level, chain, *schedule) == expected);
    if (tie == 0) continue;  // forwards take no time: the table then counts them instead
    const double expected_loss = expected - ComputeSeconds(chain);
    RC_ASSERT(std::abs(*lost - expected_loss) <=
              1e-5 * expected_loss + tie * static_cast<double>(schedule->operations.size()));
  }
}

RC_GTEST_PROP(RotorMinimum, IsTheFirstFeasibleLevel, ()) {
  const Chain chain = *SmallChains(kMaxSmallStages);
  const Saving saving = SomeSaving();
  const RotorMinimum minimum = *RotorMinimum::Build(chain, saving, {});
  const int64_t levels = minimum.min_bytes() + 1;
  const TextbookRotor textbook(
      chain, [](int64_t bytes) { return bytes; }, static_cast<int>(levels), OutputsOnly(saving));
  int first = 0;
  while (first <= levels && textbook.Seconds(first) == TextbookRotor::kNone) ++first;
  RC_ASSERT(minimum.min_bytes() == first);
  const std::optional<Schedule> schedule = minimum.LeastSchedule();
  RC_ASSERT(schedule.has_value());
  SecondsWithin(first, chain, *schedule);
}

RC_GTEST_PROP(RotorSteps, EqualsOtherSteps, ()) {
  const Chain chain = *SmallChains(kMaxStagesOfSteps);
  const Saving saving = SomeSaving();
  const StepRotor expected(chain, OutputsOnly(saving));
  const int64_t least = expected.LeastBytes();
  const int64_t most = std::max(least, StoreAllPeakBytes(chain));
  RC_ASSERT(RotorMinimum::Build(chain, saving, {})->min_bytes() == least);
  const auto steps = *RotorSteps::Build(
      chain,
      {.memory_bytes = most, .saving = saving, .max_steps = 1 << 20, .max_work = int64_t{1} << 40},
      {});
  RC_ASSERT(steps.has_value());
  RC_ASSERT(least == 0 || !steps->ScheduleWithin(least - 1).has_value());
  for (int i = 0; i < 10; ++i) {
    const int64_t bytes = least + (most - least) * i / 9;
    const std::optional<Schedule> schedule = steps->ScheduleWithin(bytes);
    RC_ASSERT(schedule.has_value());
    const double seconds = *expected.Seconds(bytes);
    RC_ASSERT(std::abs(SecondsWithin(bytes, chain, *schedule) - seconds) <= 1e-12 * seconds);
  }
}

// With every SIMD target of the kernel in turn.
void ExpectTheTimeOfTheBruteForce(Saving saving, ScheduleClass schedules) {
  const Chain chain = *rc::gen::oneOf(SmallChains(5), SmallReplayChains(5), SmallWayChains(5));
  const int64_t budget = SomeBudget(chain);
  const auto fastest = FastestByBruteForce(chain, budget, schedules);
  RC_CLASSIFY(chain.has_save_options(), "has save_options");
  RC_CLASSIFY(!fastest.has_value(), "infeasible");
  RC_CLASSIFY(fastest.has_value() && fastest->seconds > ComputeSeconds(chain), "recomputes");
  for (const std::string& target : MinPlusTargets()) {
    RC_ASSERT(SetMinPlusTarget(target));
    const RotorTable table = OneSlotAByte(chain, budget, saving);
    SetMinPlusTarget("best");
    const std::optional<Schedule> schedule = table.ScheduleAt(budget);
    RC_ASSERT(schedule.has_value() == fastest.has_value());
    if (!fastest.has_value()) continue;
    RC_ASSERT(SecondsWithin(budget, chain, *schedule) == fastest->seconds);
  }
}

RC_GTEST_PROP(RotorTable, HasExactlyTheTimeOfTheBruteForceOnEveryTarget, ()) {
  ExpectTheTimeOfTheBruteForce(Saving::kAlways, ScheduleClass::kNestedPersistent);
}

RC_GTEST_PROP(RotorTable, HasExactlyTheTimeOfTheBruteForceOnEveryTargetWhenOnlyOutputsAreKept, ()) {
  ExpectTheTimeOfTheBruteForce(Saving::kWhereForced, ScheduleClass::kOutputsOnly);
}

RC_GTEST_PROP(LeavingTable, HasExactlyTheTimeOfTheBruteForce, ()) {
  const Chain chain = *rc::gen::oneOf(SmallUnreadChains(5), SmallOptionChains(5));
  const int64_t budget = SomeBudget(chain);
  const Saving saving = SomeSaving();
  const auto fastest = FastestByBruteForce(
      chain, budget,
      OutputsOnly(saving) ? ScheduleClass::kOutputsOnly : ScheduleClass::kNestedPersistent);
  const LeavingTable table =
      *LeavingTable::Build(chain, {{budget, budget, SlotGrid::Rounding::kUp}, budget, saving}, {});
  const std::optional<Schedule> schedule = table.ScheduleAt(budget);
  RC_ASSERT(schedule.has_value() == fastest.has_value());
  if (!fastest.has_value()) return;
  RC_ASSERT(SecondsWithin(budget, chain, *schedule) == fastest->seconds);
  RC_CLASSIFY(std::any_of(schedule->operations.begin(), schedule->operations.end(),
                          [](const Operation& operation) {
                            return operation.kind == OperationKind::kForwardSaveDiscard;
                          }),
              "inputs leave");
  RC_CLASSIFY(std::any_of(schedule->operations.begin(), schedule->operations.end(),
                          [](const Operation& operation) { return operation.save_option != 0; }),
              "stages are saved in another way");
}

RC_GTEST_PROP(LeavingMinimum, IsTheFirstFeasibleBudget, ()) {
  const Chain chain = *rc::gen::oneOf(SmallUnreadChains(4), SmallOptionChains(4));
  const Saving saving = SomeSaving();
  const ScheduleClass schedules =
      OutputsOnly(saving) ? ScheduleClass::kOutputsOnly : ScheduleClass::kNestedPersistent;
  const LeavingMinimum minimum = *LeavingMinimum::Build(chain, saving, {});
  const std::optional<Schedule> schedule = minimum.LeastSchedule();
  RC_ASSERT(schedule.has_value());
  SecondsWithin(minimum.least_bytes(), chain, *schedule);
  RC_ASSERT(!FastestByBruteForce(chain, minimum.least_bytes() - 1, schedules).has_value());
}

}  // namespace
}  // namespace stowage::rotor_table_test
