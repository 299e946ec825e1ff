// LibTorch stages in graph mode: adjacent stages that run as one unit, as a TorchScript trace where
// that has identical results. Source: Mixed Mode, "Formulation"; solver/model/modes.h.
#ifndef STOWAGE_CLIENT_TORCH_JOIN_GRAPH_MODE_H_
#define STOWAGE_CLIENT_TORCH_JOIN_GRAPH_MODE_H_

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/torch/stages/torch_stages.h"
#include "solver/model/modes.h"

namespace stowage {

// Stages that run as one unit. The first forward, and each one after a change of what a trace
// treats as constant (shapes, training modes, parameters), decides whether to use a trace. It runs
// the stages twice more, once to record them and once through the trace, from the same random
// states and buffers, and undoes the effects of both. The trace is used if output, random states
// and buffers are equal bit by bit and autograd's graph is equal, so that gradients are equal, too.
// It runs without TorchScript's optimizations, which would change the saved tensors after the first
// steps. Otherwise the stages run one after the other, as a block. Reasons are that the unit
// - reads a number of a tensor, or has shapes that depend on numbers;
// - holds a tensor that is neither its input nor in its module and could be another one next time;
// - has custom autograd functions, hooks, or parts without gradients;
// - runs under autocast, or has a no_recompute stage;
// - cannot be traced.
// Not thread-safe.
class GraphUnit {
 public:
  // Requires: at least one stage.
  explicit GraphUnit(std::vector<TorchStage> stages);
  ~GraphUnit();
  GraphUnit(const GraphUnit&) = delete;
  GraphUnit& operator=(const GraphUnit&) = delete;

  // May throw LibTorch's exceptions.
  at::Tensor Forward(const at::Tensor& input);

  const std::string& name() const { return name_; }
  // Contains the modules of all stages; null if no stage has one.
  const std::shared_ptr<torch::nn::Module>& module() const { return module_; }
  bool traced() const { return trace_ != nullptr; }  // in the last forward
  // For people: why the last forward ran as a block; empty if it was traced.
  const std::string& block_reason() const { return block_reason_; }

 private:
  class Trace;

  at::Tensor RunAsBlock(at::Tensor value) const;
  // Sets trace_ or block_reason_.
  void TryTrace(const at::Tensor& input, const std::vector<at::Tensor>& tensors);

  const std::vector<TorchStage> stages_;
  const std::string name_;
  const std::shared_ptr<torch::nn::Module> module_;
  std::vector<int64_t> assumptions_;  // of the last TryTrace(); empty: none yet
  std::unique_ptr<const Trace> trace_;
  std::string block_reason_;
};

// The network's stages as `execution` runs them, for a TorchStages that executes its plan. Modules,
// with parameters and buffers, are shared. The loss is always eager, since every step has its own.
// Errors: FAILED_PRECONDITION for an execution of another network.
absl::StatusOr<std::vector<TorchStage>> InModes(const std::vector<TorchStage>& stages,
                                                const Execution& execution);

// The execution with every possible unit in graph mode. Its chain has no sizes and no times.
Execution AllInGraphMode(const std::vector<TorchStage>& stages);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_JOIN_GRAPH_MODE_H_
