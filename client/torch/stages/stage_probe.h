// Reads and replaces what stages hold, to measure one stage after the other.
#ifndef STOWAGE_CLIENT_TORCH_STAGES_STAGE_PROBE_H_
#define STOWAGE_CLIENT_TORCH_STAGES_STAGE_PROBE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/torch/stages/held_value.h"
#include "client/torch/stages/stage_state.h"
#include "client/torch/stages/torch_stage.h"
#include "client/torch/stages/torch_stages.h"
#include "solver/algorithms/kept_operators.h"

namespace stowage {

// Between Begin() and End() of the stages, or Abandon(). Values and stages are numbered like the
// chain's: value 0 is the input, stage L+1 the loss. Not thread-safe. Members that take or return
// tensors may throw LibTorch's exceptions.
class StageProbe {
 public:
  // Borrows `stages`.
  explicit StageProbe(TorchStages* stages) : stages_(*stages) {}

  int64_t ValueBytes(int l) const;
  StageOutput Output(int l) const { return state(l).value.Output(); }
  void SetOutput(int l, const StageOutput& output) { state(l).SetOutput(output); }

  int64_t GradientBytes(int l) const;
  void SetGradients(int l, Tensors gradients);  // by tensor of the output
  // Of value l-1, by tensor, after BACKWARD l.
  const std::vector<GradientPart>& gradient_parts(int l) const { return state(l).gradient_parts; }

  // Whether any FORWARD_SAVE of stage l found its value's memory referenced by another object.
  bool shared(int l) const { return state(l).shared; }
  // Of the value of the last FORWARD_SAVE of stage l: HeldValue::PassedBytes().
  int64_t passed_bytes(int l) const { return state(l).passed_bytes; }
  // After FORWARD_SAVE l: whether its backward needs value l-1, or may keep it alive.
  bool NeedsInput(int l) const;
  // After FORWARD_SAVE l: equal for stages that do the same work on other numbers, as far as
  // autograd's graph and the sizes of tensors tell. Empty where they do not.
  std::string WorkOf(int l) const;
  // Whether a replay of stage l, next, may end before the stage does.
  bool EndsEarly(int l) const { return state(l).recorded.has_value(); }
  // The next forward of stage l keeps all of its operators' results, and measures them, like an
  // option that is none of the stage's. `costs` gets the operators, and outlives the forward; null:
  // the next forward measures none.
  void MeasureOperators(int l, std::vector<OperatorCost>* costs) {
    state(l).measured_operators = costs;
  }

 private:
  StageState& state(int l) const { return stages_.state(l); }

  TorchStages& stages_;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_STAGES_STAGE_PROBE_H_
