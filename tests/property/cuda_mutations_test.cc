// What the tests under the double of CUDA's runtime are worth: each wait, record, synchronization
// and release is left out, one kind at a time, of random schedules. Each must be found, by a report
// of the double, a leak, an error or a wrong result.
#include <gtest/gtest.h>

#include <array>
#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include "client/agent/executor.h"
#include "rapidcheck.h"
#include "solver/base/status_macros.h"
#include "tests/support/agent_cases.h"
#include "tests/support/cuda_device_on_double.h"
#include "tests/support/forwarding_device.h"
#include "tests/support/hash_stages.h"
#include "tests/support/kernel_stages.h"

namespace stowage {
namespace {

enum class Fault { kNone, kRecordsElsewhere, kRecordsEarly, kNeverSynchronizes, kBeginsAtOnce };

// One of the three is set.
struct Mutation {
  const char* what;
  bool (*drops_wait)(OperationKind waiter, OperationKind awaited) = nullptr;  // of a plan
  Fault fault = Fault::kNone;                                                 // of a device
  const char* ignored = nullptr;                                              // an entry point
};

bool IsCopy(OperationKind kind) {
  return kind == OperationKind::kOffload || kind == OperationKind::kPrefetch;
}

bool IsComputation(OperationKind kind) { return !IsCopy(kind) && kind != OperationKind::kRelease; }

// cudaStreamSynchronize alone is not among them: a step that succeeds also waits for an event of
// the compute queue, which by then has waited for all copies. "Steps do not wait" leaves out both.
const std::vector<Mutation>& Mutations() {
  using Kind = OperationKind;
  static const auto* const mutations = new std::vector<Mutation>{
      {"OFFLOADs wait for no computation",
       [](Kind waiter, Kind awaited) {
         return waiter == Kind::kOffload && IsComputation(awaited);
       }},
      {"OFFLOADs wait for no PREFETCH",
       [](Kind waiter, Kind awaited) {
         return waiter == Kind::kOffload && awaited == Kind::kPrefetch;
       }},
      {"RELEASEs wait for no OFFLOAD",
       [](Kind waiter, Kind awaited) {
         return waiter == Kind::kRelease && awaited == Kind::kOffload;
       }},
      {"PREFETCHes wait for no computation",
       [](Kind waiter, Kind awaited) {
         return waiter == Kind::kPrefetch && IsComputation(awaited);
       }},
      {"PREFETCHes wait for no RELEASE",
       [](Kind waiter, Kind awaited) {
         return waiter == Kind::kPrefetch && awaited == Kind::kRelease;
       }},
      {"forwards wait for no PREFETCH",
       [](Kind waiter, Kind awaited) {
         return IsComputation(waiter) && waiter != Kind::kBackward && awaited == Kind::kPrefetch;
       }},
      {"BACKWARDs wait for no PREFETCH",
       [](Kind waiter, Kind awaited) {
         return waiter == Kind::kBackward && awaited == Kind::kPrefetch;
       }},
      {.what = "events are recorded on another queue", .fault = Fault::kRecordsElsewhere},
      {.what = "events are recorded before their work", .fault = Fault::kRecordsEarly},
      {.what = "steps do not wait for the device", .fault = Fault::kNeverSynchronizes},
      {.what = "copies do not wait for the beginning", .fault = Fault::kBeginsAtOnce},
      {.what = "cudaStreamWaitEvent", .ignored = "cudaStreamWaitEvent"},
      {.what = "cudaEventRecord", .ignored = "cudaEventRecord"},
      {.what = "cudaEventSynchronize", .ignored = "cudaEventSynchronize"},
      {.what = "cudaFree", .ignored = "cudaFree"},
      {.what = "cudaFreeAsync", .ignored = "cudaFreeAsync"},
      {.what = "cudaHostUnregister", .ignored = "cudaHostUnregister"},
      {.what = "cudaEventDestroy", .ignored = "cudaEventDestroy"},
      {.what = "cudaStreamDestroy", .ignored = "cudaStreamDestroy"}};
  return *mutations;
}

// A device with a fault.
class FaultyDevice final : public ForwardingDevice {
 public:
  FaultyDevice(Device* device, Fault fault) : ForwardingDevice(device), fault_(fault) {}

