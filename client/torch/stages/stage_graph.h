// The part of autograd's graph that one stage's forward recorded, detached from the graphs of other
// stages: it starts at the stage's inputs, and holds neither inputs nor outputs.
#ifndef STOWAGE_CLIENT_TORCH_STAGES_STAGE_GRAPH_H_
#define STOWAGE_CLIENT_TORCH_STAGES_STAGE_GRAPH_H_

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>

#include <functional>
#include <string>
#include <vector>

namespace stowage {

// The error when a backward reaches what the forward of another stage, `made_by`, has recorded.
std::string UndeclaredText(const std::string& made_by);

// Members may throw LibTorch's exceptions, and c10::ValueError with UndeclaredText().
class StageGraph {
 public:
  // Replaces those of the stage's input tensors that are differentiable by what the stage must read
  // instead, so that their gradients end up here. The two share memory.
  void Enter(const std::string& stage, const std::vector<bool>& differentiable,
             std::vector<at::Tensor>* inputs);
  // Records where the backward starts. The graph stays empty if no output needs a gradient.
  void Leave(const std::vector<at::Tensor>& outputs);

  bool empty() const { return outputs_.empty(); }
  // Whether all memory that it keeps is saved tensors and leaves for which `is_constant`. A
  // function of the program's own may hold other tensors, and so may a hook and what writes into a
  // view.
  bool HoldsSavedTensorsOnly(const std::function<bool(const at::Tensor& leaf)>& is_constant) const;
  // Its functions and how they depend on each other, and the forms of its leaves: equal for stages
  // that compute the same of other numbers. Empty if the graph is.
  std::string Work() const;
  // Adds to the gradients of the parameters and returns those of the inputs; undefined are those
  // that a tensor does not have. May be called once.
  std::vector<at::Tensor> Backward(const std::vector<at::Tensor>& output_gradients);

 private:
  std::vector<torch::autograd::Edge> outputs_;        // by output; invalid: takes no gradient
  decltype(torch::autograd::Edge::function) inputs_;  // a GradientSink; null: takes no gradients
  std::vector<bool> entered_;                         // by input: whether it has a gradient
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_STAGES_STAGE_GRAPH_H_
