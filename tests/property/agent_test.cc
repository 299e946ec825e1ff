// Executes schedules of every solver, with random transfers added. The results must equal those of
// a plain training step, and device memory must never exceed the simulator's peak.
#include <gtest/gtest.h>

#include "client/agent/executor.h"
#include "client/agent/host_device.h"
#include "rapidcheck/gtest.h"
#include "tests/support/agent_cases.h"
#include "tests/support/hash_stages.h"
#include "tests/support/jittery_device.h"
#include "tests/support/layouts.h"
#include "tests/support/metered_device.h"

namespace stowage {
namespace {

// One device for all cases, so that its threads start once.
HostDevice& TheDevice() {
  static HostDevice* const device = new HostDevice;
  return *device;
}

RC_GTEST_PROP(ArenaExecutor, DoesWhatAPlainStepDoes, ()) {
  const AgentCase some = SomeAgentCase(Inputs::kMayBeGone);
  const auto plan = MakeArenaPlan(some.chain, some.platform, some.schedule, {.alignment = 1});
  RC_ASSERT(plan.ok());
  ExpectSound(plan->device.blocks, plan->device.layout, 1);
  ExpectSound(plan->host.blocks, plan->host.layout, 1);
  JitteryDevice device(&TheDevice(), *rc::gen::arbitrary<uint32_t>());
  const auto executor = ArenaExecutor::Create(&*plan, &device);
  RC_ASSERT(executor.ok());
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    HashStages stages(some.executed, seed);
    const auto report = (*executor)->Step(&stages, Timing::kEveryCommand);
    RC_ASSERT(report.ok());
    RC_ASSERT(report->commands.size() == some.schedule.operations.size());
    RC_ASSERT(stages.digest() == PlainStep(some.executed, seed));
  }
}

RC_GTEST_PROP(FrameworkExecutor, DoesWhatAPlainStepDoes, ()) {
  const AgentCase some = SomeAgentCase(Inputs::kMayBeGone);
  const auto plan = MakeFrameworkPlan(some.chain, some.platform, some.schedule, {.alignment = 1});
  RC_ASSERT(plan.ok());
  JitteryDevice device(&TheDevice(), *rc::gen::arbitrary<uint32_t>());
  const auto executor = FrameworkExecutor::Create(&*plan, &device);
  RC_ASSERT(executor.ok());
  FrameworkHashStages stages(some.executed, 3);
  RC_ASSERT((*executor)->Step(&stages).ok());
  RC_ASSERT(stages.digest() == PlainStep(some.executed, 3));
  RC_ASSERT(stages.held_bytes() == 0);
}

RC_GTEST_PROP(ArenaExecutor, NeverHoldsMoreThanThePeakAtAnyInstant, ()) {
  const AgentCase some = SomeAgentCase(Inputs::kMayBeGone);
  const auto plan = MakeArenaPlan(some.chain, some.platform, some.schedule, {.alignment = 1});
  RC_ASSERT(plan.ok());
  MeteredDevice device(&*plan, &TheDevice());
  const auto executor = ArenaExecutor::Create(&*plan, &device);
  RC_ASSERT(executor.ok());
  HashStages stages(some.executed, 4);
  RC_ASSERT((*executor)->Step(&stages).ok());
  RC_ASSERT(device.max_bytes() <= plan->prediction.peak_memory_bytes);
  RC_ASSERT(device.bytes() == some.executed.gradient_bytes(0));
}

}  // namespace
}  // namespace stowage
