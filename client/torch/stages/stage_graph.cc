#include "client/torch/stages/stage_graph.h"

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstddef>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/torch/base/torch_versions.h"

namespace stowage {

using torch::autograd::variable_list;

// Receives the inputs' gradients. Leaf tensors could, too, but would keep the inputs' memory alive.
// Closed until the stage's own backward: a gradient that arrives earlier comes from another stage.
class GradientSink final : public torch::autograd::Node {
 public:
  void SetStage(const std::string& stage) { stage_ = stage; }
  void Open() { open_ = true; }
  variable_list Take() { return std::exchange(gradients_, {}); }

 private:
  variable_list apply(variable_list&& gradients) override {
    TORCH_CHECK_WITH(ValueError, open_, UndeclaredText(stage_));
    gradients_ = std::move(gradients);
    return {};
  }

  std::string stage_;
  bool open_ = false;
  variable_list gradients_;  // of the entered tensors
};

std::string UndeclaredText(const std::string& made_by) {
  return absl::StrCat("uses a tensor that ", made_by,
                      " has computed, beside its input: declare it, in `saves` there and `reads` "
                      "here, or make the stages one");
}

void StageGraph::Enter(const std::string& stage, const std::vector<bool>& differentiable,
                       std::vector<at::Tensor>* inputs) {
  entered_ = differentiable;
  if (std::find(entered_.begin(), entered_.end(), true) == entered_.end()) return;
  const auto sink = MakeNode<GradientSink>();
  sink->SetStage(stage);
  inputs_ = sink;
  for (size_t i = 0; i < inputs->size(); ++i) {
    if (!entered_[i]) continue;
    at::Tensor& input = (*inputs)[i];
    input = input.detach();
    torch::autograd::set_history(input, inputs_);
  }
}

void StageGraph::Leave(const std::vector<at::Tensor>& outputs) {
  bool any = false;
  for (const at::Tensor& output : outputs) {
    outputs_.emplace_back();
    if (!output.requires_grad()) continue;
    outputs_.back() = torch::autograd::impl::gradient_edge(output);
    any = true;
  }
  if (!any) outputs_.clear();
}

bool StageGraph::HoldsSavedTensorsOnly(
    const std::function<bool(const at::Tensor& leaf)>& is_constant) const {
  std::vector<torch::autograd::Node*> nodes;
  std::unordered_set<const torch::autograd::Node*> seen = {nullptr};
  const auto add = [&](const torch::autograd::Edge& edge) {
    if (seen.insert(edge.function.get()).second) nodes.push_back(edge.function.get());
  };
  for (const torch::autograd::Edge& output : outputs_) add(output);
  for (size_t i = 0; i < nodes.size(); ++i) {
    torch::autograd::Node& node = *nodes[i];
    if (&node == inputs_.get()) continue;
    if (const auto* const sum = dynamic_cast<torch::autograd::AccumulateGrad*>(&node)) {
      if (!is_constant(sum->variable)) return false;
      continue;
    }
    // The functions that LibTorch generates have names of their own, all others those of C++ types.
    if (absl::StrContains(node.name(), "::")) return false;
    if (HooksBefore(node) > 0 || !node.post_hooks().empty()) return false;
    for (const torch::autograd::Edge& edge : node.next_edges()) add(edge);
  }
  return true;
}

std::string StageGraph::Work() const {
  std::vector<const torch::autograd::Node*> nodes;
  std::unordered_map<const torch::autograd::Node*, size_t> numbers;
  const auto number_of = [&](const torch::autograd::Edge& edge) {
    if (!edge.is_valid()) return std::string("-");
    const auto [found, is_new] = numbers.emplace(edge.function.get(), nodes.size());
    if (is_new) nodes.push_back(edge.function.get());
    return absl::StrCat(found->second, ".", edge.input_nr);
  };
  std::string work;
  for (const torch::autograd::Edge& output : outputs_) {
    absl::StrAppend(&work, number_of(output), " ");
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    const torch::autograd::Node& node = *nodes[i];
    absl::StrAppend(&work, "; ", node.name());
    if (const auto* const sum = dynamic_cast<const torch::autograd::AccumulateGrad*>(&node)) {
      const at::Tensor& leaf = sum->variable;
      absl::StrAppend(&work, " ", c10::toString(leaf.scalar_type()), " [",
                      absl::StrJoin(leaf.sizes(), ", "), "]");
    }
    for (const torch::autograd::Edge& edge : node.next_edges()) {
      absl::StrAppend(&work, " ", number_of(edge));
    }
  }
  return work;
}

// A skip that passes by is an output and an input: its gradient goes straight to the sink, where
// those of the stage's own uses are added, the last use's first. That is the order of a backward
// that knows no stages, so sums are equal to the bit.
std::vector<at::Tensor> StageGraph::Backward(const std::vector<at::Tensor>& output_gradients) {
  auto* const sink = static_cast<GradientSink*>(inputs_.get());
  if (sink != nullptr) sink->Open();
  torch::autograd::edge_list roots;
  variable_list gradients;
  const std::vector<torch::autograd::Edge> outputs = std::exchange(outputs_, {});
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].is_valid() || !output_gradients[i].defined()) continue;
    roots.push_back(outputs[i]);
    gradients.push_back(output_gradients[i]);
  }
  std::vector<at::Tensor> input_gradients(entered_.size());
  if (roots.empty()) return input_gradients;
  const OnThisThread on_this_thread;
  torch::autograd::Engine::get_default_engine().execute(roots, gradients, /*keep_graph=*/false,
                                                        /*create_graph=*/false,
                                                        /*accumulate_grad=*/true);
  if (sink == nullptr) return input_gradients;
  variable_list received = sink->Take();
  size_t next = 0;
  for (size_t i = 0; i < entered_.size() && !received.empty(); ++i) {
    if (entered_[i]) input_gradients[i] = std::move(received[next++]);
  }
  return input_gradients;
}

}  // namespace stowage
