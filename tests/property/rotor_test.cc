// Rotor against a brute force over every persistent schedule, with slots of one byte.
#include "solver/algorithms/rematerialization/rotor.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "rapidcheck/gtest.h"
#include "solver/bounds/lower_bound.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/modes.h"
#include "solver/simulator/simulator.h"
#include "solver/solve/answer_request.h"
#include "tests/support/brute_force.h"
#include "tests/support/chains.h"

namespace stowage::rotor_test {
namespace {

// More slots than any of these budgets has bytes, so memory is not rounded.
SolveRequest ExactRotor(const Chain& chain, int64_t memory_bytes) {
  return {chain, Memory(memory_bytes), "rotor", {.memory_slots = 1000}};
}

Chain SomeChain(int max_stages) {
  return *rc::gen::oneOf(SmallChains(max_stages), SmallReplayChains(max_stages),
                         SmallUnreadChains(max_stages), SmallOptionChains(max_stages));
}

// From just below the memory floor to just above the peak of storing everything.
int64_t SomeBudget(const Chain& chain) {
  const int64_t least = std::max<int64_t>(0, FloorOfMemory(chain).bytes - 1);
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(least, StoreAllPeakBytes(chain) + 2));
}

RC_GTEST_PROP(Rotor, HasExactlyTheMakespanOfTheBruteForce, ()) {
  const Chain chain = SomeChain(5);
  const int64_t budget = SomeBudget(chain);
  const auto fastest = FastestByBruteForce(chain, budget, ScheduleClass::kNestedPersistent);
  const absl::StatusOr<Answer> answer = AnswerRequest(ExactRotor(chain, budget), {});
  RC_ASSERT(answer.ok());
  RC_ASSERT(answer->rejected.empty());
  RC_ASSERT((answer->outcome == Outcome::kInfeasible) == !fastest.has_value());
  RC_CLASSIFY(!fastest.has_value(), "infeasible");
  RC_CLASSIFY(fastest.has_value() && fastest->seconds > ComputeSeconds(chain), "recomputes");
  if (!fastest.has_value()) {
    RC_ASSERT(answer->minimum_memory_bytes > budget);
    return;
  }
  RC_ASSERT(answer->outcome == Outcome::kOptimal);
  RC_ASSERT(answer->prediction.makespan_seconds == fastest->seconds);
  RC_ASSERT(answer->prediction.peak_memory_bytes <= budget);
}

RC_GTEST_PROP(Revolve, HasExactlyTheMakespanOfTheBruteForce, ()) {
  const Chain chain = SomeChain(5);
  const int64_t budget = SomeBudget(chain) + *rc::gen::inRange<int64_t>(0, 20);
  const auto fastest = FastestByBruteForce(chain, budget, ScheduleClass::kOutputsOnly);
  const absl::StatusOr<Answer> answer = AnswerRequest({chain, Memory(budget), "revolve", {}}, {});
  RC_ASSERT(answer.ok());
  RC_ASSERT((answer->outcome == Outcome::kInfeasible) == !fastest.has_value());
  if (fastest.has_value()) RC_ASSERT(answer->prediction.makespan_seconds == fastest->seconds);
}

// With gradients no larger than outputs and no size of zero, RR-9302's proof holds: no persistent
// schedule is faster, nested or not.
RC_GTEST_PROP(Rotor, IsTheBestOfAllPersistentSchedulesOfOrdinaryChains, ()) {
  Chain chain = *rc::gen::oneOf(SmallChains(4), SmallReplayChains(4));
  chain.input_bytes += 1;
  for (Stage& stage : chain.stages) {
    stage.output_bytes += 1;
    stage.saved_bytes += 1;
    stage.gradient_bytes =
        std::min(stage.gradient_bytes.value_or(stage.output_bytes), stage.output_bytes);
  }
  const int64_t budget = SomeBudget(chain);
  const auto fastest = FastestByBruteForce(chain, budget, ScheduleClass::kPersistent);
  const absl::StatusOr<Answer> answer = AnswerRequest(ExactRotor(chain, budget), {});
  RC_ASSERT(answer.ok());
  RC_ASSERT((answer->outcome == Outcome::kInfeasible) == !fastest.has_value());
  if (fastest.has_value()) RC_ASSERT(answer->prediction.makespan_seconds == fastest->seconds);
}

RC_GTEST_PROP(Rotor, NamesTheLeastMemoryThatWorks, ()) {
  const Chain chain = SomeChain(4);
  const absl::StatusOr<Answer> answer = AnswerRequest(ExactRotor(chain, 0), {});
  RC_ASSERT(answer.ok());
  RC_PRE(answer->outcome == Outcome::kInfeasible);
  const int64_t least = answer->minimum_memory_bytes.value();
  RC_ASSERT(least >= answer->memory_floor_bytes);
  const absl::StatusOr<Answer> at_least = AnswerRequest(ExactRotor(chain, least), {});
  const absl::StatusOr<Answer> below = AnswerRequest(ExactRotor(chain, least - 1), {});
  RC_ASSERT(at_least->outcome == Outcome::kOptimal);
  RC_ASSERT(below->outcome == Outcome::kInfeasible);
}

// The simulator and the brute force count memory and time by separate code; they must agree.
RC_GTEST_PROP(Simulator, AgreesWithTheBruteForceOnItsSchedules, ()) {
  const Chain chain = SomeChain(4);
  const int64_t budget = SomeBudget(chain);
  const auto fastest = FastestByBruteForce(chain, budget, ScheduleClass::kAny);
  RC_PRE(fastest.has_value());
  const auto simulation = SimulateWithBound(chain, Memory(budget), fastest->schedule);
  RC_ASSERT(simulation.ok());
  RC_ASSERT(simulation->feasible());
  RC_ASSERT(simulation->prediction.makespan_seconds == fastest->seconds);
}

// Rounding to few slots may cost time, but the schedule stays valid and every feasible budget has
// one.
RC_GTEST_PROP(Rotor, WithFewSlotsStillAnswersEveryFeasibleBudget, ()) {
  const Chain chain = SomeChain(5);
  SolveRequest request = ExactRotor(chain, SomeBudget(chain));
  const absl::StatusOr<Answer> exact = AnswerRequest(request, {});
  request.options.memory_slots = *rc::gen::inRange<int64_t>(1, 12);
  const absl::StatusOr<Answer> coarse = AnswerRequest(request, {});
  RC_ASSERT(coarse.ok());
  RC_ASSERT(coarse->rejected.empty());
  RC_ASSERT((coarse->outcome == Outcome::kInfeasible) == (exact->outcome == Outcome::kInfeasible));
  if (coarse->outcome == Outcome::kInfeasible) return;
  RC_ASSERT(coarse->prediction.makespan_seconds >= exact->prediction.makespan_seconds);
}

RC_GTEST_PROP(Rotor, GainsFromMemoryAndNeverFromSizeOrTime, ()) {
  Chain chain = SomeChain(5);
  const int64_t budget = SomeBudget(chain);
  const absl::StatusOr<Answer> answer = AnswerRequest(ExactRotor(chain, budget), {});
  RC_PRE(answer->outcome != Outcome::kInfeasible);
  const double seconds = answer->prediction.makespan_seconds;
  RC_ASSERT(seconds >= answer->prediction.lower_bound_seconds);

  const auto richer = AnswerRequest(ExactRotor(chain, budget + 1), {});
  RC_ASSERT(richer->prediction.makespan_seconds <= seconds);

  Stage& stage = chain.stages[*rc::gen::inRange<size_t>(0, chain.stages.size())];
  stage.saved_bytes += 1;
  const auto larger = AnswerRequest(ExactRotor(chain, budget), {});
  RC_ASSERT(larger->outcome == Outcome::kInfeasible ||
            larger->prediction.makespan_seconds >= seconds);
  stage.saved_bytes -= 1;

  for (Stage& each : chain.stages) {
    each.forward_seconds *= 2;
    each.backward_seconds *= 2;
    if (each.replay_seconds.has_value()) *each.replay_seconds *= 2;
    for (SaveOption& option : each.save_options) option.backward_seconds *= 2;
  }
  chain.loss.forward_seconds *= 2;
  chain.loss.backward_seconds *= 2;
  for (SaveOption& option : chain.loss.save_options) option.backward_seconds *= 2;
  const auto slower = AnswerRequest(ExactRotor(chain, budget), {});
  RC_ASSERT(slower->prediction.makespan_seconds == 2 * seconds);
}

}  // namespace
}  // namespace stowage::rotor_test
