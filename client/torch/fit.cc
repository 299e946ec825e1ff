// A plan is made at the first step of each shape of input: profile, measure plain training where it
// may fit, solve for a little less than the budget otherwise. Invariant: what a step takes, the
// input included, is within the budget, up to what a measurement deviates.
#include "client/torch/fit.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/agent/executor.h"
#include "client/agent/plan.h"
#include "client/lib/memory_budget.h"
#include "client/lib/planner.h"
#include "client/torch/join_stages.h"
#include "client/torch/memory_meter.h"
#include "client/torch/plain_step.h"
#include "client/torch/profiler.h"
#include "client/torch/torch_device.h"
#include "solver/base/prefixed.h"
#include "solver/base/quantile.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"
#include "solver/bounds/memory_range.h"
#include "solver/solve/request_violations.h"

namespace stowage {
namespace {

constexpr size_t kMaxPlans = 8;       // each holds its copies in host memory
constexpr size_t kMaxSamples = 1000;  // of steps, the last ones
// Peaks of schedules were measured up to 2.3 % above their predictions.
constexpr double kSlack = 0.03;
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

// "2 stages recomputed, 1 offloaded".
std::string FatesText(const Explanation& explanation) {
  const auto count = [&](const auto& has) {
    return std::count_if(explanation.stages.begin(), explanation.stages.end(), has);
  };
  return absl::StrCat(count([](const StageFate& fate) { return fate.recomputed > 0; }), " of ",
                      explanation.stages.size(), " stages recomputed, ",
                      count([](const StageFate& fate) { return fate.offloaded > 0; }),
                      " offloaded");
}

// What steps took.
class Steps {
 public:
  // `gradient_bytes`: of the peak, gradients of weights that did not exist before the step.
  void Add(double seconds, int64_t peak_bytes, int64_t gradient_bytes) {
    if (seconds_.size() < kMaxSamples) {
      seconds_.push_back(seconds);
    } else {
      seconds_[static_cast<size_t>(count_) % kMaxSamples] = seconds;
    }
    ++count_;
    peak_bytes_ = std::max(peak_bytes_, peak_bytes);
    gradient_bytes_ = std::max(gradient_bytes_, gradient_bytes);
  }
  // "12 steps, median 1.2 ms (10 % to 90 %: 1.1 ms to 1.5 ms), peak 3.4 MiB".
  std::string Text() const {
    if (count_ == 0) return "no step yet";
    std::vector<double> sorted = seconds_;
    std::sort(sorted.begin(), sorted.end());
    return absl::StrCat(count_, count_ == 1 ? " step" : " steps", ", median ",
                        FormatSeconds(MedianOf(sorted)),
                        " (10 % to 90 %: ", FormatSeconds(QuantileOf(sorted, 0.1)), " to ",
                        FormatSeconds(QuantileOf(sorted, 0.9)), "), peak ",
                        FormatBytes(peak_bytes_), GradientsText());
  }

 private:
  std::string GradientsText() const {
    if (gradient_bytes_ == 0) return "";
    return absl::StrCat(" with up to ", FormatBytes(gradient_bytes_),
                        " of gradients of weights, which the budget does not include");
  }

  int64_t count_ = 0;
  std::vector<double> seconds_;
  int64_t peak_bytes_ = 0;
  int64_t gradient_bytes_ = 0;
};

// How the inputs of one shape are trained.
struct ShapePlan {
  std::string shape = {};
  std::vector<bool> state = {};  // of the network: see Fit::Parts::State()
  Chain chain = {};
  std::optional<int64_t> plain_bytes = {};  // measured; unset: does not fit
  std::string source = {};                  // of the schedule, and what it does
  Steps steps = {};
  // All null for plain training.
  std::unique_ptr<FrameworkPlan> plan = nullptr;
  std::unique_ptr<FrameworkExecutor> executor = nullptr;
  std::unique_ptr<TorchStages> stages = nullptr;
};

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

