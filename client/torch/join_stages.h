// Stages that belong together as one.
#ifndef STOWAGE_CLIENT_TORCH_JOIN_STAGES_H_
#define STOWAGE_CLIENT_TORCH_JOIN_STAGES_H_

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/torch/torch_stages.h"

namespace stowage {

// "first..last", or the name of a single stage. Requires of all: at least one stage.
std::string JoinedName(const std::vector<TorchStage>& stages);

// One module that contains those of all stages; null if no stage has one.
std::shared_ptr<torch::nn::Module> JoinedModule(const std::vector<TorchStage>& stages);

// One stage that runs the others one after the other. It is no_recompute, or has control flow, if
// one of them is or has.
TorchStage JoinedStage(std::vector<TorchStage> stages);

// Joins each stage that writes into its input, such as an in-place ReLU, with the one before it,
// and with those before that whose value it is, such as before a view: a run on `sample` shows it.
// Buffers and random generators are restored. Errors: INVALID_ARGUMENT if the network's input would
// be written to, or a stage has no forward;
// RESOURCE_EXHAUSTED; INTERNAL for LibTorch's other exceptions. All name the stage.
absl::StatusOr<std::vector<TorchStage>> JoinWhereInPlace(std::vector<TorchStage> stages,
                                                         const at::Tensor& sample);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_JOIN_STAGES_H_
