#include "client/torch/join_stages.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "client/torch/native/saved_tensors.h"
#include "client/torch/replay.h"
#include "client/torch/torch_guarded.h"
#include "solver/base/prefixed.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

// By stage: whether it belongs to the one before it, since it writes into its input, or returns its
// input, or a view of it, into which a later stage writes. For the first stage the one before it is
// the network's input. Holds one value at a time.
absl::StatusOr<std::vector<bool>> FindWriters(const std::vector<TorchStage>& stages,
                                              const at::Tensor& sample) {
  const at::NoGradGuard no_grad;
  // Casts of weights that autocast caches here have no graph for a later step.
  const auto forget_casts = absl::MakeCleanup([] { at::autocast::clear_cache(); });
  std::vector<bool> writes;
  std::vector<bool> aliases;          // by stage: whether its output shares its input's memory
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
    aliases.push_back(output.is_alias_of(value));
    for (size_t i = writes.size() - 1; writes[i] && i > 0 && aliases[i - 1]; --i) {
      writes[i - 1] = true;
    }
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

// The output on `sample`, without a graph. Holds one value at a time.
absl::StatusOr<at::Tensor> OutputOf(const std::vector<TorchStage>& stages,
                                    const at::Tensor& sample) {
  const at::NoGradGuard no_grad;
  // Casts of weights that autocast caches here have no graph for a later step.
  const auto forget_casts = absl::MakeCleanup([] { at::autocast::clear_cache(); });
  at::Tensor value = sample;
  for (const TorchStage& stage : stages) {
    RETURN_IF_ERROR(Prefixed(stage.name, TorchGuarded([&] {
                               value = stage.forward(value);
                               return absl::OkStatus();
                             })));
  }
  return value;
}

// Runs the loss on a leaf of autograd and drops its graph.
absl::StatusOr<bool> Keeps(const TorchLoss& loss, const at::Tensor& output) {
  const at::AutoGradMode grad(true);
  const at::Tensor leaf = output.detach().requires_grad_(output.is_floating_point());
  bool keeps = false;
  const SavedTensorScope scope([&](const at::Tensor& tensor) -> SavedTensor {
    keeps = keeps || (tensor.has_storage() && tensor.is_alias_of(leaf));
    return [kept = tensor.detach()] { return kept; };
  });
  RETURN_IF_ERROR(Prefixed("loss", TorchGuarded([&] {
                             loss(leaf);
                             return absl::OkStatus();
                           })));
  return keeps;
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
        stages.front().name,
        ": the network's input is written to, by it or behind a view: work out of place there"));
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

absl::StatusOr<bool> LossKeepsItsInput(const std::vector<TorchStage>& stages,
                                       const at::Tensor& sample, const TorchLoss& loss) {
  absl::StatusOr<bool> keeps;
  RETURN_IF_ERROR(TorchGuarded([&] {
    RandomAndBuffers before(BuffersOf(stages), sample.device());
    const absl::StatusOr<at::Tensor> output = OutputOf(stages, sample);
    keeps = output.ok() ? Keeps(loss, *output) : output.status();
    before.Restore();
    return keeps.status();
  }));
  return keeps;
}

}  // namespace stowage