  absl::StatusOr<at::Tensor> Step(const TorchInput& input, const TorchLoss& loss) {
    RETURN_IF_ERROR(CheckFed(input, loss));
    ASSIGN_OR_RETURN(ShapePlan* const plan, PlanFor(input, loss));
    const int64_t gradient_bytes = GradientBytes();
    const int64_t before_bytes = meter_->LiveBytes();
    meter_->ResetPeak();
    ASSIGN_OR_RETURN(const Result result, Run(plan, input, loss));
    // A schedule's memory includes the input, which the caller has already.
    plan->steps.Add(result.seconds, meter_->PeakBytes() - before_bytes + BytesOf(input.tensor),
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
    for (const ShapePlan& plan : plans_) {
      absl::StrAppend(&text, "input ", plan.shape, "\n  plain training  ", PlainText(plan),
                      "\n  budget          ", FormatBytes(budget_bytes_), "\n  plan            ",
                      PlanText(plan), "\n");
    }
    return text;
  }

  std::string Report() const {
    std::string text;
    for (const ShapePlan& plan : plans_) {
      absl::StrAppend(&text, "input ", plan.shape, ": ", plan.steps.Text());
      if (plan.plan != nullptr) {
        const Prediction& predicted = plan.plan->prediction;
        absl::StrAppend(&text, "; predicted ", FormatSeconds(predicted.makespan_seconds), ", ",
                        FormatBytes(predicted.peak_memory_bytes));
      }
      absl::StrAppend(&text, "\n");
    }
    return text;
  }

 private:
  struct Result {
    at::Tensor loss;
    double seconds = 0;
  };

  // 0 for sparse tensors, of which LibTorch does not tell.
  static int64_t BytesOf(const at::Tensor& tensor) {
    return tensor.layout() == at::kStrided ? static_cast<int64_t>(tensor.nbytes()) : 0;
  }

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
      if (parameter.grad().defined()) bytes += BytesOf(parameter.grad());
    }
    return bytes;
  }

  void Progress(const std::string& what) const {
    if (options_.progress) options_.progress(what);
  }

