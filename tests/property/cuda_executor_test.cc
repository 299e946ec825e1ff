// Executes schedules of every solver, with random transfers added, on CudaDevice under the double
// of CUDA's runtime. The results must equal those of a plain training step, for every order of the
// work that CUDA allows; no two accesses may race, and nothing may leak.
#include <gtest/gtest.h>

#include <array>

#include "client/agent/executor.h"
#include "rapidcheck/gtest.h"
#include "tests/support/agent_cases.h"
#include "tests/support/cuda_device_on_double.h"
#include "tests/support/hash_stages.h"
#include "tests/support/kernel_stages.h"

namespace stowage {
namespace {

void ResetForSomeSeed() {
  (void)cuda_double::TakeReports();  // of a case that has failed
  cuda_double::Reset(
      {.seed = *rc::gen::arbitrary<uint64_t>(), .has_pools = *rc::gen::arbitrary<bool>()});
}

// Requires: all that was made on the device is freed.
void ExpectNothingOnTheDevice() {
  const auto reports = cuda_double::TakeReports();
  if (!reports.empty()) RC_FAIL(reports.front().text);
  const auto leaks = cuda_double::Leaks();
  if (!leaks.empty()) RC_FAIL(leaks.front().text);
}

RC_GTEST_PROP(ArenaExecutorOnCuda, DoesWhatAPlainStepDoes, ()) {
  const AgentCase some = SomeAgentCase(Inputs::kStay);
  const auto plan = MakeArenaPlan(some.chain, some.platform, some.schedule, {.alignment = 1});
  RC_ASSERT(plan.ok());
  for (uint64_t step = 1; step <= 2; ++step) {
    ResetForSomeSeed();
    auto device = CudaDevice::Create();
    RC_ASSERT(device.ok());
    auto executor = ArenaExecutor::Create(&*plan, device->get());
    RC_ASSERT(executor.ok());
    KernelStages stages(some.executed, step);
    const auto report = (*executor)->Step(&stages, Timing::kEveryCommand);
    RC_ASSERT(report.ok());
    RC_ASSERT(report->commands.size() == some.schedule.operations.size());
    RC_ASSERT(stages.digest() == PlainStep(some.executed, step));
    RC_ASSERT((*executor)->Step(&stages).ok());  // the second is not ordered by events of the first
    RC_ASSERT(stages.digest() == PlainStep(some.executed, step));
    executor->reset();
    device->reset();
    ExpectNothingOnTheDevice();
  }
}

RC_GTEST_PROP(FrameworkExecutorOnCuda, DoesWhatAPlainStepDoes, ()) {
  const AgentCase some = SomeAgentCase(Inputs::kStay);
  const auto plan = MakeFrameworkPlan(some.chain, some.platform, some.schedule, {.alignment = 1});
  RC_ASSERT(plan.ok());
  ResetForSomeSeed();
  auto device = CudaDevice::Create();
  RC_ASSERT(device.ok());
  auto executor = FrameworkExecutor::Create(&*plan, device->get());
  RC_ASSERT(executor.ok());
  {
    CachingKernelStages stages(some.executed, 3);
    for (int step = 0; step < 2; ++step) {
      RC_ASSERT((*executor)->Step(&stages).ok());
      RC_ASSERT(stages.digest() == PlainStep(some.executed, 3));
    }
  }
  executor->reset();
  device->reset();
  ExpectNothingOnTheDevice();
}

// A step that fails, by a call or by work of the device, leaves nothing behind.
RC_GTEST_PROP(ArenaExecutorOnCuda, FreesEverythingAfterAStepThatFails, ()) {
  const AgentCase some = SomeAgentCase(Inputs::kStay);
  const auto plan = MakeArenaPlan(some.chain, some.platform, some.schedule, {.alignment = 1});
  RC_ASSERT(plan.ok());
  ResetForSomeSeed();
  auto device = CudaDevice::Create();
  RC_ASSERT(device.ok());
  auto executor = ArenaExecutor::Create(&*plan, device->get());
  RC_ASSERT(executor.ok());
  KernelStages stages(some.executed, 4);
  const int n = *rc::gen::inRange(1, 20);
  const int what = *rc::gen::inRange(0, 5);
  constexpr std::array kCalls = {"LaunchKernel", "cudaEventRecord", "cudaStreamWaitEvent",
                                 "cudaMemcpyAsync"};
  if (what < 4) {
    cuda_double::FailCall(kCalls[static_cast<size_t>(what)], n, cudaErrorUnknown);
  } else {
    cuda_double::FailWork(n, cudaErrorLaunchFailure);
  }
  const auto report = (*executor)->Step(&stages);
  RC_CLASSIFY(!report.ok(), "failed");
  if (report.ok() || what < 4) {
    // A call that failed leaves a device that works.
    if (!report.ok()) RC_ASSERT((*executor)->Step(&stages).ok());
    RC_ASSERT(stages.digest() == PlainStep(some.executed, 4));
  }
  executor->reset();
  device->reset();
  ExpectNothingOnTheDevice();
}

}  // namespace
}  // namespace stowage
