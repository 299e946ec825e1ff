// A chain of layers: the input of a training job's profile and of every solver.
// Source: solver/README.md, "Chain"; symbols follow the papers. Bytes and seconds throughout.
#ifndef STOWAGE_SOLVER_MODEL_CHAIN_H_
#define STOWAGE_SOLVER_MODEL_CHAIN_H_

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stowage {

// The limits of solver/README.md, checked by Violations().
inline constexpr int kMaxStages = 10'000;
inline constexpr int kMaxSaveOptions = 5;                    // of a stage
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

// A further way to save a stage: it saves less than the stage's own way, and its backward, which
// reruns what is missing, takes no less time. Forwards cost the same in every way.
struct SaveOption {
  std::string name = {};                // free text
  int64_t saved_bytes = 0;              // |ā^l|: from output_bytes to the stage's saved_bytes
  double backward_seconds = 0;          // u_B: at least the stage's
  int64_t backward_overhead_bytes = 0;  // o_B
  std::optional<int64_t> save_overhead_bytes = {};  // o_S; unset: the stage's o_F
  // What it keeps and what its backward reruns, in a framework's words, for exports (model.proto).
  std::vector<std::string> kept = {};
  std::vector<std::string> rerun = {};

  bool operator==(const SaveOption&) const = default;
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
  // Neighbours that graph mode fuses, and a layer of algorithms/flat; empty: none.
  std::string fusion_group = {};
  bool control_flow = false;  // excludes the stage and its group from graph mode
  // u_R: of a forward right before its own backward; unset: u_F.
  std::optional<double> replay_seconds = {};
  bool input_unread = false;                  // no way's backward reads a^(l-1)
  std::vector<SaveOption> save_options = {};  // from 1; option 0 is the stage's own way
  // o_S: o_F of a forward that saves, beyond input and saved_bytes; unset: o_F.
  std::optional<int64_t> save_overhead_bytes = {};

  // u_R: what a forward takes whose output nobody reads, because its backward follows at once.
  double ReplaySeconds() const { return replay_seconds.value_or(forward_seconds); }

  // What saving by option k costs, k in 0..last_option().
  int64_t SavedBytes(int k) const { return k == 0 ? saved_bytes : option(k).saved_bytes; }
  double BackwardSeconds(int k) const {
    return k == 0 ? backward_seconds : option(k).backward_seconds;
  }
  int64_t BackwardOverheadBytes(int k) const {
    return k == 0 ? backward_overhead_bytes : option(k).backward_overhead_bytes;
  }
  int64_t SaveOverheadBytes(int k) const {
    return (k == 0 ? save_overhead_bytes : option(k).save_overhead_bytes)
        .value_or(forward_overhead_bytes);
  }
  // Beyond the input: what a FORWARD_SAVE by option k needs, and what any other forward needs.
  int64_t SaveNeedBytes(int k) const { return SavedBytes(k) + SaveOverheadBytes(k); }
  int64_t OutputNeedBytes() const { return output_bytes + forward_overhead_bytes; }
  int last_option() const { return static_cast<int>(save_options.size()); }
  const SaveOption& option(int k) const {  // k in 1..last_option()
    assert(k >= 1 && k <= last_option());
    return save_options[static_cast<size_t>(k) - 1];
  }

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

  // Saved by its own way alone.
  void ClearSaveOptions() {
    for (Stage& stage : stages) stage.save_options.clear();
    loss.save_options.clear();
  }

  bool has_save_options() const {
    for (const Stage& stage : stages) {
      if (!stage.save_options.empty()) return true;
    }
    return !loss.save_options.empty();
  }
  bool has_unread_inputs() const {  // then no unit has a graph mode
    for (const Stage& stage : stages) {
      if (stage.input_unread) return true;
    }
    return loss.input_unread;
  }

  bool operator==(const Chain&) const = default;
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_MODEL_CHAIN_H_