  static absl::Status CheckFed(const TorchInput& input, const TorchLoss& loss) {
    if (!input.tensor.defined()) {
      return absl::InvalidArgumentError("input: is an undefined tensor");
    }
    for (const auto& [name, tensor] : input.sides) {
      if (tensor.defined()) continue;
      return absl::InvalidArgumentError(absl::StrCat("side input ", name, ": is undefined"));
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
    if (stages_.size() > 1) {
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

  TorchStages StagesToRun() const {
    return {
        stages_,
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
      return &plans_.front();
    }
    absl::StatusOr<ShapePlan> made = MakePlan(input, loss);
    if (!made.ok()) return Prefixed(absl::StrCat("input ", shape), made.status());
    plans_.push_front(*std::move(made));
    if (plans_.size() > kMaxPlans) plans_.pop_back();
    return &plans_.front();
  }

  absl::StatusOr<ShapePlan> MakePlan(const TorchInput& input, const TorchLoss& loss) {
    ShapePlan plan;
    plan.shape = ShapeOf(input);
    plan.state = State();
    TorchStages stages = StagesToRun();
    stages.Feed(input, loss);
    Progress(absl::StrCat("profiling ", stages_.size(), " stages for input ", plan.shape));
    ASSIGN_OR_RETURN(plan.chain, ProfileChain(&stages, device_.agent.get(), meter_,
                                              {.stays_on_device = !Offloads()}));
    // In plan files, which are named after it.
    plan.chain.name =
        absl::StrCat(stages_.front().name, " to ", stages_.back().name, ", ", plan.shape);
    if (budget_bytes_ == 0) RETURN_IF_ERROR(SetBudget(stages, plan.chain));
    if (kLeastOfPlain * static_cast<double>(StoreAllOnceBytes(stages, plan.chain)) <=
        static_cast<double>(budget_bytes_)) {
      const absl::StatusOr<int64_t> plain = PlainPeakBytes(stages_, input, loss, meter_);
      if (!plain.ok() && !absl::IsResourceExhausted(plain.status())) return plain.status();
      if (plain.ok()) plan.plain_bytes = *plain;
    }
    if (plan.plain_bytes.has_value() && *plan.plain_bytes <= budget_bytes_) return plan;
    RETURN_IF_ERROR(FindSchedule(&plan));
    return plan;
  }

  absl::Status SetBudget(const TorchStages& stages, const Chain& chain) {
    if (options_.memory == "all") {
      const MemoryBudget budget = BudgetOf(stages, {.device_bytes = device_.memory_bytes,
                                                    .context_bytes = device_.used_bytes,
                                                    .optimizer_copies = options_.optimizer_copies});
      // Weights and buffers exist, so the device's memory in use includes them.
      budget_bytes_ = budget.activation_bytes();
      for (const auto& tensors : {stages.Parameters(), stages.Buffers()}) {
        for (const at::Tensor& tensor : tensors) budget_bytes_ += BytesOf(tensor);
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

  absl::Status FindSchedule(ShapePlan* plan) {
    PlannerOptions planner;
    planner.servers = options_.servers;
    planner.patience_seconds = options_.patience_seconds;
    planner.plan_cache = options_.plan_cache;
    const auto slack = static_cast<int64_t>(kSlack * static_cast<double>(budget_bytes_));
    // With the slack first; without it where only the whole budget is enough.
    for (const int64_t bytes : {budget_bytes_ - slack, budget_bytes_}) {
      ASSIGN_OR_RETURN(const Platform platform, PlatformWithin(bytes));
      Progress(absl::StrCat("finding a schedule within ", FormatBytes(bytes)));
      ASSIGN_OR_RETURN(const PlannedAnswer planned,
                       FindPlan(planner, RequestFor(plan->chain, platform)));
      for (const std::string& note : planned.notes) Progress(note);
      const Answer& answer = *planned.result.answer;
      if (answer.outcome != Outcome::kInfeasible) return RunUnder(answer, platform, plan);
      if (bytes == budget_bytes_) return NothingFits(answer, plan->chain);
    }
    return absl::OkStatus();
  }

  absl::Status NothingFits(const Answer& answer, const Chain& chain) const {
    const int64_t least = answer.minimum_memory_bytes.value_or(FloorOfMemory(chain).bytes);
    return absl::ResourceExhaustedError(
        absl::StrCat("no schedule fits within memory = ", FormatBytes(budget_bytes_), "; ", least,
                     " bytes (", FormatBytes(least), ") are the least that does"));
  }

  absl::Status RunUnder(const Answer& answer, const Platform& platform, ShapePlan* plan) {
    ASSIGN_OR_RETURN(FrameworkPlan made, MakeFrameworkPlan(plan->chain, platform, answer.schedule));
    plan->plan = std::make_unique<FrameworkPlan>(std::move(made));
    ASSIGN_OR_RETURN(plan->executor,
                     FrameworkExecutor::Create(plan->plan.get(), device_.agent.get()));
    plan->stages = std::make_unique<TorchStages>(StagesToRun());
    plan->source = absl::StrCat(answer.solver, ": ", FatesText(answer.explanation));
    return absl::OkStatus();
  }

  absl::StatusOr<Result> Run(ShapePlan* plan, const TorchInput& input, const TorchLoss& loss) {
    if (plan->plan == nullptr) return RunPlain(input, loss);
    plan->stages->Feed(input, loss);
    // What the caller passed is not kept between steps.
    const auto forget = absl::MakeCleanup([plan] { plan->stages->Feed({}, nullptr); });
    ASSIGN_OR_RETURN(const StepReport report, plan->executor->Step(plan->stages.get()));
    return Result{plan->stages->loss(), report.seconds};
  }

  // Timed on the device's queue, which is LibTorch's current stream on a GPU.
  absl::StatusOr<Result> RunPlain(const TorchInput& input, const TorchLoss& loss) {
    ASSIGN_OR_RETURN(const auto begin, device_.agent->Record(Queue::kCompute));
    Result result;
    ASSIGN_OR_RETURN(result.loss, PlainStep(stages_, input, loss));
    ASSIGN_OR_RETURN(const auto end, device_.agent->Record(Queue::kCompute));
    RETURN_IF_ERROR(device_.agent->Synchronize());
    result.seconds = end->Seconds() - begin->Seconds();
    return result;
  }

  static std::string PlainText(const ShapePlan& plan) {
    if (plan.plain_bytes.has_value()) return FormatBytes(*plan.plain_bytes);
    return absl::StrCat("does not fit; a schedule that stores everything takes ",
                        FormatBytes(StoreAllPeakBytes(plan.chain)));
  }

  static std::string PlanText(const ShapePlan& plan) {
    if (plan.plan == nullptr) return "plain training, which fits";
    const Prediction& predicted = plan.plan->prediction;
    return absl::StrCat(plan.source, "; a step takes ", FormatSeconds(predicted.makespan_seconds),
                        " and ", FormatBytes(predicted.peak_memory_bytes), ", with ",
                        FormatBytes(plan.plan->host.layout.bytes), " of host memory");
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

std::string Fit::summary() const { return parts_->Summary(); }

std::string Fit::report() const { return parts_->Report(); }

}  // namespace stowage
