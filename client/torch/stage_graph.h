// The piece of autograd's graph that one stage's forward made, cut off from its neighbours': it
// ends where the stage's input begins, and holds neither input nor output.
#ifndef STOWAGE_CLIENT_TORCH_STAGE_GRAPH_H_
#define STOWAGE_CLIENT_TORCH_STAGE_GRAPH_H_

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>

#include <memory>

namespace stowage {

class GradientSink;

// What is wrong where a backward of another stage comes into this one's graph.
inline constexpr const char* kUsedElsewhere =
    "a tensor that a stage has computed is used outside of it, beside its output: make the stages "
    "that use it one";

// Everything here may throw, as LibTorch.
class StageGraph {
 public:
  // The input as the stage shall read it, so that its gradient ends up here. Shares its memory.
  at::Tensor Enter(const at::Tensor& input);
  // Where the backward begins. What needs no gradient leaves the graph empty.
  void Leave(const at::Tensor& output);

  bool empty() const { return !output_.is_valid(); }
  // Adds to the gradients of the parameters; returns the input's, undefined where it has none.
  // Once.
  at::Tensor Backward(const at::Tensor& output_gradient);

 private:
  torch::autograd::Edge output_;
  std::shared_ptr<GradientSink> input_;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_STAGE_GRAPH_H_
