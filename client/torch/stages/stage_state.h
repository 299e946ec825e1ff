// What TorchStages holds of one stage within a step.
#ifndef STOWAGE_CLIENT_TORCH_STAGES_STAGE_STATE_H_
#define STOWAGE_CLIENT_TORCH_STAGES_STAGE_STATE_H_

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "client/torch/stages/first_output.h"
#include "client/torch/stages/held_value.h"
#include "client/torch/stages/kept_results.h"
#include "client/torch/stages/recorded_graph.h"
#include "client/torch/stages/replay.h"
#include "client/torch/stages/torch_stage.h"
#include "solver/algorithms/kept_operators.h"

namespace stowage {

// The gradient of one tensor of a value, as a backward left it.
struct GradientPart {
  int64_t bytes = 0;              // of its storage; 0: there is no gradient
  const void* storage = nullptr;  // equal for parts of the same memory
  // The tensor of the stage's output whose gradient has the same memory, since it passes by.
  std::optional<size_t> passed = std::nullopt;
};

// What `inputs` have of the memory of `outputs`, the gradients of a stage's input and output.
std::vector<GradientPart> GradientPartsOf(const Tensors& inputs, const Tensors& outputs,
                                          int64_t granularity);

// Of stage l and its value, a^l or ā^l. Value 0, the network's input, has no stage: its state has a
// value and gradients only. A running stage refers to the value, so the state must not move then.
// Members may throw LibTorch's exceptions.
struct StageState {
  // `module` may be null.
  StageState(std::shared_ptr<torch::nn::Module> module, c10::Device device)
      : replay(std::move(module), device) {}

  // Frees the value. Kept results and filled places share its memory, and go with it.
  void Drop();
  void SetOutput(const StageOutput& output);
  // Frees what is of this step only.
  void EndStep();

  HeldValue value;
  // δ^l, by tensor of the output; empty: there are none; nullopt: no backward has set them yet.
  std::optional<Tensors> gradients;
  Replay replay;
  std::optional<RecordedGraph> recorded;  // of the run before a replay or rerun
  std::optional<KeptResults> kept;        // of a value that is saved by an option
  FirstOutput first_output;               // used if recomputations are verified

  // For StageProbe, which says what they are.
  bool shared = false;
  int64_t passed_bytes = 0;
  std::vector<GradientPart> gradient_parts;
  std::vector<OperatorCost>* measured_operators = nullptr;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_STAGES_STAGE_STATE_H_
