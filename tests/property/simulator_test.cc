// The simulator on random lists of operations, valid or not.
#include "solver/simulator/simulator.h"

#include <gtest/gtest.h>

#include <vector>

#include "rapidcheck/gtest.h"
#include "solver/simulator/memory_walk.h"
#include "solver/solve/checked_answer.h"
#include "tests/support/chains.h"

namespace stowage {
namespace {

Schedule AnyOperations(const Chain& chain) {
  Schedule schedule;
  const int count = *rc::gen::inRange(0, 40);
  for (int i = 0; i < count; ++i) {
    schedule.operations.push_back({static_cast<OperationKind>(*rc::gen::inRange(0, 8)),
                                   *rc::gen::inRange(-1, chain.length() + 3)});
    Operation& operation = schedule.operations.back();
    const bool other = chain.has_save_options() && *rc::gen::arbitrary<bool>();
    if (other && Saves(operation.kind)) operation.save_option = *rc::gen::inRange(-1, 4);
  }
  return schedule;
}

// Each operation is one that is allowed after those before it, so only the end may be invalid.
Schedule ValidPrefix(const Chain& chain, const Platform& platform) {
  Schedule schedule;
  for (const Operation& operation : AnyOperations(chain).operations) {
    schedule.operations.push_back(operation);
    const auto result = Simulate(chain, platform, schedule);
    const std::string end = "operations[" + std::to_string(schedule.operations.size()) + "] END";
    if (!result.ok() && result.status().message().substr(0, end.size()) != end)
      schedule.operations.pop_back();
  }
  return schedule;
}

RC_GTEST_PROP(Simulator, AnswersOrNamesAnOperationForAnyList, ()) {
  const Chain chain = *rc::gen::oneOf(SmallChains(4), SmallUnreadChains(4), SmallOptionChains(4));
  Platform platform = Memory(30);
  platform.offload_bytes_per_second = *rc::gen::inRange(0, 3);
  platform.host_memory_bytes = *rc::gen::inRange(0, 10);
  platform.half_duplex = *rc::gen::arbitrary<bool>();
  const Schedule schedule = AnyOperations(chain);
  const auto result = SimulateAndExplain(chain, ChainUnits(chain), platform, schedule);
  if (result.ok()) return;
  RC_ASSERT(result.status().code() == absl::StatusCode::kInvalidArgument);
  RC_ASSERT(result.status().message().substr(0, 11) == "operations[");
}

RC_GTEST_PROP(Simulator, KeepsEachQueueInOrder, ()) {
  const Chain chain = *rc::gen::oneOf(SmallChains(3), SmallUnreadChains(3), SmallOptionChains(3));
  Platform platform = Memory(1000);
  platform.offload_bytes_per_second = *rc::gen::inRange(1, 4);
  platform.half_duplex = *rc::gen::arbitrary<bool>();
  Schedule schedule = ValidPrefix(chain, platform);
  std::vector<TimelineEntry> timeline;
  (void)Simulate(chain, platform, schedule, &timeline);
  RC_ASSERT(timeline.size() == schedule.operations.size());
  double ends[3] = {0, 0, 0};  // by queue: compute, to host, to device
  for (size_t i = 0; i < timeline.size(); ++i) {
    const OperationKind kind = schedule.operations[i].kind;
    RC_ASSERT(timeline[i].start_seconds <= timeline[i].end_seconds);
    RC_ASSERT(timeline[i].memory_bytes >= 0);
    RC_ASSERT(timeline[i].host_bytes >= 0);
    if (kind == OperationKind::kRelease) continue;
    size_t queue = 0;
    if (kind == OperationKind::kOffload) queue = 1;
    if (kind == OperationKind::kPrefetch) queue = platform.half_duplex ? 1 : 2;
    RC_ASSERT(timeline[i].start_seconds >= ends[queue]);
    ends[queue] = timeline[i].end_seconds;
  }
}

// Each holding is counted under its kind, and the kinds add up to what the simulator counts.
RC_GTEST_PROP(MemoryWalk, SumsUpTheHoldingsOfEachKind, ()) {
  const Chain chain = *rc::gen::oneOf(SmallChains(3), SmallOptionChains(3));
  Platform platform = Memory(1000);
  platform.offload_bytes_per_second = 1;
  MemoryWalk walk(chain, platform);
  for (const Operation& operation : ValidPrefix(chain, platform).operations) {
    MemoryByKind sums;
    for (const Holding& holding : walk.HoldingsDuring(operation)) {
      switch (holding.kind) {
        case Holding::Kind::kOutput:
          sums.output_bytes += holding.bytes;
          break;
        case Holding::Kind::kSaved:
          sums.saved_bytes += holding.bytes;
          break;
        case Holding::Kind::kGradient:
          sums.gradient_bytes += holding.bytes;
          break;
        case Holding::Kind::kOverhead:
          sums.overhead_bytes += holding.bytes;
          break;
      }
    }
    const MemoryByKind bytes = walk.BytesDuring(operation);
    RC_ASSERT(bytes.output_bytes == sums.output_bytes);
    RC_ASSERT(bytes.saved_bytes == sums.saved_bytes);
    RC_ASSERT(bytes.gradient_bytes == sums.gradient_bytes);
    RC_ASSERT(bytes.overhead_bytes == sums.overhead_bytes);
    RC_ASSERT(walk.Execute(operation).ok());
    RC_ASSERT(bytes.output_bytes + bytes.saved_bytes + bytes.gradient_bytes +
                  bytes.overhead_bytes ==
              walk.memory_bytes());
  }
}

}  // namespace
}  // namespace stowage
