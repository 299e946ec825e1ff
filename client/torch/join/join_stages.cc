#include "client/torch/join/join_stages.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "client/torch/base/torch_guarded.h"
#include "client/torch/join/use_watcher.h"
#include "client/torch/native/saved_tensors.h"
#include "client/torch/stages/replay.h"
#include "client/torch/stages/stage_borders.h"
#include "solver/base/prefixed.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

// A tensor of a value, and the stage that made its memory; 0: it is the network's input.
struct Made {
  at::Tensor tensor;
  size_t by = 0;
};

// Runs stage l on `value` and replaces it by the stage's. Returns the first stage whose memory it
// writes into, l if into none but its own.
absl::StatusOr<size_t> RunAndFindWritten(const TorchStage& stage, size_t l,
                                         const StageBorders& borders, const SideInputs& sides,
                                         std::vector<Made>* value) {
  Tensors tensors;
  std::vector<int64_t> versions;
  for (const Made& made : *value) {
    tensors.push_back(made.tensor);
    versions.push_back(made.tensor._version());
  }
  std::vector<int64_t> side_versions;
  for (const auto& [name, tensor] : sides) side_versions.push_back(tensor._version());
  Tensors outputs;
  RETURN_IF_ERROR(TorchGuarded([&] {
    outputs = borders.Run(stage, static_cast<int>(l), tensors, sides);
    return absl::OkStatus();
  }));
  size_t written = l;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i]._version() != versions[i]) written = std::min(written, (*value)[i].by);
  }
  auto side_version = side_versions.begin();
  for (const auto& [name, tensor] : sides) {
    if (tensor._version() == *side_version++) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("writes into the side input ", name, ": make it work out of place"));
  }
  std::vector<Made> after;
  for (const at::Tensor& output : outputs) {
    if (!output.defined()) return absl::InvalidArgumentError("returns no tensor");
    const auto same = std::find_if(value->begin(), value->end(), [&](const Made& made) {
      return output.is_alias_of(made.tensor);
    });
    after.push_back({output, same == value->end() ? l : same->by});
  }
  *value = std::move(after);
  return written;
}

// By stage: whether it belongs to the one before it, since it, or a later stage, writes into memory
// that is made before it. For the first stage that is the network's input. An error for a stage
// that uses this without having it, which no saved tensor nor gradient shows where the stage adds
// it to something. Holds one value at a time.
absl::StatusOr<std::vector<bool>> FindWriters(const std::vector<TorchStage>& stages,
                                              const TorchInput& sample) {
  const at::NoGradGuard no_grad;
  // Casts of weights that autocast caches here have no graph for a later step.
  const auto forget_casts = absl::MakeCleanup([] { at::autocast::clear_cache(); });
  const StageBorders borders(stages);
  std::vector<bool> writes(stages.size());
  // Copies: the caller keeps the sample as it is.
  std::vector<Made> value = {{sample.tensor.clone(), 0}};
  UseWatcher input(value.front().tensor);
  SideInputs sides;
  for (const auto& [name, tensor] : sample.sides) sides.emplace(name, tensor.clone());
  for (size_t l = 1; l <= stages.size(); ++l) {
    const TorchStage& stage = stages[l - 1];
    const bool has_input = std::any_of(
        value.begin(), value.end(), [&](const Made& made) { return input.Watches(made.tensor); });
    const absl::StatusOr<size_t> written = RunAndFindWritten(stage, l, borders, sides, &value);
    if (!written.ok()) return Prefixed(stage.name, written.status());
    if (input.TakeUsed() && !has_input) {
      return absl::InvalidArgumentError(
          absl::StrCat(stage.name,
                       ": uses the network's input, beside its own: declare it, in `saves` of a "
                       "stage that takes "
                       "it and in `reads` here, or make the stages one"));
    }
    for (size_t later = *written + 1; later <= l; ++later) writes[later - 1] = true;
  }
  return writes;
}

// The output on `sample`, without a graph. Holds one value at a time.
absl::StatusOr<at::Tensor> OutputOf(const std::vector<TorchStage>& stages,
                                    const TorchInput& sample) {
  const at::NoGradGuard no_grad;
  // Casts of weights that autocast caches here have no graph for a later step.
  const auto forget_casts = absl::MakeCleanup([] { at::autocast::clear_cache(); });
  const StageBorders borders(stages);
  Tensors value = {sample.tensor};
  int l = 0;
  for (const TorchStage& stage : stages) {
    ++l;
    RETURN_IF_ERROR(Prefixed(stage.name, TorchGuarded([&] {
                               value = borders.Run(stage, l, value, sample.sides);
                               return absl::OkStatus();
                             })));
  }
  return value.front();
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
  if (std::any_of(stages.begin(), stages.end(),
                  [](const TorchStage& stage) { return stage.tuple_forward != nullptr; })) {
    for (const TorchStage& stage : stages) {
      for (const std::string& name : stage.reads) {
        if (StageBorders::Has(joined.saves, name)) continue;
        if (!StageBorders::Has(joined.reads, name)) joined.reads.push_back(name);
      }
      joined.saves.insert(joined.saves.end(), stage.saves.begin(), stage.saves.end());
    }
    joined.tuple_forward = JoinedForward(std::move(stages), joined.reads, joined.saves);
    return joined;
  }
  joined.forward = [parts = std::move(stages)](const at::Tensor& input) {
    at::Tensor value = input;
    for (const TorchStage& part : parts) value = part.forward(value);
    return value;
  };
  return joined;
}

absl::StatusOr<std::vector<TorchStage>> JoinWhereInPlace(std::vector<TorchStage> stages,
                                                         const TorchInput& sample) {
  absl::StatusOr<std::vector<bool>> writes;
  RETURN_IF_ERROR(TorchGuarded([&] {
    RandomAndBuffers before(BuffersOf(stages), sample.tensor.device());
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
                                       const TorchInput& sample, const TorchLoss& loss) {
  absl::StatusOr<bool> keeps;
  RETURN_IF_ERROR(TorchGuarded([&] {
    RandomAndBuffers before(BuffersOf(stages), sample.tensor.device());
    const absl::StatusOr<at::Tensor> output = OutputOf(stages, sample);
    keeps = output.ok() ? Keeps(loss, *output) : output.status();
    before.Restore();
    return keeps.status();
  }));
  return keeps;
}

}  // namespace stowage
