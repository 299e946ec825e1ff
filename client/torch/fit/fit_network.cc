#include "client/torch/fit/fit_network.h"

#include <ATen/ATen.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/lib/memory_budget.h"
#include "client/torch/join/join_stages.h"
#include "client/torch/profile/device_budget.h"
#include "client/torch/profile/link_profiler.h"
#include "client/torch/profile/plain_step.h"
#include "solver/base/prefixed.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"
#include "solver/bounds/memory_range.h"
#include "solver/solve/request_violations.h"

namespace stowage {

absl::Status CheckFed(const TorchInput& input, const TorchLoss& loss) {
  if (!input.tensor.defined()) {
    return absl::InvalidArgumentError("input: is an undefined tensor");
  }
  for (const auto& [name, tensor] : input.sides) {
    if (tensor.defined() && !tensor.requires_grad()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("side input ", name,
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

absl::StatusOr<std::unique_ptr<FitNetwork>> FitNetwork::Open(std::vector<TorchStage> stages,
                                                             const TorchInput& input,
                                                             const TorchLoss& loss,
                                                             const FitOptions& options) {
  std::unique_ptr<FitNetwork> network(new FitNetwork(options));
  RETURN_IF_ERROR(CheckFed(input, loss));
  RETURN_IF_ERROR(network->CheckOptions());
  if (stages.empty()) return absl::InvalidArgumentError("network: has no stage");
  network->meter_ = &MemoryOf(input.tensor.device());
  ASSIGN_OR_RETURN(network->device_, OpenDevice(input.tensor.device().str(), LinkSpeed()));
  RETURN_IF_ERROR(network->Join(std::move(stages), input, loss));
  return network;
}

// What is wrong with the options, before anything is measured.
absl::Status FitNetwork::CheckOptions() const {
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

absl::Status FitNetwork::Join(std::vector<TorchStage> stages, const TorchInput& input,
                              const TorchLoss& loss) {
  const size_t count = stages.size();
  ASSIGN_OR_RETURN(stages_, JoinWhereInPlace(std::move(stages), input));
  parameters_ = ToRun().Parameters();
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

TorchStages FitNetwork::ToRun(std::vector<TorchStage> stages) const {
  return {
      std::move(stages),
      {.device = device_.torch, .granularity = meter_->Granularity(), .joins_loss = joins_loss_}};
}

std::vector<bool> FitNetwork::State() const {
  std::vector<bool> state;
  for (const TorchStage& stage : stages_) {
    if (stage.module == nullptr) continue;
    for (const auto& module : stage.module->modules()) state.push_back(module->is_training());
  }
  for (const at::Tensor& parameter : parameters_) state.push_back(parameter.requires_grad());
  return state;
}

int64_t FitNetwork::GradientBytes() const {
  int64_t bytes = 0;
  for (const at::Tensor& parameter : parameters_) {
    if (parameter.grad().defined()) bytes += StridedBytes(parameter.grad());
  }
  return bytes;
}

absl::Status FitNetwork::SetBudget(const Chain& chain) {
  if (options_.memory == "all") {
    const TorchStages stages = ToRun();
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

absl::StatusOr<Platform> FitNetwork::PlatformWithin(int64_t memory_bytes) {
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

void FitNetwork::Progress(const std::string& what) const {
  if (options_.progress) options_.progress(what);
}

std::function<void(int stage)> FitNetwork::StageProgress() const {
  const auto told = std::make_shared<absl::Time>(absl::Now());
  return [this, told](int stage) {
    if (absl::Now() < *told + absl::Seconds(1)) return;
    *told = absl::Now();
    Progress(absl::StrCat("profiling stage ", stage, " of ", stages_.size()));
  };
}

std::string FitNetwork::Summary() const {
  std::string text = absl::StrCat(
      stages_.size(), " stages",
      joined_.empty() ? "" : "; joined, since they work in place: ", absl::StrJoin(joined_, ", "));
  if (joins_loss_) {
    absl::StrAppend(&text,
                    "; joined with the loss, which does not keep its input: ", stages_.back().name);
  }
  return text + "\n";
}

}  // namespace stowage
