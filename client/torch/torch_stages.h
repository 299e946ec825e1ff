// A network of LibTorch, cut into stages, behind the executor: it trains under a schedule as it
// would train alone.
#ifndef STOWAGE_CLIENT_TORCH_TORCH_STAGES_H_
#define STOWAGE_CLIENT_TORCH_TORCH_STAGES_H_

#include <ATen/ThreadLocalState.h>
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/agent/stages.h"
#include "client/torch/held_value.h"
#include "client/torch/replay.h"

namespace stowage {

class GraphUnit;

// One tensor in, one out.
struct TorchStage {
  std::string name;
  std::function<at::Tensor(const at::Tensor&)> forward = nullptr;
  // Its parameters and buffers; null where it has none. They stay where they are.
  std::shared_ptr<torch::nn::Module> module = nullptr;
  // Its forward may not run twice: it draws on, or changes, what is neither a random generator of
  // LibTorch nor a buffer of the module.
  bool no_recompute = false;
  // Of several that follow one another: in graph mode they are one. Empty: it is one by itself.
  std::string fusion_group = {};
  // It may not run in graph mode: what it does depends on more than its input's shape and its
  // modules' modes, such as the input's numbers, read in a way that LibTorch cannot see, or a rate
  // that changes from step to step.
  bool control_flow = false;
  // Set where this is stages in graph mode: by InModes().
  std::shared_ptr<const GraphUnit> unit = nullptr;
};

// A stage a child. The children are shared; what is added to `sequential` later is not.
std::vector<TorchStage> StagesOf(torch::nn::Sequential sequential);

// The loss of a step, a tensor of one number, from the last stage's output.
using TorchLoss = std::function<at::Tensor(const at::Tensor&)>;

struct TorchOptions {
  c10::Device device = c10::kCPU;
  int64_t granularity = 1;  // bytes: what the device's allocator rounds up to
  // Compares the output of every recomputation with the first run's, of which it keeps a copy in
  // host memory: a step fails where any number differs by more than `tolerance` relatively and
  // absolutely, and names the stage.
  bool verifies = false;
  double tolerance = 0;
};

// Gradients are added to those of the parameters, as by backward(). Between the forward and the
// backward of a step the parameters must not change. A stage
// - may work in place, but not on its input; its output may be a part of its input, and is copied;
// - whose module is in training mode writes its buffers once a step, whatever is recomputed;
// - that keeps a tensor of its own which its backward needs, outside parameters and buffers, is
//   shared(): it can be recomputed, not offloaded;
// - whose tensors are used by another one, beside its output, fails the step;
// - that runs a backward inside its forward must be no_recompute.
// Stages that share a parameter add to its gradient one after the other. Backwards run without
// autocast, as LibTorch recommends, whatever the forwards run under.
//
// The members of Stages and HeldStages are the executor's to call; none throws. Errors begin with
// the stage's name and are
//   INVALID_ARGUMENT   a stage that does what stages may not, with the remedy;
//   FAILED_PRECONDITION  a plan of another network; a stage that does not compute the same twice;
//   RESOURCE_EXHAUSTED  no memory;  INTERNAL  what else LibTorch throws.
// After a step that failed, gradients and buffers are as it left them: zero the gradients first.
class TorchStages final : public HeldStages {
 public:
  TorchStages(std::vector<TorchStage> stages, const TorchOptions& options);

  int length() const { return static_cast<int>(stages_.size()) - 1; }  // L
  const TorchStage& stage(int l) const { return stages_[static_cast<size_t>(l) - 1]; }
  std::vector<TorchStage> stages() const { return {stages_.begin(), stages_.end() - 1}; }
  const TorchOptions& options() const { return options_; }
  std::vector<at::Tensor> Parameters() const;  // each once
  std::vector<at::Tensor> Buffers() const;

  // What the next step computes; before every step. The memory of the input leaves the device with
  // value 0 only where the caller has let go of it. LibTorch's settings for the calling thread,
  // such as autocast, are the step's, too.
  void Feed(at::Tensor input, TorchLoss loss);
  // What `other` has been fed, and for its caller.
  void FeedAs(const TorchStages& other);
  // Of the last step that ended well.
  const at::Tensor& loss() const { return loss_; }
  const at::Tensor& input_gradient() const {
    return input_gradient_;
  }  // undefined where it needs none

  // Recomputations that were compared with their first runs, in all steps.
  int64_t verified() const { return verified_; }

  // What is live, and other things in its place: for a profiler.
  int64_t ValueBytes(int l) const;
  int64_t GradientBytes(int l) const;
  at::Tensor Output(int l) const { return Value(l).Output(); }
  void SetOutput(int l, const at::Tensor& output, bool differentiable);  // undefined: nothing
  void SetGradient(int l, at::Tensor gradient);
  // Whether any FORWARD_SAVE has found memory of value l held elsewhere, too.
  bool shared(int l) const { return shared_[static_cast<size_t>(l)]; }
  bool differentiable(int l) const { return Value(l).differentiable(); }

  absl::Status Begin(DeviceSpan input, void* stream) override;
  absl::Status Forward(const ForwardCall& call) override;
  absl::Status Backward(const BackwardCall& call) override;
  absl::Status End(DeviceSpan input_gradient, void* stream) override;
  absl::Status CopyToHost(int l, PinnedSpan to, void* stream) override;
  absl::Status Release(int l) override;
  absl::Status CopyToDevice(int l, PinnedSpan from, void* stream) override;
  void Abandon() override;

 private:
  class Run;

  // What a first run put out, in memory that is not LibTorch's: it is no activation.
  struct FirstOutput {
    TensorView view;
    std::vector<std::byte> bytes;
  };

  HeldValue& Value(int l) { return values_[static_cast<size_t>(l)]; }
  const HeldValue& Value(int l) const { return values_[static_cast<size_t>(l)]; }
  void FindConstants();
  void Drop(int l) { Value(l) = HeldValue(); }
  absl::Status CheckForward(int l) const;
  absl::Status CheckBackward(int l) const;
  absl::Status Verify(int l, int run);
  // The stage's name before what `call` fails with, or LibTorch throws.
  absl::Status Named(int l, const std::function<absl::Status()>& call) const;

  std::vector<TorchStage> stages_;  // and, behind them, the loss
  const TorchOptions options_;
  at::Tensor input_;
  std::optional<at::ThreadLocalState> callers_;  // of the thread that fed
  void* compute_stream_ = nullptr;
  int64_t verified_ = 0;
  int active_ = 0;             // the stage that is running forward or backward; 0: none
  bool loss_is_done_ = false;  // the backward of this step has begun
  at::Tensor loss_;
  at::Tensor input_gradient_;

  // By stage or value, 0..L+1.
  std::vector<HeldValue> values_;
  std::vector<at::Tensor> gradients_;
  std::vector<Replay> replays_;
  std::vector<FirstOutput> first_outputs_;  // where recomputations are verified
  std::vector<bool> shared_;
  // LibTorch's storages of parameters and buffers, and whether they are parameters'.
  std::unordered_map<const void*, bool> constants_;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_TORCH_STAGES_H_
