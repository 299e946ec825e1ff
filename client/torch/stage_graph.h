// The part of autograd's graph that one stage's forward recorded, detached from the graphs of other
// stages: it starts at the stage's input, and holds neither input nor output.
#ifndef STOWAGE_CLIENT_TORCH_STAGE_GRAPH_H_
#define STOWAGE_CLIENT_TORCH_STAGE_GRAPH_H_

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>

namespace stowage {

// The error when another stage's backward reaches this stage's graph or its saved tensors.
inline constexpr const char* kUsedElsewhere =
    "a tensor that a stage has computed is used outside of it, beside its output: make the stages "
    "that use it one";

// Members may throw LibTorch's exceptions.
class StageGraph {
 public:
  // Returns the tensor that the stage must read instead of its input, so that the input's gradient
  // ends up here. The two share memory.
  at::Tensor Enter(const at::Tensor& input);
  // Records where the backward starts. The graph stays empty if the output needs no gradient.
  void Leave(const at::Tensor& output);

  bool empty() const { return !output_.is_valid(); }
  // Adds to the gradients of the parameters and returns the input's gradient, undefined if it has
  // none. May be called once.
  at::Tensor Backward(const at::Tensor& output_gradient);

 private:
  torch::autograd::Edge output_;
  decltype(torch::autograd::Edge::function) input_;  // a GradientSink; null before Enter()
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_STAGE_GRAPH_H_
