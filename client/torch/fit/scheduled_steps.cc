#include "client/torch/fit/scheduled_steps.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "client/torch/profile/plain_step.h"
#include "client/torch/profile/timed_step.h"
#include "solver/base/status_macros.h"
#include "solver/model/schedule.h"

namespace stowage {
namespace {

// With every PREFETCH complete before the next computation: one that is late takes its memory when
// a step needs less of it.
std::vector<Command> InProgramOrder(std::vector<Command> commands) {
  std::optional<size_t> prefetch;
  for (size_t i = 0; i < commands.size(); ++i) {
    if (commands[i].kind == OperationKind::kPrefetch) prefetch = i;
    if (!prefetch.has_value() || !IsCompute(commands[i].kind)) continue;
    commands[i].waits.push_back(*prefetch);
    commands[*prefetch].awaited = true;
    prefetch.reset();
  }
  return commands;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ScheduledSteps>> ScheduledSteps::Create(FrameworkPlan plan,
                                                                       TorchStages stages,
                                                                       Device* device,
                                                                       MemoryMeter* meter) {
  std::unique_ptr<ScheduledSteps> steps(
      new ScheduledSteps(std::move(plan), std::move(stages), meter));
  ASSIGN_OR_RETURN(steps->executor_, FrameworkExecutor::Create(&steps->plan_, device));
  return steps;
}

absl::StatusOr<StepResult> ScheduledSteps::Step(const TorchInput& input, const TorchLoss& loss) {
  stages_.set_verifies(unverified_steps_ > 0);
  stages_.Feed(input, loss);
  const auto forget = absl::MakeCleanup([this] { stages_.Feed({}, nullptr); });
  ASSIGN_OR_RETURN(const StepReport report, executor_->Step(&stages_));
  unverified_steps_ = std::max(0, unverified_steps_ - 1);
  return StepResult{stages_.loss(), report.seconds};
}

absl::StatusOr<MeasuredStep> ScheduledSteps::Timed(const TorchInput& input, const TorchLoss& loss) {
  stages_.set_verifies(false);
  stages_.Feed(input, loss);
  const auto forget = absl::MakeCleanup([this] { stages_.Feed({}, nullptr); });
  return TimedStep(plan_, executor_.get(), &stages_, &meter_);
}

absl::StatusOr<int64_t> ScheduledSteps::PeakBytes(const TorchInput& input, const TorchLoss& loss) {
  const auto forget = absl::MakeCleanup([this] { stages_.Feed({}, nullptr); });
  const std::vector<Command> commands = plan_.commands;
  const auto restore = absl::MakeCleanup([&] { plan_.commands = commands; });
  plan_.commands = InProgramOrder(commands);
  int64_t peak_bytes = 0;
  // No replay ends early while it is verified.
  for (const bool verifies : {false, true}) {
    if (verifies && unverified_steps_ == 0) continue;
    stages_.set_verifies(verifies);
    ASSIGN_OR_RETURN(const int64_t bytes, StepPeakBytes(stages_, input.tensor, &meter_, [&] {
                       stages_.Feed(input, loss);
                       return executor_->Step(&stages_).status();
                     }));
    peak_bytes = std::max(peak_bytes, bytes);
  }
  stages_.ForgetVerified();
  return peak_bytes;
}

}  // namespace stowage
