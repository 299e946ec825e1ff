// Stages of LibTorch in graph mode: several that are one for a schedule, and TorchScript's where
// its trace trains as they do. Source: Mixed Mode, "Formulation"; solver/model/modes.h.
#ifndef STOWAGE_CLIENT_TORCH_GRAPH_MODE_H_
#define STOWAGE_CLIENT_TORCH_GRAPH_MODE_H_

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/torch/torch_stages.h"
#include "solver/model/modes.h"

namespace stowage {

// Stages that run as one. The first forward, and every first one with another input, modules in
// other modes or other parameters, tries whether a trace will do: it runs the stages twice more,
// once to record them and once by the trace, from the same random numbers and buffers and keeping
// nothing. The trace is taken where it comes to the same output, random numbers and buffers to the
// bit, and to the same functions of autograd in the same places: gradients are then the same, too.
// It runs as it was recorded, since TorchScript's optimizations would save other tensors in later
// steps than in the first ones. Where there is no such trace, the stages run one after the other,
// as a block: it
// - reads a number out of a tensor, or has shapes that depend on numbers;
// - holds a tensor that is neither its input nor of its module, which may be another one next time;
// - has a function of autograd of its own, or hooks, or parts without gradients;
// - is under autocast, or may not run twice;
// - or fails to be traced.
// Not thread-safe.
class GraphUnit {
 public:
  // Requires: at least one.
  explicit GraphUnit(std::vector<TorchStage> stages);
  ~GraphUnit();
  GraphUnit(const GraphUnit&) = delete;
  GraphUnit& operator=(const GraphUnit&) = delete;

  // Throws what LibTorch throws.
  at::Tensor Forward(const at::Tensor& input);

  const std::string& name() const { return name_; }
  // All the stages' modules; null where there is none.
  const std::shared_ptr<torch::nn::Module>& module() const { return module_; }
  bool traced() const { return trace_ != nullptr; }  // in the last forward
  // Where it was not: for people.
  const std::string& why_not() const { return why_not_; }

 private:
  class Trace;

  at::Tensor Block(at::Tensor value) const;
  void Try(const at::Tensor& input, const std::vector<at::Tensor>& tensors);

  const std::vector<TorchStage> stages_;
  const std::string name_;
  const std::shared_ptr<torch::nn::Module> module_;
  std::vector<int64_t> circumstances_;  // of the last try; empty: there was none
  std::unique_ptr<const Trace> trace_;
  std::string why_not_;
};

// The network's stages as `execution` runs them, for a TorchStages that is given its plan. The loss
// is eager in any case: it is another function every step. Modules, and with them parameters and
// buffers, are shared. Errors: FAILED_PRECONDITION where the execution is of another network.
absl::StatusOr<std::vector<TorchStage>> InModes(const std::vector<TorchStage>& stages,
                                                const Execution& execution);

// With every stage in graph mode that can be. Its chain has no sizes and no times.
Execution AllInGraphMode(const std::vector<TorchStage>& stages);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_GRAPH_MODE_H_
