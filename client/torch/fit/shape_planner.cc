#include "client/torch/fit/shape_planner.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/agent/plan.h"
#include "client/lib/pending_plan.h"
#include "client/torch/fit/scheduled_steps.h"
#include "client/torch/join/graph_mode.h"
#include "client/torch/profile/plain_step.h"
#include "client/torch/profile/profiler.h"
#include "client/torch/profile/save_options.h"
#include "client/torch/stages/stage_probe.h"
#include "solver/base/out_of_memory.h"
#include "solver/base/prefixed.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"
#include "solver/bounds/memory_range.h"
#include "solver/solve/checked_answer.h"
#include "solver/solve/request_violations.h"

namespace stowage {
namespace {

constexpr int kVerifiedSteps = 2;
constexpr int kMaxSolves = 4;  // of one shape, each for less memory than the one before
// By how much a shape's budget is reduced where a trial is out of memory, so that its peak is
// unknown: whoever took the memory, a schedule with less of it may fit.
constexpr double kUnknownExcess = 0.03;
// Plain training took down to three quarters of what the chain takes that stores everything.
constexpr double kLeastOfPlain = 0.5;

// What a schedule that stores everything would take if a skip counted in one value, as it does in
// plain training.
int64_t StoreAllOnceBytes(const StageProbe& probe, Chain chain) {
  for (int l = 1; l <= chain.length(); ++l) {
    Stage& stage = chain.stages[static_cast<size_t>(l) - 1];
    stage.saved_bytes = std::max<int64_t>(stage.saved_bytes - probe.passed_bytes(l), 0);
    stage.output_bytes = std::min(stage.output_bytes, stage.saved_bytes);
  }
  return StoreAllPeakBytes(chain);
}

}  // namespace

// After each measurement what it has freed is returned: a heap in the pieces of all of them would
// take more resident memory than plain training does.
absl::StatusOr<ShapePlan> ShapePlanner::MakePlan(const std::string& shape, const TorchInput& input,
                                                 const TorchLoss& loss,
                                                 const std::list<ShapePlan>& others) {
  ShapePlan plan;
  plan.shape = shape;
  plan.state = network_.State();
  TorchStages stages = network_.ToRun();
  stages.Feed(input, loss);
  network_.Progress(
      absl::StrCat("profiling ", network_.stages().size(), " stages for input ", plan.shape));
  ASSIGN_OR_RETURN(plan.chain, ProfileChain(&stages, network_.device(), network_.meter(),
                                            {.graph_mode = network_.options().graph_mode,
                                             .stays_on_device = !network_.Offloads(),
                                             .progress = network_.StageProgress()}));
  network_.meter()->ReturnFreed();
  // In plan files, which are named after it.
  plan.chain.name = absl::StrCat(network_.stages().front().name, " to ",
                                 network_.stages().back().name, ", ", plan.shape);
  if (budget_bytes() == 0) RETURN_IF_ERROR(network_.SetBudget(plan.chain));
  plan.budget_bytes = budget_bytes();
  plan.platform.memory_bytes = budget_bytes();
  if (kLeastOfPlain * static_cast<double>(StoreAllOnceBytes(StageProbe(&stages), plan.chain)) <=
      static_cast<double>(budget_bytes())) {
    const absl::StatusOr<int64_t> plain =
        PlainPeakBytes(network_.stages(), input, loss, network_.meter());
    if (!plain.ok() && !absl::IsResourceExhausted(plain.status())) return plain.status();
    if (plain.ok()) plan.plain_bytes = *plain;
    network_.meter()->ReturnFreed();
  }
  if (plan.plain_bytes.has_value() && *plan.plain_bytes <= budget_bytes()) return plan;
  if (network_.options().save_options) {
    stages.Feed(input, loss);
    RETURN_IF_ERROR(AddSaveOptions(&stages, &plan));
  }
  RETURN_IF_ERROR(StartSolve(&plan, LessDeviation(budget_bytes())));
  RETURN_IF_ERROR(BorrowSchedule(others, &plan, input, loss));
  if (plan.scheduled == nullptr) RETURN_IF_ERROR(FinishSolve(&plan, input, loss));
  return plan;
}

absl::Status ShapePlanner::AddSaveOptions(TorchStages* stages, ShapePlan* plan) {
  network_.Progress(
      absl::StrCat("finding further ways to save each of ", stages->length(), " stages"));
  RETURN_IF_ERROR(FindSaveOptions(
      stages, network_.device(), network_.meter(),
      {.stays_on_device = !network_.Offloads(), .progress = network_.StageProgress()},
      &plan->chain));
  network_.meter()->ReturnFreed();
  for (int l = 1; l <= stages->length(); ++l) {
    plan->save_options.push_back(stages->stage(l).save_options);
  }
  return absl::OkStatus();
}

SolveRequest ShapePlanner::RequestFor(const Chain& chain, const Platform& platform) const {
  SolveRequest request{chain, platform, network_.options().solver, {}};
  // Measured times are noisy: rounded, those of the next start have the same cached answer.
  request.options.time_precision = kDefaultTimePrecision;
  return request;
}

// By how much schedules have taken more than predicted is left free beforehand.
int64_t ShapePlanner::LessDeviation(int64_t bytes) const {
  return static_cast<int64_t>(static_cast<double>(bytes) / (1 + deviation_));
}

int64_t ShapePlanner::WithDeviation(int64_t bytes) const {
  return static_cast<int64_t>(std::ceil(static_cast<double>(bytes) * (1 + deviation_)));
}

// Starts to find the shape's own schedule, on another thread.
absl::Status ShapePlanner::StartSolve(ShapePlan* plan, int64_t bytes) {
  PlannerOptions planner;
  planner.servers = network_.options().servers;
  planner.patience_seconds = network_.options().patience_seconds;
  planner.credentials = network_.options().credentials;
  planner.plan_cache = network_.options().plan_cache;
  ASSIGN_OR_RETURN(const Platform platform, network_.PlatformWithin(bytes));
  SolveRequest request = RequestFor(plan->chain, platform);
  // Each try has a plan file of its own, so that a restart finds them all.
  if (++plan->solves > 1) absl::StrAppend(&request.chain.name, ", try ", plan->solves);
  network_.Progress(
      absl::StrCat("finding a schedule within ", FormatBytes(bytes), " for input ", plan->shape));
  plan->pending_bytes = bytes;
  plan->pending = std::make_unique<PendingPlan>(std::move(planner), std::move(request));
  return absl::OkStatus();
}

absl::Status ShapePlanner::FinishSolve(ShapePlan* plan, const TorchInput& input,
                                       const TorchLoss& loss) {
  const bool waits = plan->scheduled == nullptr;
  do {
    while (!plan->pending->ReadyWithin(1)) network_.Progress("still finding a schedule");
    absl::StatusOr<PlannedAnswer> planned = plan->pending->Take();
    plan->pending = nullptr;
    if (planned.ok()) {
      for (const std::string& note : planned->notes)
        network_.Progress(absl::StrCat("note: ", note));
      RETURN_IF_ERROR(Adopt(*std::move(planned), plan, input, loss));
    } else if (waits) {
      return planned.status();
    } else {
      network_.Progress(absl::StrCat("note: ", planned.status().message()));
    }
  } while (waits && plan->scheduled == nullptr);
  return absl::OkStatus();
}

// Runs the shape's steps under its own schedule if they take no more than the budget; else starts
// to find another one, or fails if there is none and none is used meanwhile.
absl::Status ShapePlanner::Adopt(PlannedAnswer planned, ShapePlan* plan, const TorchInput& input,
                                 const TorchLoss& loss) {
  const std::shared_ptr<const Answer> answer = planned.result.answer;
  if (answer->outcome == Outcome::kInfeasible) return StartLeast(*answer, plan);
  ASSIGN_OR_RETURN(const Platform platform, network_.PlatformWithin(plan->pending_bytes));
  const int64_t predicted_bytes = answer->prediction.peak_memory_bytes;
  ASSIGN_OR_RETURN(const Trial trial, RunUnder(std::move(planned), platform, plan, input, loss));
  if (trial.fits()) {
    plan->borrowed_from.clear();
    return absl::OkStatus();
  }
  if (trial.ran_out.ok()) {
    const int64_t peak_bytes = budget_bytes() + trial.over_bytes;
    plan->excess_bytes = std::max(plan->excess_bytes, peak_bytes - predicted_bytes);
  }
  if (plan->least_bytes > 0) return LeastDoesNotFit(*plan, trial);
  if (plan->solves >= kMaxSolves) {
    return trial.ran_out.ok() || plan->scheduled != nullptr ? StartLeast(*answer, plan)
                                                            : NotMeasured(trial);
  }
  int64_t less_bytes = plan->pending_bytes;
  if (trial.ran_out.ok()) {
    RaiseDeviation(trial.over_bytes, predicted_bytes);
    // It may be far below what it was asked to fit, and would be found again.
    less_bytes = predicted_bytes - trial.over_bytes;
  } else {
    less_bytes -= static_cast<int64_t>(kUnknownExcess * static_cast<double>(budget_bytes())) + 1;
  }
  less_bytes = std::min(LessDeviation(budget_bytes()), less_bytes);
  return less_bytes > 0 ? StartSolve(plan, less_bytes) : StartLeast(*answer, plan);
}

// After others than `answer` have failed: starts to find the schedule that takes the least
// memory, even more than the budget, since only a measurement tells what is enough. A shape that
// has another schedule keeps that one.
absl::Status ShapePlanner::StartLeast(const Answer& answer, ShapePlan* plan) {
  if (plan->scheduled != nullptr) return absl::OkStatus();
  const int64_t bytes = answer.minimum_memory_bytes.value_or(FloorOfMemory(plan->chain).bytes);
  const bool tried = plan->least_bytes >= bytes;
  if (tried || bytes > network_.usable_bytes()) {
    return NothingFits(WithDeviation(bytes));
  }
  plan->least_bytes = bytes;
  return StartSolve(plan, bytes);
}

// `trial`: of the schedule that StartLeast() has found.
absl::Status ShapePlanner::LeastDoesNotFit(const ShapePlan& plan, const Trial& trial) const {
  if (trial.ran_out.ok()) {
    // Of the next start's schedule another part may be beside the chain's values.
    return NothingFits(
        std::max(budget_bytes() + trial.over_bytes, plan.least_bytes + plan.excess_bytes));
  }
  return plan.least_bytes <= budget_bytes() ? NotMeasured(trial)
                                            : NothingFits(WithDeviation(plan.least_bytes));
}

// Of the schedules of other shapes that fit this one, takes the fastest.
absl::Status ShapePlanner::BorrowSchedule(const std::list<ShapePlan>& others, ShapePlan* plan,
                                          const TorchInput& input, const TorchLoss& loss) {
  struct Borrowable {
    PlannedAnswer planned;
    std::string shape;
  };
  ASSIGN_OR_RETURN(const Platform platform, network_.PlatformWithin(budget_bytes()));
  const SolveRequest request = RequestFor(plan->chain, platform);
  if (!RequestViolations(request).empty()) return absl::OkStatus();
  std::vector<Borrowable> candidates;
  for (const ShapePlan& other : others) {
    if (!other.planned.has_value() || !other.borrowed_from.empty()) continue;
    std::optional<Answer> answer = UnlessOutOfMemory(
        [&] {
          return ReuseAnswer(request, ChainUnits(request.chain), *other.planned->result.answer);
        },
        std::nullopt);
    if (!answer.has_value()) continue;
    candidates.push_back({*other.planned, other.shape});
    candidates.back().planned.result.answer = std::make_shared<const Answer>(*std::move(answer));
  }
  std::sort(candidates.begin(), candidates.end(), [](const auto& one, const auto& other) {
    return one.planned.result.answer->prediction.makespan_seconds <
           other.planned.result.answer->prediction.makespan_seconds;
  });
  for (Borrowable& candidate : candidates) {
    plan->borrowed_from = candidate.shape;
    ASSIGN_OR_RETURN(const Trial trial,
                     RunUnder(std::move(candidate.planned), platform, plan, input, loss));
    if (trial.fits()) return absl::OkStatus();
  }
  plan->borrowed_from.clear();
  return absl::OkStatus();
}

// In steps, so that the next start asks for the same.
void ShapePlanner::RaiseDeviation(int64_t over_bytes, int64_t predicted_bytes) {
  constexpr double kStep = 0.001;
  deviation_ =
      std::max(deviation_, kStep * std::ceil(static_cast<double>(over_bytes) /
                                             static_cast<double>(predicted_bytes) / kStep));
}

// `last`: of the schedules that were found.
absl::Status ShapePlanner::NotMeasured(const Trial& last) const {
  return absl::ResourceExhaustedError(
      absl::StrCat("no schedule within memory = ", FormatBytes(budget_bytes()),
                   " could be measured: ", last.ran_out.message()));
}

absl::Status ShapePlanner::NothingFits(int64_t least_bytes) const {
  return absl::ResourceExhaustedError(
      absl::StrCat("no schedule fits within memory = ", FormatBytes(budget_bytes()), "; ",
                   least_bytes, " bytes (", FormatBytes(least_bytes), ") are the least that does"));
}

// Measures a step under a schedule. If it is within the budget, the shape's further steps run
// like it.
absl::StatusOr<ShapePlanner::Trial> ShapePlanner::RunUnder(PlannedAnswer planned,
                                                           const Platform& platform,
                                                           ShapePlan* plan, const TorchInput& input,
                                                           const TorchLoss& loss) {
  ASSIGN_OR_RETURN(FrameworkPlan made,
                   MakeFrameworkPlan(plan->chain, platform, planned.result.answer->schedule));
  std::vector<TorchStage> in_modes = network_.stages();
  if (network_.options().graph_mode) {
    ASSIGN_OR_RETURN(in_modes, InModes(network_.stages(), made.execution));
  }
  TorchStages stages = network_.ToRun(std::move(in_modes));
  for (size_t i = 0; i < plan->save_options.size(); ++i) {
    stages.SetSaveOptions(static_cast<int>(i) + 1, plan->save_options[i]);
  }
  ASSIGN_OR_RETURN(std::unique_ptr<ScheduledSteps> scheduled,
                   ScheduledSteps::Create(std::move(made), std::move(stages), network_.device(),
                                          network_.meter()));
  scheduled->VerifyNext(network_.options().verify ? kVerifiedSteps : 0);
  const absl::StatusOr<int64_t> peak_bytes = scheduled->PeakBytes(input, loss);
  network_.meter()->ReturnFreed();
  if (absl::IsResourceExhausted(peak_bytes.status())) {
    return Trial{.ran_out = peak_bytes.status()};
  }
  RETURN_IF_ERROR(peak_bytes.status());
  if (*peak_bytes > budget_bytes()) return Trial{.over_bytes = *peak_bytes - budget_bytes()};
  plan->scheduled = std::move(scheduled);
  plan->commands = &plan->scheduled->plan();
  plan->platform = platform;
  plan->planned = std::move(planned);
  return Trial();
}

}  // namespace stowage
