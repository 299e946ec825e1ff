// Schedules of every solver, with transfers thrown in, executed: the results are those of a plain
// step, and memory is never more than the simulator says.
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <random>
#include <string>

#include "client/agent/executor.h"
#include "client/agent/host_device.h"
#include "rapidcheck/gtest.h"
#include "solver/algorithms/answer.h"
#include "solver/algorithms/catalog.h"
#include "solver/simulator/lower_bound.h"
#include "tests/support/chains.h"
#include "tests/support/hash_stages.h"
#include "tests/support/jittery_device.h"
#include "tests/support/layouts.h"
#include "tests/support/metered_device.h"
#include "tests/support/transfers.h"

namespace stowage {
namespace {

// A chain, where it runs and what it runs.
struct Case {
  Chain chain;
  Platform platform;
  Schedule schedule;
};

Case SomeCase() {
  Case result;
  result.chain = *SmallChains(8);
  const Chain& chain = result.chain;
  const int64_t low = FloorOfMemory(chain).bytes;
  const auto solvers = AllSolvers();
  const std::string solver = solvers[*rc::gen::inRange(size_t{0}, solvers.size())].description.name;
  const int64_t budget = *rc::gen::inRange(low, StoreAllPeakBytes(chain) + 2);
  const auto answer = AnswerRequest({chain, Memory(budget), solver, {}}, {});
  RC_ASSERT(answer.ok());
  RC_PRE(answer->outcome != Outcome::kInfeasible);
  std::mt19937 random(*rc::gen::arbitrary<uint32_t>());
  const double share = *rc::gen::inRange(0, 5) / 4.0;
  result.schedule = WithTransfers(chain, answer->schedule, share, &random);
  result.platform = Memory(budget);
  result.platform.offload_bytes_per_second = 1;
  result.platform.half_duplex = *rc::gen::arbitrary<bool>();
  RC_CLASSIFY(result.schedule != answer->schedule, "transfers");
  return result;
}

// Threads are made once: it is not they that are tested here.
HostDevice& TheDevice() {
  static HostDevice* const device = new HostDevice;
  return *device;
}

RC_GTEST_PROP(PlanExecutor, DoesWhatAPlainStepDoes, ()) {
  const Case some = SomeCase();
  const auto plan = MakePlan(some.chain, some.platform, some.schedule, {.alignment = 1});
  RC_ASSERT(plan.ok());
  ExpectSound(plan->device.blocks, plan->device.layout, 1);
  ExpectSound(plan->host.blocks, plan->host.layout, 1);
  JitteryDevice device(&TheDevice(), *rc::gen::arbitrary<uint32_t>());
  const auto executor = PlanExecutor::Create(&*plan, &device);
  RC_ASSERT(executor.ok());
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    HashStages stages(some.chain, seed);
    const auto report = (*executor)->Step(&stages, Timing::kEveryCommand);
    RC_ASSERT(report.ok());
    RC_ASSERT(report->commands.size() == some.schedule.operations.size());
    RC_ASSERT(stages.digest() == PlainStep(some.chain, seed));
  }
}

RC_GTEST_PROP(PlanExecutor, DoesSoWhereAFrameworkHoldsTheValues, ()) {
  const Case some = SomeCase();
  const auto plan =
      MakePlan(some.chain, some.platform, some.schedule, {.alignment = 1, .places_values = false});
  RC_ASSERT(plan.ok());
  JitteryDevice device(&TheDevice(), *rc::gen::arbitrary<uint32_t>());
  const auto executor = PlanExecutor::Create(&*plan, &device);
  RC_ASSERT(executor.ok());
  HeldHashStages stages(some.chain, 3);
  RC_ASSERT((*executor)->Step(&stages).ok());
  RC_ASSERT(stages.digest() == PlainStep(some.chain, 3));
  RC_ASSERT(stages.held_bytes() == 0);
}

RC_GTEST_PROP(PlanExecutor, NeverHoldsMoreThanThePeakAtAnyInstant, ()) {
  const Case some = SomeCase();
  const auto plan = MakePlan(some.chain, some.platform, some.schedule, {.alignment = 1});
  RC_ASSERT(plan.ok());
  MeteredDevice device(&*plan, &TheDevice());
  const auto executor = PlanExecutor::Create(&*plan, &device);
  RC_ASSERT(executor.ok());
  HashStages stages(some.chain, 4);
  RC_ASSERT((*executor)->Step(&stages).ok());
  RC_ASSERT(device.most_bytes() <= plan->prediction.peak_memory_bytes);
  RC_ASSERT(device.bytes() == some.chain.gradient_bytes(0));
}

}  // namespace
}  // namespace stowage
