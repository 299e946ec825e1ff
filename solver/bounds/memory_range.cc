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

// The least size of a stage's value when a later operation reads it. A no_recompute stage is always
// saved, but in graph mode it may save less, so only its output counts if it has graph costs.
int64_t LeastValueBytes(const Stage& stage) {
  const bool saves = stage.no_recompute && !stage.graph.has_value();
  return saves ? LeastSavedBytes(stage) : stage.output_bytes;
}

// What stands beside stages first..last, which run as one.
struct Neighbours {
  const Stage* before = nullptr;  // whose value they read; null: the input
  int64_t input_bytes = 0;
  int64_t gradients_bytes = 0;  // of their value and of the one before
};

Neighbours NeighboursOf(const Chain& chain, int first, int last) {
  return {.before = first > 1 ? &chain.stage(first - 1) : nullptr,
          .input_bytes = chain.input_bytes,
          .gradients_bytes = chain.gradient_bytes(last) + chain.gradient_bytes(first - 1)};
}

// The larger need of FORWARD_SAVE l by an option and BACKWARD l, and the operation that has it: for
// the option that needs the least.
MemoryFloor FloorOfStage(const Stage& stage, int l, const Neighbours& beside) {
  const int64_t read =
      beside.before == nullptr ? beside.input_bytes : LeastValueBytes(*beside.before);
  // A value that no backward reads may be saved later, by a forward of its own stage.
  const bool gone =
      stage.input_unread && (beside.before == nullptr || !beside.before->no_recompute);
  MemoryFloor least{-1, {}};
  for (int k = 0; k <= stage.last_option(); ++k) {
    const int64_t forward = read + stage.SaveNeedBytes(k);
    const int64_t backward = (gone ? 0 : read) + stage.SavedBytes(k) + beside.gradients_bytes +
                             stage.BackwardOverheadBytes(k);
    if (k > 0 && std::max(forward, backward) >= least.bytes) continue;
    least = backward > forward
                ? MemoryFloor{backward, {OperationKind::kBackward, l}}
                : MemoryFloor{forward,
                              {.kind = OperationKind::kForwardSave, .stage = l, .save_option = k}};
  }
  return least;
}

MemoryFloor EagerFloor(const Chain& chain, const Unit& unit) {
  MemoryFloor floor{-1, {}};
  for (int l = unit.first; l <= unit.last; ++l) {
    const Neighbours beside = NeighboursOf(chain, l, l);
    const Stage& stage = chain.stage(l);
    const MemoryFloor one = FloorOfStage(stage, l, beside);
    if (one.bytes > floor.bytes) floor = one;
  }
  return floor;
}

MemoryFloor GraphFloor(const Chain& chain, const Unit& unit) {
  const Neighbours beside = NeighboursOf(chain, unit.first, unit.last);
  MemoryFloor floor = FloorOfStage(GraphStage(chain, unit), unit.last, beside);
  floor.operation.mode = Mode::kGraph;
  if (unit.first != unit.last) floor.operation.first_stage = unit.first;
  return floor;
}

}  // namespace

MemoryFloor FloorOfMemory(const Chain& chain) {
  MemoryFloor floor{-1, {}};
  for (const Unit& unit : UnitsOf(chain)) {
    MemoryFloor least = EagerFloor(chain, unit);
    if (unit.has_graph) {
      const MemoryFloor graph = GraphFloor(chain, unit);
      if (graph.bytes < least.bytes) least = graph;
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
