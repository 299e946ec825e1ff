// A LibTorch network, cut into stages, as the executor's FrameworkStages. Training under a schedule
// has the same results as training without one.
#ifndef STOWAGE_CLIENT_TORCH_STAGES_TORCH_STAGES_H_
#define STOWAGE_CLIENT_TORCH_STAGES_TORCH_STAGES_H_

#include <ATen/ThreadLocalState.h>
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/agent/stages.h"
#include "client/torch/stages/stage_borders.h"
#include "client/torch/stages/stage_forward.h"
#include "client/torch/stages/stage_state.h"
#include "client/torch/stages/torch_stage.h"

namespace stowage {

struct TorchOptions {
  c10::Device device = c10::kCPU;
  int64_t granularity = 1;  // bytes; the device's allocator rounds sizes up to a multiple of it
  // The last stage and the loss are one: its output is freed before the loss's backward, unless the
  // loss keeps it. Requires: two stages at least, and no graph mode.
  bool joins_loss = false;
  // Compares the output of every recomputation with a host copy of the first run's output. The step
  // fails and names the stage if a number differs by more than `tolerance`, relatively and
  // absolutely.
  bool verifies = false;
  double tolerance = 0;
};

// A step adds gradients to those of the parameters, like backward(). The parameters must not change
// between the forward and the backward of a step. Requirements on a stage:
// 1. It may work in place, but not on its input. An output that is a view of the input is copied;
//    one that is the input, or a part of its tuple, passes by.
// 2. A tensor that its backward needs and that it keeps itself, outside parameters and buffers,
//    makes it shared(): it can be recomputed but not offloaded.
// 3. Other stages must use only what it returns: the next one its output, later ones the skips that
//    it saves. Else the step fails, and the error names both stages.
// 4. It must be no_recompute if it runs a backward inside its forward.
// A recomputation may end inside the forward, by an exception, once it has what the backward reads
// (RecordedGraph).
// Buffers are written once a step, however often a stage is recomputed. Stages that share a
// parameter add to its gradient one after the other. Backwards run without autocast, as LibTorch
// recommends. A stage that is saved by an option is rerun at the beginning of its backward, which
// checks that it calls the same operators; TorchOptions::verifies does not compare such reruns.
//
// The executor calls the members of FrameworkStages; none throws. Their errors begin with the
// stage's name:
//   INVALID_ARGUMENT     a stage violates a requirement above; the message has the remedy
//   FAILED_PRECONDITION  a plan of another network; a stage whose recomputation differs
//   RESOURCE_EXHAUSTED   out of memory
//   INTERNAL             any other exception of LibTorch
// After a failed step, gradients and buffers are partly updated: zero the gradients before the
// next.
class TorchStages final : public FrameworkStages {
 public:
  TorchStages(std::vector<TorchStage> stages, const TorchOptions& options);

  // L: without a stage that is joined with the loss, as in stages().
  int length() const { return static_cast<int>(stages_.size()) - 1; }
  const TorchStage& stage(int l) const { return stages_[static_cast<size_t>(l) - 1]; }
  std::vector<TorchStage> stages() const { return {stages_.begin(), stages_.end() - 1}; }
  const TorchOptions& options() const { return options_; }
  std::vector<at::Tensor> Parameters() const;  // each once
  std::vector<at::Tensor> Buffers() const;

  // Sets input and loss of the next step; required before every step. An input to which the caller
  // holds a reference stays on the device, whatever a schedule says. The step uses LibTorch's
  // settings of the calling thread, such as autocast.
  void Feed(TorchInput input, TorchLoss loss);
  // Sets the input, loss and thread settings that `other` has.
  void FeedAs(const TorchStages& other);
  // Of the last step that succeeded.
  const at::Tensor& loss() const { return loss_; }
  const at::Tensor& input_gradient() const { return input_gradient_; }  // undefined: not needed

  // Of the next step: TorchOptions::verifies.
  void set_verifies(bool verifies) { verifies_ = verifies; }
  // The number of recomputations compared with their first runs, over all steps.
  int64_t verified_recomputations() const { return verified_recomputations_; }
  void ForgetVerified() { verified_recomputations_ = 0; }

  // Of stage l, as FindSaveOptions() found them.
  void SetSaveOptions(int l, std::vector<KeptOperators> options);

  absl::Status Begin(void* stream) override;
  absl::Status Forward(const ForwardCall& call) override;
  absl::Status Backward(const BackwardCall& call) override;
  absl::Status End(void* stream) override;
  absl::Status CopyToHost(int l, PinnedSpan to, void* stream) override;
  absl::Status Release(int l) override;
  absl::Status CopyToDevice(int l, PinnedSpan from, void* stream) override;
  void Abandon() override;

 private:
  friend class StageProbe;  // reads and replaces what states_ hold

  StageState& state(int l) { return states_[static_cast<size_t>(l)]; }
  const StageState& state(int l) const { return states_[static_cast<size_t>(l)]; }
  // Releasing value l would free nothing, and copying it back would make a second one.
  bool Stays(int l) const { return l == 0 && input_stays_; }
  absl::Status OtherNetwork() const;
  absl::Status CheckForward(const ForwardCall& call) const;
  absl::Status CheckSaveOption(const ForwardCall& call) const;
  absl::Status CheckBackward(int l) const;
  // Into value l. A rerun is that of a forward which saved by an option.
  enum class Run { kForward, kRerun };
  absl::Status RunStage(int l, OperationKind kind, RecordedGraph* recorded, Run run);
  // Runs the stage as this run of it in the step.
  absl::Status RunForward(const ForwardCall& call, RecordedGraph* recorded);
  // What the backward of stage l reads and its value does not hold.
  absl::Status Rerun(int l);
  // For StageForward; null where the forward neither records its graph nor is a replay of one.
  RecordedGraph* RecordedFor(const ForwardCall& call);
  // Checks what the run has left in value l, and notes for StageProbe what it has found there.
  absl::Status CheckValue(const ForwardCall& call, RecordedGraph* recorded);
  bool IsShared(int l) const;
  absl::Status Verify(const ForwardCall& call);
  absl::Status TakeLoss();
  // Runs `call`, converts its exceptions, and puts the stage's name before its error.
  absl::Status NameStage(int l, const std::function<absl::Status()>& call) const;

  std::vector<TorchStage> stages_;         // the network's, then the loss
  std::optional<TorchStage> before_loss_;  // the one that is joined with it
  std::optional<StageBorders> borders_;    // of stages_
  const TorchOptions options_;
  bool verifies_;
  TorchInput input_;
  std::optional<at::ThreadLocalState> feeder_state_;  // of the thread that called Feed()
  void* compute_stream_ = nullptr;
  int64_t verified_recomputations_ = 0;
  int active_ = 0;            // the stage whose forward or backward is running; 0: none
  bool input_stays_ = false;  // the caller keeps the input of this step
  at::Tensor loss_;
  at::Tensor input_gradient_;
  std::vector<StageState> states_;  // by stage, 0..L+1
  Constants constants_;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_STAGES_TORCH_STAGES_H_
