#include "solver/bounds/memory_range.h"

#include <algorithm>

#include "solver/model/modes.h"

namespace stowage {
namespace {

int64_t LeastSavedBytes(const Stage& stage) {
  int64_t least = stage.saved_bytes;
  for (const SaveOption& option : stage.save_options) {
    least = std::min(least, option.saved_bytes);
  }
  return least;
}

// The least size of value l when a later operation reads it. A no_recompute stage is always saved,
// but in graph mode it may save less, so only its output counts if it has graph costs.
int64_t LeastValueBytes(const Chain& chain, int l) {
  const bool saves = l > 0 && chain.stage(l).no_recompute && !chain.stage(l).graph.has_value();
  return saves ? LeastSavedBytes(chain.stage(l)) : chain.output_bytes(l);
}

// What is on the device of value l-1 while BACKWARD l runs: nothing where nobody reads it and its
// own stage may save it later.
int64_t BesideBackwardBytes(const Chain& chain, int l) {
  const bool gone = chain.stage(l).input_unread && (l == 1 || !chain.stage(l - 1).no_recompute);
  return gone ? 0 : LeastValueBytes(chain, l - 1);
}

// Value l-1 beside FORWARD_SAVE l and BACKWARD l.
struct ReadBytes {
  int64_t forward = 0;
  int64_t backward = 0;
};

// The larger need of FORWARD_SAVE l by an option and BACKWARD l, and the operation that has it: for
// the option that needs the least.
MemoryFloor FloorOfStage(const Stage& stage, int l, const ReadBytes& read,
                         int64_t gradients_bytes) {
  MemoryFloor least{-1, {}};
  for (int k = 0; k <= stage.last_option(); ++k) {
    const int64_t forward = read.forward + stage.SaveNeedBytes(k);
    const int64_t backward =
        read.backward + stage.SavedBytes(k) + gradients_bytes + stage.BackwardOverheadBytes(k);
    if (k > 0 && std::max(forward, backward) >= least.bytes) continue;
    least = backward > forward
                ? MemoryFloor{backward, {OperationKind::kBackward, l}}
                : MemoryFloor{forward,
                              {.kind = OperationKind::kForwardSave, .stage = l, .save_option = k}};
  }
  return least;
}

}  // namespace

MemoryFloor FloorOfMemory(const Chain& chain) {
  MemoryFloor floor{-1, {}};
  for (const Unit& unit : UnitsOf(chain)) {
    MemoryFloor eager{-1, {}};
    for (int l = unit.first; l <= unit.last; ++l) {
      const MemoryFloor one = FloorOfStage(
          chain.stage(l), l, {LeastValueBytes(chain, l - 1), BesideBackwardBytes(chain, l)},
          chain.gradient_bytes(l) + chain.gradient_bytes(l - 1));
      if (one.bytes > eager.bytes) eager = one;
    }
    MemoryFloor least = eager;
    if (unit.has_graph) {
      const int64_t read = LeastValueBytes(chain, unit.first - 1);
      MemoryFloor graph =
          FloorOfStage(GraphStage(chain, unit), unit.last, {read, read},
                       chain.gradient_bytes(unit.last) + chain.gradient_bytes(unit.first - 1));
      graph.operation.mode = Mode::kGraph;
      if (unit.first != unit.last) graph.operation.first_stage = unit.first;
      if (graph.bytes < eager.bytes) least = graph;
    }
    if (least.bytes > floor.bytes) floor = least;
  }
  return floor;
}

int64_t StoreAllPeakBytes(const Chain& chain) {
  int64_t stored = chain.input_bytes;
  int64_t peak = stored;
  for (int l = 1; l <= chain.length() + 1; ++l) {
    const Stage& stage = chain.stage(l);
    stored += stage.saved_bytes;
    peak = std::max(peak, stored + stage.SaveOverheadBytes(0));
    // The same values are there again when the backward of stage l runs.
    peak = std::max(peak, stored + chain.gradient_bytes(l) + chain.gradient_bytes(l - 1) +
                              stage.backward_overhead_bytes);
  }
  return peak;
}

}  // namespace stowage
