// Chains whose stages say more than the plainest ones do: `auto` and the solvers that it asks, and
// the simulator, against the searches through all schedules.
#include <gtest/gtest.h>

#include <algorithm>

#include "rapidcheck/gtest.h"
#include "solver/bounds/lower_bound.h"
#include "solver/bounds/memory_range.h"
#include "solver/solve/answer_request.h"
#include "solver/solve/catalog.h"
#include "tests/support/brute_force.h"
#include "tests/support/chains.h"
#include "tests/support/program_search.h"

namespace stowage {
namespace {

int64_t Below(int64_t bound) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<int64_t>(0, bound));
}

Chain SomeChain(int max_stages) {
  return *rc::gen::oneOf(SmallReplayChains(max_stages), SmallUnreadChains(max_stages),
                         SmallOptionChains(max_stages));
}

int64_t SomeBudget(const Chain& chain) {
  const int64_t least = std::max<int64_t>(0, FloorOfMemory(chain).bytes - 1);
  return least + Below(std::max<int64_t>(1, StoreAllPeakBytes(chain) + 2 - least));
}

// All times are multiples of a quarter, so makespans can be compared exactly.
Platform SomeLink(int64_t memory_bytes) {
  constexpr double kRates[] = {0.25, 0.5, 1, 2};
  Platform platform = Memory(memory_bytes);
  platform.offload_bytes_per_second = kRates[Below(4)];
  platform.prefetch_bytes_per_second = kRates[Below(4)];
  platform.half_duplex = Below(2) == 0;
  return platform;
}

SolveRequest ExactRequest(const Chain& chain, const Platform& platform, const char* solver) {
  return {chain, platform, solver, {.time_precision = 0}};
}

RC_GTEST_PROP(StageCosts, AutoIsNoSlowerThanAnySolverAndNoFasterThanTheBestSchedule, ()) {
  const Chain chain = SomeChain(4);
  const Platform platform = Memory(SomeBudget(chain));
  const auto fastest = FastestByBruteForce(chain, platform.memory_bytes, ScheduleClass::kAny);
  const absl::StatusOr<Answer> best = AnswerRequest(ExactRequest(chain, platform, "auto"), {});
  RC_ASSERT(best.ok());
  RC_ASSERT(best->rejected.empty());
  if (!fastest.has_value()) RC_ASSERT(best->outcome == Outcome::kInfeasible);
  for (const SolverInfo& info : AllSolvers()) {
    const absl::StatusOr<Answer> answer =
        AnswerRequest(ExactRequest(chain, platform, info.description.name), {});
    RC_ASSERT(answer.ok());
    RC_ASSERT(answer->rejected.empty());
    if (answer->outcome == Outcome::kInfeasible) {
      RC_ASSERT(answer->minimum_memory_bytes.value_or(INT64_MAX) > platform.memory_bytes);
      continue;
    }
    RC_ASSERT(best->outcome != Outcome::kInfeasible);
    const Prediction& prediction = answer->prediction;
    RC_ASSERT(best->prediction.makespan_seconds <= prediction.makespan_seconds);
    RC_ASSERT(prediction.makespan_seconds >= fastest->seconds);
    RC_ASSERT(prediction.lower_bound_seconds <= fastest->seconds * (1 + kSummationError));
    RC_CLASSIFY(prediction.makespan_seconds > prediction.lower_bound_seconds, "a gap");
  }
}

RC_GTEST_PROP(StageCosts, NoSolverIsFasterThanTheBestProgramWithALink, ()) {
  const Chain chain = SomeChain(3);
  const Platform platform = SomeLink(SomeBudget(chain));
  const auto fastest = FastestProgram(chain, platform, {.max_nodes = 20'000});
  RC_PRE(fastest.has_value());
  RC_PRE(!fastest->gave_up);  // apart, since both sides of a "&&" are evaluated here
  const absl::StatusOr<Simulation> simulation =
      SimulateWithBound(chain, platform, fastest->schedule);
  RC_ASSERT(simulation.ok());
  RC_ASSERT(simulation->feasible());
  RC_ASSERT(simulation->prediction.makespan_seconds == fastest->seconds);
  const SolverInfo& info =
      AllSolvers()[static_cast<size_t>(Below(static_cast<int64_t>(AllSolvers().size())))];
  const absl::StatusOr<Answer> answer =
      AnswerRequest(ExactRequest(chain, platform, info.description.name), {});
  RC_ASSERT(answer.ok());
  RC_ASSERT(answer->rejected.empty());
  if (answer->outcome == Outcome::kInfeasible) return;
  RC_ASSERT(answer->prediction.makespan_seconds >= fastest->seconds * (1 - kSummationError));
  RC_ASSERT(answer->prediction.lower_bound_seconds <= fastest->seconds * (1 + kSummationError));
}

}  // namespace
}  // namespace stowage
