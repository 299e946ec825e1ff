#include "solver/bounds/memory_range.h"

#include <algorithm>

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

// The larger need of the FORWARD_SAVE by an option and the BACKWARD of `stage`, as which the unit's
// stages run, and the operation that has it: for the option that needs the least.
MemoryFloor FloorOfStage(const Chain& chain, const Unit& unit, const Stage& stage) {
  const int64_t gradients_bytes =
      chain.gradient_bytes(unit.last) + chain.gradient_bytes(unit.first - 1);
  const Stage* const before = unit.first > 1 ? &chain.stage(unit.first - 1) : nullptr;
  const int64_t read = before == nullptr ? chain.input_bytes : LeastValueBytes(*before);
  // A value that no backward reads may be saved later, by a forward of its own stage.
  const bool gone = stage.input_unread && (before == nullptr || !before->no_recompute);
  MemoryFloor least{-1, {}};
  for (int k = 0; k <= stage.last_option(); ++k) {
    const int64_t forward = read + stage.SaveNeedBytes(k);
    const int64_t backward =
        (gone ? 0 : read) + stage.SavedBytes(k) + gradients_bytes + stage.BackwardOverheadBytes(k);
    if (k > 0 && std::max(forward, backward) >= least.bytes) continue;
    least = backward > forward
                ? MemoryFloor{backward, {OperationKind::kBackward, unit.last}}
                : MemoryFloor{
                      forward,
                      {.kind = OperationKind::kForwardSave, .stage = unit.last, .save_option = k}};
  }
  return least;
}

MemoryFloor EagerFloor(const Chain& chain, const Unit& unit) {
  MemoryFloor floor{-1, {}};
  for (int l = unit.first; l <= unit.last; ++l) {
    const MemoryFloor one = FloorOfStage(chain, {l, l, false}, chain.stage(l));
    if (one.bytes > floor.bytes) floor = one;
  }
  return floor;
}

MemoryFloor GraphFloor(const Chain& chain, const Unit& unit) {
  MemoryFloor floor = FloorOfStage(chain, unit, GraphStage(chain, unit));
  floor.operation.mode = Mode::kGraph;
  if (unit.first != unit.last) floor.operation.first_stage = unit.first;
  return floor;
}

}  // namespace

MemoryFloor FloorOfMemory(const Chain& chain, const ChainUnits& units) {
  MemoryFloor floor{-1, {}};
  for (const Unit& unit : units) {
    MemoryFloor least = EagerFloor(chain, unit);
    if (unit.has_graph) {
      const MemoryFloor graph = GraphFloor(chain, unit);
      if (graph.bytes < least.bytes) least = graph;
    }
    if (least.bytes > floor.bytes) floor = least;
  }
  return floor;
}

MemoryFloor FloorOfMemory(const Chain& chain) { return FloorOfMemory(chain, ChainUnits(chain)); }

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
