// Stages that belong together as one.
#ifndef STOWAGE_CLIENT_TORCH_JOIN_JOIN_STAGES_H_
#define STOWAGE_CLIENT_TORCH_JOIN_JOIN_STAGES_H_

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/torch/stages/torch_stages.h"

namespace stowage {

// "first..last", or the name of a single stage. Requires of all: at least one stage.
std::string JoinedName(const std::vector<TorchStage>& stages);

// One module that contains those of all stages; null if no stage has one.
std::shared_ptr<torch::nn::Module> JoinedModule(const std::vector<TorchStage>& stages);

// One stage that runs the others one after the other. It is no_recompute, or has control flow, if
// one of them is or has. It reads what they read of other stages, and saves what they save.
TorchStage JoinedStage(std::vector<TorchStage> stages);

// Joins each stage that writes into its input, such as an in-place ReLU, with the one before it,
// and with those before that whose value it is, such as before a view, or between the stage that
// saves a skip and one that writes into it: a run on `sample` shows it. Buffers and random
// generators are restored. Errors: INVALID_ARGUMENT if the network's input or a side input would be
// written to, a later stage uses the input undeclared, or a stage has no forward, or other tensors
// than it declares; RESOURCE_EXHAUSTED; INTERNAL for LibTorch's other exceptions. All name the
// stage.
absl::StatusOr<std::vector<TorchStage>> JoinWhereInPlace(std::vector<TorchStage> stages,
                                                         const TorchInput& sample);

// Whether the loss's graph keeps the network's output, as a mean of squares does and a cross
// entropy does not: a run on `sample` shows it. Where it does not, the last stage and the loss take
// less as one (TorchOptions::joins_loss): a schedule holds every value until its gradient is there.
// Buffers and random generators are restored. Errors: RESOURCE_EXHAUSTED, INTERNAL; they name the
// stage. Requires: JoinWhereInPlace() accepts the stages.
absl::StatusOr<bool> LossKeepsItsInput(const std::vector<TorchStage>& stages,
                                       const TorchInput& sample, const TorchLoss& loss);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_JOIN_JOIN_STAGES_H_
