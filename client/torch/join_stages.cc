#include "client/torch/join_stages.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/torch/replay.h"
#include "client/torch/torch_guarded.h"
#include "solver/base/prefixed.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

// By stage: whether it writes into its input. Holds one value at a time.
absl::StatusOr<std::vector<bool>> FindWriters(const std::vector<TorchStage>& stages,
                                              const at::Tensor& sample) {
  const at::NoGradGuard no_grad;
  std::vector<bool> writes;
  at::Tensor value = sample.clone();  // which the caller keeps as it is
  for (const TorchStage& stage : stages) {
    if (stage.forward == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(stage.name, ": has no forward"));
    }
    const auto version = value._version();
    at::Tensor output;
    const absl::Status ran = TorchGuarded([&] {
      output = stage.forward(value);
      return absl::OkStatus();
    });
    if (!ran.ok()) return Prefixed(stage.name, ran);
    if (!output.defined()) {
      return absl::InvalidArgumentError(absl::StrCat(stage.name, ": returns no tensor"));
    }
    writes.push_back(value._version() != version);
    value = std::move(output);
  }
  return writes;
}

std::vector<at::Tensor> BuffersOf(const std::vector<TorchStage>& stages) {
  std::vector<at::Tensor> buffers;
  for (const TorchStage& stage : stages) {
    if (stage.module == nullptr) continue;
    for (at::Tensor& buffer : stage.module->buffers()) buffers.push_back(std::move(buffer));
  }
  return buffers;
}

}  // namespace

std::string JoinedName(const std::vector<TorchStage>& stages) {
  if (stages.size() == 1) return stages.front().name;
  return absl::StrCat(stages.front().name, "..", stages.back().name);
}

std::shared_ptr<torch::nn::Module> JoinedModule(const std::vector<TorchStage>& stages) {
  if (stages.size() == 1) return stages.front().module;
  std::shared_ptr<torch::nn::Module> all;
  for (size_t i = 0; i < stages.size(); ++i) {
    if (stages[i].module == nullptr) continue;
    if (all == nullptr) all = std::make_shared<torch::nn::Module>("unit");
    all->register_module(absl::StrCat(i), stages[i].module);
  }
  return all;
}

TorchStage JoinedStage(std::vector<TorchStage> stages) {
  if (stages.size() == 1) return std::move(stages.front());
  TorchStage joined{.name = JoinedName(stages), .module = JoinedModule(stages)};
  for (const TorchStage& stage : stages) {
    joined.no_recompute = joined.no_recompute || stage.no_recompute;
    joined.control_flow = joined.control_flow || stage.control_flow;
  }
  joined.fusion_group = stages.front().fusion_group;
  joined.forward = [parts = std::move(stages)](const at::Tensor& input) {
    at::Tensor value = input;
    for (const TorchStage& part : parts) value = part.forward(value);
    return value;
  };
  return joined;
}

absl::StatusOr<std::vector<TorchStage>> JoinWhereInPlace(std::vector<TorchStage> stages,
                                                         const at::Tensor& sample) {
  absl::StatusOr<std::vector<bool>> writes;
  RETURN_IF_ERROR(TorchGuarded([&] {
    RandomAndBuffers before(BuffersOf(stages), sample.device());
    writes = FindWriters(stages, sample);
    before.Restore();
    return writes.status();
  }));
  if (!writes->empty() && writes->front()) {
    return absl::InvalidArgumentError(absl::StrCat(
        stages.front().name, ": writes into the input of the network: make it work out of place"));
  }
  std::vector<std::vector<TorchStage>> parts;
  for (size_t i = 0; i < stages.size(); ++i) {
    if (!(*writes)[i]) parts.emplace_back();
    parts.back().push_back(std::move(stages[i]));
  }
  std::vector<TorchStage> joined;
  joined.reserve(parts.size());
  for (std::vector<TorchStage>& part : parts) joined.push_back(JoinedStage(std::move(part)));
  return joined;
}

}  // namespace stowage
