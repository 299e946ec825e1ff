// A part of a LibTorch network, and what a step of training is fed.
#ifndef STOWAGE_CLIENT_TORCH_STAGES_TORCH_STAGE_H_
#define STOWAGE_CLIENT_TORCH_STAGES_TORCH_STAGE_H_

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace stowage {

class GraphUnit;

using Tensors = std::vector<at::Tensor>;

// A way to save a stage (solver/README.md, "Ways to save a stage"): which of LibTorch's operators
// that its forward calls it keeps the results of. The others are rerun within the backward.
struct KeptOperators {
  std::set<std::string> names = {};  // of the operators, such as "linear": each time it is called
  std::set<size_t> numbers = {};     // of the calls, in their order in the forward, from 0

  bool operator==(const KeptOperators&) const = default;
};

// A stage of one input tensor and one output tensor has a `forward`. Any other one has a
// `tuple_forward`, which takes
//   what the stage before returns to the next one, then what `reads` names,
// and returns
//   what the next stage takes, one tensor at least, then what `saves` names.
// A skip is a tensor that one stage saves and later ones read. Every value between them holds it,
// so that it is recomputed, offloaded and counted with them; that copies nothing on the device.
// What a stage returns as it got it is passed on in the same way.
struct TorchStage {
  std::string name;
  std::function<at::Tensor(const at::Tensor&)> forward = nullptr;
  std::function<Tensors(const Tensors&)> tuple_forward = nullptr;
  std::vector<std::string> reads = {};  // names of skips, and of the step's side inputs
  std::vector<std::string> saves = {};  // names of skips
  // Holds its parameters and buffers; null if it has none. They are never offloaded.
  std::shared_ptr<torch::nn::Module> module = nullptr;
  // The forward must run once a step: it reads or changes state other than LibTorch's random
  // generators and the module's buffers.
  bool no_recompute = false;
  // Adjacent stages of one group are one unit in graph mode. Empty: a unit of its own.
  std::string fusion_group = {};
  // Excludes it from graph mode: its operations depend on more than the input's shape and the
  // modules' training modes, such as on the input's numbers, read in a way that LibTorch cannot
  // detect, or on a rate that changes between steps. A stage with a tuple_forward is always eager.
  bool control_flow = false;
  // From option 1 on; option 0 keeps all that autograd saves. Of a stage that calls the same
  // operators in every step. Set by FindSaveOptions(), or by hand.
  std::vector<KeptOperators> save_options = {};
  // Set by InModes() if this stage is a unit in graph mode.
  std::shared_ptr<const GraphUnit> unit = nullptr;
};

inline bool HasForward(const TorchStage& stage) {
  return stage.forward != nullptr || stage.tuple_forward != nullptr;
}
inline bool IsEager(const TorchStage& stage) {
  return stage.control_flow || stage.tuple_forward != nullptr;
}

// One stage for each child. The modules are shared; children added later are not included.
std::vector<TorchStage> StagesOf(torch::nn::Sequential sequential);

// Of all modules, each once: stages may share them.
std::vector<at::Tensor> ParametersOf(const std::vector<TorchStage>& stages);
std::vector<at::Tensor> BuffersOf(const std::vector<TorchStage>& stages);

// By name. Tensors that any stage may read and no value holds, such as masks: the caller keeps them
// on the device for the whole step. They take no gradient and must not change meanwhile.
using SideInputs = std::map<std::string, at::Tensor>;

// What a step is fed.
struct TorchInput {
  TorchInput() = default;
  // Not explicit: most networks have one input tensor.
  TorchInput(at::Tensor first, SideInputs others = {})  // NOLINT(google-explicit-constructor)
      : tensor(std::move(first)), sides(std::move(others)) {}

  at::Tensor tensor;  // of the first stage
  SideInputs sides;
};

// Errors: FAILED_PRECONDITION if there is no input, INVALID_ARGUMENT for one that is not on
// `device` and for a side input that is undefined or requires a gradient.
absl::Status CheckInput(const TorchInput& input, c10::Device device);

// Computes the loss, a tensor of one number, from the last stage's output.
using TorchLoss = std::function<at::Tensor(const at::Tensor&)>;

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_STAGES_TORCH_STAGE_H_
