// Executes schedules of every solver, with random transfers added. The results must equal those of
// a plain training step, and device memory must never exceed the simulator's peak.
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <random>
#include <string>
#include <utility>

#include "client/agent/executor.h"
#include "client/agent/host_device.h"
#include "rapidcheck/gtest.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/modes.h"
#include "solver/solve/answer_request.h"
#include "solver/solve/catalog.h"
#include "tests/support/chains.h"
#include "tests/support/hash_stages.h"
#include "tests/support/jittery_device.h"
#include "tests/support/layouts.h"
#include "tests/support/metered_device.h"
#include "tests/support/transfers.h"

namespace stowage {
namespace {

// A chain, its platform, a schedule, and `executed`, the chain with the schedule's modes.
struct Case {
  Chain chain;
  Platform platform;
  Schedule schedule;
  Chain executed;
};

// Gives some of the stages graph costs, alone and in fusion groups.
Chain WithSomeModes(Chain chain) {
  const int length = chain.length();
  for (int first = 0, last = 0; first < length; first = last + 1) {
    last = std::min(first + *rc::gen::inRange(0, 3), length - 1);
    const bool has_graph = *rc::gen::inRange(0, 3) > 0;
    for (int l = first; has_graph && l <= last; ++l) {
      Stage& stage = chain.stages[static_cast<size_t>(l)];
      if (first < last) stage.fusion_group = "from " + std::to_string(first);
      stage.graph = {
          .forward_seconds = *rc::gen::inRange(0, 3) / 1.0,
          .backward_seconds = *rc::gen::inRange(0, 3) / 1.0,
          .saved_bytes = (l == last ? stage.output_bytes : 0) + *rc::gen::inRange<int64_t>(0, 3),
          .forward_overhead_bytes = *rc::gen::inRange<int64_t>(0, 3)};
    }
  }
  chain.graph_entry_seconds = *rc::gen::inRange(0, 2);
  return chain;
}

// Whether the executor runs backwards whose input is gone.
enum class Inputs { kMayBeGone, kStay };

Case SomeCase(Inputs inputs) {
  Case result;
  const bool unread = inputs == Inputs::kMayBeGone && *rc::gen::arbitrary<bool>();
  result.chain = unread ? *SmallUnreadChains(8) : *SmallChains(8);
  if (!unread && *rc::gen::arbitrary<bool>()) result.chain = WithSomeModes(std::move(result.chain));
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
  const auto execution = Execution::Of(chain, answer->schedule);
  RC_ASSERT(execution.ok());
  result.executed = execution->chain();
  result.schedule = execution->ToChain(
      WithTransfers(result.executed, execution->FromChain(answer->schedule), share, &random));
  RC_CLASSIFY(HasGraphOperations(result.schedule), "graph mode");
  result.platform = Memory(budget);
  result.platform.offload_bytes_per_second = 1;
  result.platform.half_duplex = *rc::gen::arbitrary<bool>();
  RC_CLASSIFY(result.schedule != answer->schedule, "transfers");
  return result;
}

// One device for all cases, so that its threads start once.
HostDevice& TheDevice() {
  static HostDevice* const device = new HostDevice;
  return *device;
}

RC_GTEST_PROP(ArenaExecutor, DoesWhatAPlainStepDoes, ()) {
  const Case some = SomeCase(Inputs::kMayBeGone);
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
  const Case some = SomeCase(Inputs::kStay);
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
  const Case some = SomeCase(Inputs::kMayBeGone);
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
