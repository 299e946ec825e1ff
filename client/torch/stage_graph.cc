#include "client/torch/stage_graph.h"

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

#include "client/torch/torch_versions.h"

namespace stowage {

using torch::autograd::variable_list;

// Receives the input's gradient. A leaf tensor could, too, but would keep the input's memory alive.
// Closed until the stage's own backward: a gradient that arrives earlier comes from another stage.
class GradientSink final : public torch::autograd::Node {
 public:
  void Open() { open_ = true; }
  at::Tensor Take() { return std::exchange(gradient_, {}); }

 private:
  variable_list apply(variable_list&& gradients) override {
    TORCH_CHECK(open_, kUsedElsewhere);
    gradient_ = std::move(gradients.at(0));
    return {};
  }

  bool open_ = false;
  at::Tensor gradient_;
};

at::Tensor StageGraph::Enter(const at::Tensor& input) {
  input_ = MakeNode<GradientSink>();
  at::Tensor entered = input.detach();
  torch::autograd::set_history(entered, input_);
  return entered;
}

void StageGraph::Leave(const at::Tensor& output) {
  if (output.requires_grad()) output_ = torch::autograd::impl::gradient_edge(output);
}

at::Tensor StageGraph::Backward(const at::Tensor& output_gradient) {
  auto* const sink = static_cast<GradientSink*>(input_.get());
  if (sink != nullptr) sink->Open();
  const OnThisThread on_this_thread;
  torch::autograd::Engine::get_default_engine().execute(
      {std::exchange(output_, {})}, {output_gradient}, /*keep_graph=*/false,
      /*create_graph=*/false, /*accumulate_grad=*/true);
  return sink == nullptr ? at::Tensor() : sink->Take();
}

}  // namespace stowage
