// A plan is made at the first step of each shape of input: profile, measure plain training where it
// may fit, else find a schedule. That is measured, too, before a step runs under it: one that takes
// more than the budget is solved for again, with less. Schedules of other shapes that fit serve
// meanwhile; all that another thread does is to find one, since measuring needs the network.
// Invariant: what a step takes, the input included, was measured to be within the budget.
#include "client/torch/fit.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <list>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/agent/plan.h"
#include "client/lib/memory_budget.h"
#include "client/lib/pending_plan.h"
#include "client/lib/planner.h"
#include "client/torch/graph_mode.h"
#include "client/torch/join_stages.h"
#include "client/torch/memory_meter.h"
#include "client/torch/plain_step.h"
#include "client/torch/profiler.h"
#include "client/torch/save_options.h"
#include "client/torch/scheduled_steps.h"
#include "client/torch/shape_plan.h"
#include "client/torch/torch_device.h"
#include "solver/base/prefixed.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"
#include "solver/bounds/memory_range.h"
#include "solver/solve/answer_request.h"
#include "solver/solve/request_violations.h"

namespace stowage {
namespace {

constexpr size_t kMaxPlans = 8;  // each holds its copies in host memory
constexpr int kVerifiedSteps = 2;
constexpr int kMaxSolves = 4;  // of one shape, each for less memory than the one before
// By how much a shape's budget is reduced where a trial is out of memory, so that its peak is
// unknown: whoever took the memory, a schedule with less of it may fit.
constexpr double kUnknownExcess = 0.03;
// Plain training took down to three quarters of what the chain takes that stores everything.
constexpr double kLeastOfPlain = 0.5;

[[noreturn]] void Throw(const absl::Status& status) {
  const std::string message(status.message());
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
      C10_THROW_ERROR(ValueError, message);
    case absl::StatusCode::kResourceExhausted:
      C10_THROW_ERROR(OutOfMemoryError, message);
    default:
      C10_THROW_ERROR(Error, message);
  }
}

template <typename Value>
Value OrThrow(absl::StatusOr<Value> value) {
  if (!value.ok()) Throw(value.status());
  return *std::move(value);
}

// "8x3x32x32 float".
std::string ShapeOf(const at::Tensor& tensor) {
  return absl::StrCat(absl::StrJoin(tensor.sizes(), "x"), " ", c10::toString(tensor.scalar_type()));
}

// "8x512 Long, mask 8x512 Bool".
std::string ShapeOf(const TorchInput& input) {
  std::string shape = ShapeOf(input.tensor);
  for (const auto& [name, tensor] : input.sides) {
    absl::StrAppend(&shape, ", ", name, " ", ShapeOf(tensor));
  }
  return shape;
}

// What a schedule that stores everything would take if a skip counted in one value, as it does in
// plain training.
int64_t StoreAllOnceBytes(const TorchStages& stages, Chain chain) {
  for (int l = 1; l <= chain.length(); ++l) {
    Stage& stage = chain.stages[static_cast<size_t>(l) - 1];
    stage.saved_bytes = std::max<int64_t>(stage.saved_bytes - stages.passed_bytes(l), 0);
    stage.output_bytes = std::min(stage.output_bytes, stage.saved_bytes);
  }
  return StoreAllPeakBytes(chain);
}

}  // namespace

class Fit::Parts {
 public:
  static absl::StatusOr<std::unique_ptr<Parts>> Create(std::vector<TorchStage> stages,
                                                       const TorchInput& input,
                                                       const TorchLoss& loss,
                                                       const FitOptions& options) {
    auto parts = std::make_unique<Parts>(options);
    RETURN_IF_ERROR(parts->Open(std::move(stages), input, loss));
    RETURN_IF_ERROR(parts->PlanFor(input, loss).status());
    return parts;
  }
  explicit Parts(const FitOptions& options) : options_(options) {}

  absl::StatusOr<MeasuredStep> TimedStepOf(const TorchInput& input, const TorchLoss& loss) {
    RETURN_IF_ERROR(CheckFed(input, loss));
    ASSIGN_OR_RETURN(ShapePlan* const plan, PlanFor(input, loss));
    if (plan->scheduled != nullptr) return plan->scheduled->Timed(input, loss);
    return absl::InvalidArgumentError("a step is plain training, of which nothing is timed");
  }

  const FitPlan& LastPlan() const { return plans_.front(); }

