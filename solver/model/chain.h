// A chain of layers: the input of a training job's profile and of every solver.
// Source: solver/README.md, "Chain"; symbols follow the papers. Bytes and seconds throughout.
#ifndef STOWAGE_SOLVER_MODEL_CHAIN_H_
#define STOWAGE_SOLVER_MODEL_CHAIN_H_

#include <cassert>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stowage {

// The limits of solver/README.md, checked by Violations().
inline constexpr int kMaxStages = 10'000;
inline constexpr int64_t kMaxTotalBytes = int64_t{1} << 62;  // every sum of sizes is below it

// What a stage costs in graph mode: compiled and fused. Its output and gradient are the stage's. A
// fusion group takes the sums of times and saved bytes and the largest overheads (modes.h).
// Source: Mixed Mode, "Formulation".
struct GraphCosts {
  double forward_seconds = 0;
  double backward_seconds = 0;
  int64_t saved_bytes = 0;
  int64_t forward_overhead_bytes = 0;
  int64_t backward_overhead_bytes = 0;

  bool operator==(const GraphCosts&) const = default;
};

// One layer or block of layers.
struct Stage {
  std::string name;                       // free text, unique in the chain when set
  double forward_seconds = 0;             // u_F, the same for every kind of forward
  double backward_seconds = 0;            // u_B
  int64_t output_bytes = 0;               // |a^l|
  int64_t saved_bytes = 0;                // |ā^l|: all the backward needs, output included
  std::optional<int64_t> gradient_bytes;  // |δ^l|; unset: output_bytes
  int64_t forward_overhead_bytes = 0;     // o_F: temporary, beyond input and output
  int64_t backward_overhead_bytes = 0;    // o_B
  bool no_recompute = false;              // the forward may run only once, as FORWARD_SAVE
  bool no_offload = false;                // its value may not leave the device
  std::optional<GraphCosts> graph = {};   // unset: no graph mode
  std::string fusion_group = {};          // neighbours that graph mode fuses; empty: none
  bool control_flow = false;              // excludes the stage and its group from graph mode
  // u_R: of a forward right before its own backward; unset: u_F.
  std::optional<double> replay_seconds = {};
  bool input_unread = false;  // the backward does not read a^(l-1)

  // u_R: what a forward takes whose output nobody reads, because its backward follows at once.
  double ReplaySeconds() const { return replay_seconds.value_or(forward_seconds); }

  bool operator==(const Stage&) const = default;
};

// L stages, numbered from 1, and the loss, stage L+1. Value 0 is the chain's input.
// Every method requires l in the stated range. Plain data: copyable, thread-compatible.
struct Chain {
  std::string name;
  int64_t input_bytes = 0;                      // |a^0|
  std::optional<int64_t> input_gradient_bytes;  // |δ^0|; unset: input_bytes
  std::vector<Stage> stages;
  Stage loss;
  double graph_entry_seconds = 0;  // for every run of neighbouring stages in graph mode

  int length() const { return static_cast<int>(stages.size()); }  // L
  const Stage& stage(int l) const {                               // l in 1..L+1
    assert(l >= 1 && l <= length() + 1);
    return l == length() + 1 ? loss : stages[static_cast<size_t>(l) - 1];
  }
  int64_t output_bytes(int l) const {  // |a^l|, l in 0..L+1
    return l == 0 ? input_bytes : stage(l).output_bytes;
  }
  int64_t saved_bytes(int l) const { return stage(l).saved_bytes; }  // |ā^l|, l in 1..L+1
  int64_t gradient_bytes(int l) const {                              // |δ^l|, l in 0..L+1; loss: 0
    if (l == length() + 1) return 0;
    if (l == 0) return input_gradient_bytes.value_or(input_bytes);
    return stage(l).gradient_bytes.value_or(stage(l).output_bytes);
  }

  bool operator==(const Chain&) const = default;
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_MODEL_CHAIN_H_