  absl::Status Copy(Queue queue, DeviceSpan from, PinnedSpan to) override {
    RETURN_IF_ERROR(Before(queue));
    return device_.Copy(queue, from, to);
  }
  absl::Status Copy(Queue queue, PinnedSpan from, DeviceSpan to) override {
    RETURN_IF_ERROR(Before(queue));
    return device_.Copy(queue, from, to);
  }
  absl::Status Launch(Queue queue, DeviceWork work) override {
    RETURN_IF_ERROR(Before(queue));
    return device_.Launch(queue, std::move(work));
  }
  absl::Status LaunchCopy(Queue queue, Direction direction, int64_t bytes,
                          DeviceWork work) override {
    RETURN_IF_ERROR(Before(queue));
    return device_.LaunchCopy(queue, direction, bytes, std::move(work));
  }
  absl::StatusOr<std::shared_ptr<const Event>> Record(Queue queue) override {
    if (fault_ == Fault::kRecordsElsewhere) {
      return device_.Record(queue == Queue::kCompute ? Queue::kToHost : Queue::kCompute);
    }
    const auto& early = early_[static_cast<size_t>(queue)];
    return early != nullptr ? early : device_.Record(queue);
  }
  absl::Status Wait(Queue queue, const std::shared_ptr<const Event>& event) override {
    // The first waits of a step are those of the copies' queues for its beginning.
    if (fault_ == Fault::kBeginsAtOnce && waits_++ < kQueues - 1) return absl::OkStatus();
    return device_.Wait(queue, event);
  }
  absl::Status Synchronize() override {
    waits_ = 0;
    return fault_ == Fault::kNeverSynchronizes ? absl::OkStatus() : device_.Synchronize();
  }

 private:
  absl::Status Before(Queue queue) {
    if (fault_ != Fault::kRecordsEarly) return absl::OkStatus();
    ASSIGN_OR_RETURN(early_[static_cast<size_t>(queue)], device_.Record(queue));
    return absl::OkStatus();
  }

  const Fault fault_;
  int waits_ = 0;
  std::array<std::shared_ptr<const Event>, kQueues> early_;
};

template <typename SomePlan>
void Mutate(const Mutation& mutation, SomePlan* plan) {
  if (mutation.drops_wait == nullptr) return;
  for (Command& command : plan->commands) {
    std::erase_if(command.waits, [&](size_t other) {
      return mutation.drops_wait(command.kind, plan->commands[other].kind);
    });
  }
}

// Two steps on a new device; whether one fails or computes something else. The stages come first:
// work that is still enqueued uses them.
template <typename Stages, typename Executor, typename SomePlan>
bool StepsGoWrong(const Mutation& mutation, const Chain& chain, const SomePlan& plan) {
  Stages stages(chain, 5);
  if (mutation.ignored != nullptr) cuda_double::IgnoreCalls(mutation.ignored);
  auto cuda = CudaDevice::Create();
  if (!cuda.ok()) return true;
  FaultyDevice device(cuda->get(), mutation.fault);
  const auto executor = Executor::Create(&plan, &device);
  if (!executor.ok()) return true;
  for (int step = 0; step < 2; ++step) {
    if (!(*executor)->Step(&stages, Timing::kEveryCommand).ok()) return true;
    if (stages.digest() != PlainStep(chain, 5)) return true;
  }
  return false;
}

bool IsFound(const Mutation& mutation, const AgentCase& some, uint64_t seed, bool is_arena) {
  cuda_double::Reset({.seed = seed, .has_pools = seed % 2 == 0});
  bool found = false;
  if (is_arena) {
    auto plan = MakeArenaPlan(some.chain, some.platform, some.schedule, {.alignment = 1});
    RC_ASSERT(plan.ok());
    Mutate(mutation, &*plan);
    found = StepsGoWrong<KernelStages, ArenaExecutor>(mutation, some.executed, *plan);
  } else {
    auto plan = MakeFrameworkPlan(some.chain, some.platform, some.schedule, {.alignment = 1});
    RC_ASSERT(plan.ok());
    Mutate(mutation, &*plan);
    found = StepsGoWrong<CachingKernelStages, FrameworkExecutor>(mutation, some.executed, *plan);
  }
  found = !cuda_double::TakeReports().empty() || found;
  return !cuda_double::Leaks().empty() || found;
}

TEST(CudaMutations, AreEachFound) {
  constexpr int kEnough = 10;  // of the times that one is found
  std::vector<int> tries(Mutations().size());
  std::vector<int> finds(Mutations().size());
  EXPECT_TRUE(rc::check([&] {
    const AgentCase some = SomeAgentCase(Inputs::kStay);
    const auto seed = *rc::gen::arbitrary<uint64_t>();
    const bool is_arena = *rc::gen::arbitrary<bool>();
    for (size_t i = 0; i < finds.size(); ++i) {
      if (finds[i] == kEnough) continue;
      ++tries[i];
      if (IsFound(Mutations()[i], some, seed, is_arena)) ++finds[i];
    }
  }));
  cuda_double::Reset();
  size_t found = 0;
  for (size_t i = 0; i < finds.size(); ++i) {
    EXPECT_GT(finds[i], 0) << Mutations()[i].what;
    if (finds[i] > 0) ++found;
    std::cout << "left out: " << Mutations()[i].what << ": found in " << finds[i] << " of "
              << tries[i] << " cases\n";
  }
  std::cout << found << " of " << finds.size() << " mutations found\n";
}

TEST(CudaMutations, FindNothingWhereNothingIsLeftOut) {
  EXPECT_TRUE(rc::check([&] {
    const AgentCase some = SomeAgentCase(Inputs::kStay);
    const auto seed = *rc::gen::arbitrary<uint64_t>();
    RC_ASSERT(!IsFound({.what = "nothing"}, some, seed, *rc::gen::arbitrary<bool>()));
  }));
}

}  // namespace
}  // namespace stowage