  absl::StatusOr<at::Tensor> Step(const TorchInput& input, const TorchLoss& loss) {
    RETURN_IF_ERROR(CheckFed(input, loss));
    ASSIGN_OR_RETURN(ShapePlan* const plan, PlanFor(input, loss));
    const int64_t gradient_bytes = GradientBytes();
    const int64_t before_bytes = meter_->LiveBytes();
    meter_->ResetPeak();
    ASSIGN_OR_RETURN(const StepResult result, plan->scheduled == nullptr
                                                  ? RunPlain(input, loss)
                                                  : plan->scheduled->Step(input, loss));
    // A schedule's memory includes the input, which the caller has already.
    plan->steps.Add(result.seconds, meter_->PeakBytes() - before_bytes + StridedBytes(input.tensor),
                    GradientBytes() - gradient_bytes);
    return result.loss;
  }

  std::string Summary() const {
    std::string text = absl::StrCat(stages_.size(), " stages",
                                    joined_.empty() ? "" : "; joined, since they work in place: ",
                                    absl::StrJoin(joined_, ", "));
    if (joins_loss_) {
      absl::StrAppend(
          &text, "; joined with the loss, which does not keep its input: ", stages_.back().name);
    }
    text += "\n";
    for (const ShapePlan& plan : plans_) text += SummaryOf(plan, options_.servers);
    return text;
  }

  std::string Report() const {
    std::string text;
    for (const ShapePlan& plan : plans_) text += ReportOf(plan);
    return text;
  }

 private:
  // Of a schedule.
  struct Trial {
    int64_t over_bytes = 0;  // beyond the budget
    // Of a step that found the device full, so that its peak is not known.
    absl::Status ran_out = absl::OkStatus();

    bool fits() const { return ran_out.ok() && over_bytes == 0; }
  };

  // What a plan depends on beside the input: the training modes of all modules, and which
  // parameters are trained.
  std::vector<bool> State() const {
    std::vector<bool> state;
    for (const TorchStage& stage : stages_) {
      if (stage.module == nullptr) continue;
      for (const auto& module : stage.module->modules()) state.push_back(module->is_training());
    }
    for (const at::Tensor& parameter : parameters_) state.push_back(parameter.requires_grad());
    return state;
  }

  // Of the parameters' gradients that exist.
  int64_t GradientBytes() const {
    int64_t bytes = 0;
    for (const at::Tensor& parameter : parameters_) {
      if (parameter.grad().defined()) bytes += StridedBytes(parameter.grad());
    }
    return bytes;
  }

  void Progress(const std::string& what) const {
    if (options_.progress) options_.progress(what);
  }

  // Of the profiler: tells at most once a second.
  std::function<void(int stage)> StageProgress() const {
    const auto told = std::make_shared<absl::Time>(absl::Now());
    return [this, told](int stage) {
      if (absl::Now() < *told + absl::Seconds(1)) return;
      *told = absl::Now();
      Progress(absl::StrCat("profiling stage ", stage, " of ", stages_.size()));
    };
  }

