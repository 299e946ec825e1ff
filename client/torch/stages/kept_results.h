// Saving a stage by an option (TorchStage::save_options): its forward keeps the results of some
// operators, and the rerun within the backward, which computes what else the backward reads, does
// not run those.
#ifndef STOWAGE_CLIENT_TORCH_STAGES_KEPT_RESULTS_H_
#define STOWAGE_CLIENT_TORCH_STAGES_KEPT_RESULTS_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/torch/native/saved_tensors.h"
#include "client/torch/stages/held_value.h"
#include "client/torch/stages/recorded_graph.h"
#include "client/torch/stages/replay.h"
#include "client/torch/stages/torch_stage.h"
#include "solver/algorithms/kept_operators.h"

namespace stowage {

// Of one forward of a stage and its rerun. An operator's results are its outputs and those tensors
// that autograd saves within it that are neither its arguments nor parts of them. The rerun is
// compared with the forward, operator by operator. An operator that works in place on a kept output
// which no other has read yet, such as the addition of a bias, is a part of the one that is kept.
// Members may throw LibTorch's exceptions.
class KeptResults {
 public:
  // What both runs go through; outlives the call that gets it.
  struct Run {
    c10::Device device;
    HeldValue& value;         // value l
    RecordedGraph& recorded;  // of the forward
    // Whether the backward finds the tensor without the value holding it: parameters and the input.
    std::function<bool(const at::Tensor&)> is_elsewhere;
    // Holds a tensor for the backward; of one that is elsewhere, refers to it. Nothing may write
    // into it.
    std::function<SavedTensor(const at::Tensor&)> save;
    std::function<SavedTensor(const at::Tensor&)> hold;  // the same, but something may write
  };

  // Keeps all results that can be kept, and measures them, if `costs` is not null.
  KeptResults(KeptOperators kept, std::vector<OperatorCost>* costs)
      : kept_(std::move(kept)), costs_(costs) {}

  // Of the forward: in place of an operator, and what autograd saves. Throws ValueError if the
  // stage writes into a kept result after reading it.
  void RunOperator(const Run& run, const c10::OperatorHandle& operation, c10::Stack* stack);
  SavedTensor Save(const Run& run, const at::Tensor& tensor);
  // After the forward, before the value holds the stage's output: gives up what no rerun reads,
  // since it ends before.
  void EndForward(const Run& run);

  // Of the rerun.
  void BeginRerun() { next_ = 0; }
  void RerunOperator(const Run& run, const c10::OperatorHandle& operation, c10::Stack* stack);

 private:
  struct Output {
    std::function<at::Tensor()> read = nullptr;  // null: an undefined tensor, or `in_place`
    bool requires_grad = false;
    bool in_place = false;  // the operator's first argument
  };
  // A kept output in the forward.
  struct Held {
    size_t number = 0;  // of its operator
    bool read = false;  // by another one
  };
  // A place whose tensor is an argument, or a part of one.
  struct Part {
    size_t argument = 0;       // in order of all tensors
    TensorView argument_view;  // which must be equal in the rerun
    TensorView view;
  };
  struct Kept {
    std::vector<Output> outputs;
    size_t end_place = 0;                // behind what autograd saved within it
    std::map<size_t, Part> parts;        // by place
    std::optional<RandomStates> random;  // after it; unset: it drew no numbers
  };
  struct Pending {
    size_t place = 0;
    at::Tensor tensor;
  };

  bool Keeps(const std::string& name) const;
  // Of an operator before it runs: the kept output that it works in place on, if there is one.
  Held* NoteReads(const c10::FunctionSchema& schema, const c10::Stack& stack);
  void Measure(const Run& run, const std::string& name, const std::function<bool()>& operation);
  bool RunKept(const Run& run, const c10::OperatorHandle& operation, c10::Stack* stack);
  bool RunInPlace(const Run& run, const c10::OperatorHandle& operation, c10::Stack* stack);
  void Resolve(const Run& run, const std::vector<at::Tensor>& arguments, Kept* kept);
  void HandOn(const Run& run, const Kept& kept, size_t outputs, c10::Stack* stack) const;

  const KeptOperators kept_;
  std::vector<OperatorCost>* const costs_;
  std::vector<const c10::FunctionSchema*> operators_;  // in order of their calls
  std::map<size_t, Kept> results_;                     // by number of the operator
  std::map<const void*, Held> held_;                   // by storage
  size_t end_ = 0;        // behind the last operator at which a rerun fills a place
  OperatorCost running_;  // if all are measured
  bool within_kept_ = false;
  std::vector<Pending> pending_;  // saved by the operator that is running
  size_t next_ = 0;               // of the rerun: the next operator
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_STAGES_KEPT_RESULTS_H_