  static absl::Status CheckFed(const TorchInput& input, const TorchLoss& loss) {
    if (!input.tensor.defined()) {
      return absl::InvalidArgumentError("input: is an undefined tensor");
    }
    for (const auto& [name, tensor] : input.sides) {
      if (tensor.defined() && !tensor.requires_grad()) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "side input ", name,
          tensor.defined() ? ": requires a gradient, which it does not get; detach() it"
                           : ": is undefined"));
    }
    if (input.tensor.requires_grad()) {
      return absl::InvalidArgumentError(
          "input: requires a gradient, which a step does not pass on: make what computes it the "
          "first stage, or detach() it");
    }
    if (loss == nullptr) return absl::InvalidArgumentError("loss: is no function");
    return absl::OkStatus();
  }

  // What is wrong with the options, before anything is measured.
  absl::Status CheckOptions() const {
    if (options_.memory != "all") {
      Chain any;
      any.stages.resize(1);
      RETURN_IF_ERROR(Prefixed("memory", ParseBudget(options_.memory, any).status()));
    }
    if (options_.save_options && options_.graph_mode) {
      return absl::InvalidArgumentError(
          "save_options: a stage in graph mode has none; leave graph_mode or save_options out");
    }
    return ViolationsStatus(SolverViolations(options_.solver));
  }

  absl::Status Open(std::vector<TorchStage> stages, const TorchInput& input,
                    const TorchLoss& loss) {
    RETURN_IF_ERROR(CheckFed(input, loss));
    RETURN_IF_ERROR(CheckOptions());
    if (stages.empty()) return absl::InvalidArgumentError("network: has no stage");
    meter_ = &MemoryOf(input.tensor.device());
    ASSIGN_OR_RETURN(device_, OpenDevice(input.tensor.device().str(), LinkSpeed()));
    const size_t count = stages.size();
    ASSIGN_OR_RETURN(stages_, JoinWhereInPlace(std::move(stages), input));
    parameters_ = StagesToRun().Parameters();
    if (stages_.size() > 1 && !options_.graph_mode) {
      ASSIGN_OR_RETURN(const bool keeps, LossKeepsItsInput(stages_, input, loss));
      joins_loss_ = !keeps;
    }
    if (stages_.size() == count) return absl::OkStatus();
    for (const TorchStage& stage : stages_) {
      if (absl::StrContains(stage.name, "..")) joined_.push_back(stage.name);
    }
    return absl::OkStatus();
  }

  SolveRequest RequestFor(const Chain& chain, const Platform& platform) const {
    SolveRequest request{chain, platform, options_.solver, {}};
    // Measured times are noisy: rounded, those of the next start have the same cached answer.
    request.options.time_precision = kDefaultTimePrecision;
    return request;
  }

  TorchStages StagesToRun() const { return StagesToRun(stages_); }
  TorchStages StagesToRun(std::vector<TorchStage> stages) const {
    return {
        std::move(stages),
        {.device = device_.torch, .granularity = meter_->Granularity(), .joins_loss = joins_loss_}};
  }

  // The plan used last is the first.
  absl::StatusOr<ShapePlan*> PlanFor(const TorchInput& input, const TorchLoss& loss) {
    const std::string shape = ShapeOf(input);
    const std::vector<bool> state = State();
    const auto found = std::find_if(plans_.begin(), plans_.end(), [&](const ShapePlan& plan) {
      return plan.shape == shape && plan.state == state;
    });
    if (found != plans_.end()) {
      plans_.splice(plans_.begin(), plans_, found);
      ShapePlan& plan = plans_.front();
      if (plan.pending != nullptr && plan.pending->ReadyWithin(0)) {
        RETURN_IF_ERROR(Prefixed(absl::StrCat("input ", shape), FinishSolve(&plan, input, loss)));
      }
      return &plan;
    }
    absl::StatusOr<ShapePlan> made = MakePlan(input, loss);
    if (!made.ok()) return Prefixed(absl::StrCat("input ", shape), made.status());
    plans_.push_front(*std::move(made));
    if (plans_.size() > kMaxPlans) plans_.pop_back();
    return &plans_.front();
  }

  // After each measurement what it has freed is returned: a heap in the pieces of all of them would
  // take more resident memory than plain training does.
  absl::StatusOr<ShapePlan> MakePlan(const TorchInput& input, const TorchLoss& loss) {
    ShapePlan plan;
    plan.shape = ShapeOf(input);
    plan.state = State();
    TorchStages stages = StagesToRun();
    stages.Feed(input, loss);
    Progress(absl::StrCat("profiling ", stages_.size(), " stages for input ", plan.shape));
    ASSIGN_OR_RETURN(plan.chain, ProfileChain(&stages, device_.agent.get(), meter_,
                                              {.graph_mode = options_.graph_mode,
                                               .stays_on_device = !Offloads(),
                                               .progress = StageProgress()}));
    meter_->ReturnFreed();
    // In plan files, which are named after it.
    plan.chain.name =
        absl::StrCat(stages_.front().name, " to ", stages_.back().name, ", ", plan.shape);
    if (budget_bytes_ == 0) RETURN_IF_ERROR(SetBudget(stages, plan.chain));
    plan.budget_bytes = budget_bytes_;
    plan.platform.memory_bytes = budget_bytes_;
    if (kLeastOfPlain * static_cast<double>(StoreAllOnceBytes(stages, plan.chain)) <=
        static_cast<double>(budget_bytes_)) {
      const absl::StatusOr<int64_t> plain = PlainPeakBytes(stages_, input, loss, meter_);
      if (!plain.ok() && !absl::IsResourceExhausted(plain.status())) return plain.status();
      if (plain.ok()) plan.plain_bytes = *plain;
      meter_->ReturnFreed();
    }
    if (plan.plain_bytes.has_value() && *plan.plain_bytes <= budget_bytes_) return plan;
    if (options_.save_options) {
      stages.Feed(input, loss);
      RETURN_IF_ERROR(AddSaveOptions(&stages, &plan));
    }
    RETURN_IF_ERROR(StartSolve(&plan, LessDeviation(budget_bytes_)));
    RETURN_IF_ERROR(BorrowSchedule(&plan, input, loss));
    if (plan.scheduled == nullptr) RETURN_IF_ERROR(FinishSolve(&plan, input, loss));
    return plan;
  }

  absl::Status AddSaveOptions(TorchStages* stages, ShapePlan* plan) {
    Progress(absl::StrCat("finding further ways to save each of ", stages->length(), " stages"));
    RETURN_IF_ERROR(FindSaveOptions(stages, device_.agent.get(), meter_,
                                    {.stays_on_device = !Offloads(), .progress = StageProgress()},
                                    &plan->chain));
    meter_->ReturnFreed();
    for (int l = 1; l <= stages->length(); ++l) {
      plan->save_options.push_back(stages->stage(l).save_options);
    }
    return absl::OkStatus();
  }

  absl::Status SetBudget(const TorchStages& stages, const Chain& chain) {
    if (options_.memory == "all") {
      const MemoryBudget budget = BudgetOf(stages, {.device_bytes = device_.memory_bytes,
                                                    .context_bytes = device_.used_bytes,
                                                    .optimizer_copies = options_.optimizer_copies});
      // Weights and buffers exist, so the device's memory in use includes them.
      budget_bytes_ = budget.activation_bytes();
      for (const auto& tensors : {stages.Parameters(), stages.Buffers()}) {
        for (const at::Tensor& tensor : tensors) budget_bytes_ += StridedBytes(tensor);
      }
    } else {
      const absl::StatusOr<int64_t> bytes = ParseBudget(options_.memory, chain);
      if (!bytes.ok()) return Prefixed("memory", bytes.status());
      budget_bytes_ = *bytes;
    }
    if (budget_bytes_ > 0) return absl::OkStatus();
    budget_bytes_ = 0;
    return absl::ResourceExhaustedError("memory: nothing is left of the device for activations");
  }

  bool Offloads() const { return options_.offload.value_or(!device_.torch.is_cpu()); }

  // Without bandwidths where nothing is to be offloaded.
  absl::StatusOr<Platform> PlatformWithin(int64_t memory_bytes) {
    Platform platform;
    if (Offloads()) {
      if (!link_.has_value()) {
        Progress("measuring the link to the host");
        ASSIGN_OR_RETURN(link_, ProfileLink(device_.agent.get()));
      }
      platform = *link_;
    }
    platform.memory_bytes = memory_bytes;
    return platform;
  }

  // By how much schedules have taken more than predicted is left free beforehand.
  int64_t LessDeviation(int64_t bytes) const {
    return static_cast<int64_t>(static_cast<double>(bytes) / (1 + deviation_));
  }

  int64_t WithDeviation(int64_t bytes) const {
    return static_cast<int64_t>(std::ceil(static_cast<double>(bytes) * (1 + deviation_)));
  }

  // Starts to find the shape's own schedule, on another thread.
  absl::Status StartSolve(ShapePlan* plan, int64_t bytes) {
    PlannerOptions planner;
    planner.servers = options_.servers;
    planner.patience_seconds = options_.patience_seconds;
    planner.credentials = options_.credentials;
    planner.plan_cache = options_.plan_cache;
    ASSIGN_OR_RETURN(const Platform platform, PlatformWithin(bytes));
    SolveRequest request = RequestFor(plan->chain, platform);
    // Each try has a plan file of its own, so that a restart finds them all.
    if (++plan->solves > 1) absl::StrAppend(&request.chain.name, ", try ", plan->solves);
    Progress(
        absl::StrCat("finding a schedule within ", FormatBytes(bytes), " for input ", plan->shape));
    plan->pending_bytes = bytes;
    plan->pending = std::make_unique<PendingPlan>(std::move(planner), std::move(request));
    return absl::OkStatus();
  }

  // Waits for the shape's schedule and measures it. Where it takes too much, starts again: for a
  // shape that has another one meanwhile without waiting.
  absl::Status FinishSolve(ShapePlan* plan, const TorchInput& input, const TorchLoss& loss) {
    const bool waits = plan->scheduled == nullptr;
    do {
      while (!plan->pending->ReadyWithin(1)) Progress("still finding a schedule");
      absl::StatusOr<PlannedAnswer> planned = plan->pending->Take();
      plan->pending = nullptr;
      if (planned.ok()) {
        for (const std::string& note : planned->notes) Progress(absl::StrCat("note: ", note));
        RETURN_IF_ERROR(Adopt(*std::move(planned), plan, input, loss));
      } else if (waits) {
        return planned.status();
      } else {
        Progress(absl::StrCat("note: ", planned.status().message()));
      }
    } while (waits && plan->scheduled == nullptr);
    return absl::OkStatus();
  }

  // Runs the shape's steps under its own schedule if they take no more than the budget; else starts
  // to find another one, or fails if there is none and none is used meanwhile.
  absl::Status Adopt(PlannedAnswer planned, ShapePlan* plan, const TorchInput& input,
                     const TorchLoss& loss) {
    const std::shared_ptr<const Answer> answer = planned.result.answer;
    if (answer->outcome == Outcome::kInfeasible) return StartLeast(*answer, plan);
    ASSIGN_OR_RETURN(const Platform platform, PlatformWithin(plan->pending_bytes));
    const int64_t predicted_bytes = answer->prediction.peak_memory_bytes;
    ASSIGN_OR_RETURN(const Trial trial, RunUnder(std::move(planned), platform, plan, input, loss));
    if (trial.fits()) {
      plan->borrowed_from.clear();
      return absl::OkStatus();
    }
    if (trial.ran_out.ok()) {
      const int64_t peak_bytes = budget_bytes_ + trial.over_bytes;
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
      less_bytes -= static_cast<int64_t>(kUnknownExcess * static_cast<double>(budget_bytes_)) + 1;
    }
    less_bytes = std::min(LessDeviation(budget_bytes_), less_bytes);
    return less_bytes > 0 ? StartSolve(plan, less_bytes) : StartLeast(*answer, plan);
  }

  // After others than `answer` have failed: starts to find the schedule that takes the least
  // memory, even more than the budget, since only a measurement tells what is enough. A shape that
  // has another schedule keeps that one.
  absl::Status StartLeast(const Answer& answer, ShapePlan* plan) {
    if (plan->scheduled != nullptr) return absl::OkStatus();
    const int64_t bytes = answer.minimum_memory_bytes.value_or(FloorOfMemory(plan->chain).bytes);
    const bool tried = plan->least_bytes >= bytes;
    if (tried || bytes > device_.memory_bytes - device_.used_bytes) {
      return NothingFits(WithDeviation(bytes));
    }
    plan->least_bytes = bytes;
    return StartSolve(plan, bytes);
  }

  // `trial`: of the schedule that StartLeast() has found.
  absl::Status LeastDoesNotFit(const ShapePlan& plan, const Trial& trial) const {
    if (trial.ran_out.ok()) {
      // Of the next start's schedule another part may be beside the chain's values.
      return NothingFits(
          std::max(budget_bytes_ + trial.over_bytes, plan.least_bytes + plan.excess_bytes));
    }
    return plan.least_bytes <= budget_bytes_ ? NotMeasured(trial)
                                             : NothingFits(WithDeviation(plan.least_bytes));
  }

  // Of the schedules of other shapes that fit this one, takes the fastest.
  absl::Status BorrowSchedule(ShapePlan* plan, const TorchInput& input, const TorchLoss& loss) {
    struct Borrowable {
      PlannedAnswer planned;
      std::string shape;
    };
    ASSIGN_OR_RETURN(const Platform platform, PlatformWithin(budget_bytes_));
    const SolveRequest request = RequestFor(plan->chain, platform);
    if (!RequestViolations(request).empty()) return absl::OkStatus();
    std::vector<Borrowable> candidates;
    for (const ShapePlan& other : plans_) {
      if (!other.planned.has_value() || !other.borrowed_from.empty()) continue;
      std::optional<Answer> answer =
          ReuseAnswer(request, *other.planned->result.answer, SameInstance::kRounded);
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
  void RaiseDeviation(int64_t over_bytes, int64_t predicted_bytes) {
    constexpr double kStep = 0.001;
    deviation_ =
        std::max(deviation_, kStep * std::ceil(static_cast<double>(over_bytes) /
                                               static_cast<double>(predicted_bytes) / kStep));
  }

  // `last`: of the schedules that were found.
  absl::Status NotMeasured(const Trial& last) const {
    return absl::ResourceExhaustedError(
        absl::StrCat("no schedule within memory = ", FormatBytes(budget_bytes_),
                     " could be measured: ", last.ran_out.message()));
  }

  absl::Status NothingFits(int64_t least_bytes) const {
    return absl::ResourceExhaustedError(absl::StrCat(
        "no schedule fits within memory = ", FormatBytes(budget_bytes_), "; ", least_bytes,
        " bytes (", FormatBytes(least_bytes), ") are the least that does"));
  }

  // Measures a step under a schedule. If it is within the budget, the shape's further steps run
  // like it.
  absl::StatusOr<Trial> RunUnder(PlannedAnswer planned, const Platform& platform, ShapePlan* plan,
                                 const TorchInput& input, const TorchLoss& loss) {
    ASSIGN_OR_RETURN(FrameworkPlan made,
                     MakeFrameworkPlan(plan->chain, platform, planned.result.answer->schedule));
    std::vector<TorchStage> in_modes = stages_;
    if (options_.graph_mode) {
      ASSIGN_OR_RETURN(in_modes, InModes(stages_, made.execution));
    }
    TorchStages stages = StagesToRun(std::move(in_modes));
    for (size_t i = 0; i < plan->save_options.size(); ++i) {
      stages.SetSaveOptions(static_cast<int>(i) + 1, plan->save_options[i]);
    }
    ASSIGN_OR_RETURN(
        std::unique_ptr<ScheduledSteps> scheduled,
        ScheduledSteps::Create(std::move(made), std::move(stages), device_.agent.get(), meter_));
    scheduled->VerifyNext(options_.verify ? kVerifiedSteps : 0);
    const absl::StatusOr<int64_t> peak_bytes = scheduled->PeakBytes(input, loss);
    meter_->ReturnFreed();
    if (absl::IsResourceExhausted(peak_bytes.status())) {
      return Trial{.ran_out = peak_bytes.status()};
    }
    RETURN_IF_ERROR(peak_bytes.status());
    if (*peak_bytes > budget_bytes_) return Trial{.over_bytes = *peak_bytes - budget_bytes_};
    plan->scheduled = std::move(scheduled);
    plan->commands = &plan->scheduled->plan();
    plan->platform = platform;
    plan->planned = std::move(planned);
    return Trial();
  }

  // Timed on the device's queue, which is LibTorch's current stream on a GPU.
  absl::StatusOr<StepResult> RunPlain(const TorchInput& input, const TorchLoss& loss) {
    ASSIGN_OR_RETURN(const auto begin, device_.agent->Record(Queue::kCompute));
    StepResult result;
    ASSIGN_OR_RETURN(result.loss, PlainStep(stages_, input, loss));
    ASSIGN_OR_RETURN(const auto end, device_.agent->Record(Queue::kCompute));
    RETURN_IF_ERROR(device_.agent->Synchronize());
    result.seconds = end->Seconds() - begin->Seconds();
    return result;
  }

  const FitOptions options_;
  MemoryMeter* meter_ = nullptr;
  TorchDevice device_;
  std::vector<TorchStage> stages_;
  std::vector<at::Tensor> parameters_;
  std::vector<std::string> joined_;  // names
  bool joins_loss_ = false;
  int64_t budget_bytes_ = 0;  // 0: not known yet
  std::optional<Platform> link_;
  // The most by which a schedule was measured to take more than the budget, relatively.
  double deviation_ = 0;
  std::list<ShapePlan> plans_;
};

Fit::Fit(torch::nn::Sequential network, const TorchInput& input, const TorchLoss& loss,
         const FitOptions& options)
    : Fit(StagesOf(std::move(network)), input, loss, options) {}

Fit::Fit(std::vector<TorchStage> stages, const TorchInput& input, const TorchLoss& loss,
         const FitOptions& options)
    : parts_(OrThrow(Parts::Create(std::move(stages), input, loss, options))) {}

Fit::~Fit() = default;
Fit::Fit(Fit&& other) noexcept = default;
Fit& Fit::operator=(Fit&& other) noexcept = default;

at::Tensor Fit::step(const TorchInput& input, const TorchLoss& loss) {
  return OrThrow(parts_->Step(input, loss));
}

MeasuredStep Fit::timed_step(const TorchInput& input, const TorchLoss& loss) {
  return OrThrow(parts_->TimedStepOf(input, loss));
}

const FitPlan& Fit::plan() const { return parts_->LastPlan(); }

std::string Fit::summary() const { return parts_->Summary(); }

std::string Fit::report() const { return parts_->Report(); }

}  // namespace stowage
