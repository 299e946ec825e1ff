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

// What is on the device beside stages first..last while they run as one: beside FORWARD_SAVE the
// value that it reads, beside BACKWARD that value, where it is still read, and both gradients.
struct BesideBytes {
  int64_t forward = 0;
  int64_t backward = 0;
};

BesideBytes BesideStages(const Chain& chain, int first, int last) {
  const int64_t gradients = chain.gradient_bytes(last) + chain.gradient_bytes(first - 1);
  const bool unread = chain.stage(first).input_unread;
  if (first == 1) return {chain.input_bytes, gradients + (unread ? 0 : chain.input_bytes)};
  const Stage& before = chain.stage(first - 1);
  const int64_t read = LeastValueBytes(before);
  // A value that nobody reads may be saved later, by a forward of its own stage.
  const bool gone = unread && !before.no_recompute;
  return {read, gradients + (gone ? 0 : read)};
}

// The larger need of FORWARD_SAVE l by an option and BACKWARD l, and the operation that has it: for
// the option that needs the least.
MemoryFloor FloorOfStage(const Stage& stage, int l, const BesideBytes& beside) {
  MemoryFloor least{-1, {}};
  for (int k = 0; k <= stage.last_option(); ++k) {
    const int64_t forward = beside.forward + stage.SaveNeedBytes(k);
    const int64_t backward = beside.backward + stage.SavedBytes(k) + stage.BackwardOverheadBytes(k);
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
    const MemoryFloor one = FloorOfStage(chain.stage(l), l, BesideStages(chain, l, l));
    if (one.bytes > floor.bytes) floor = one;
  }
  return floor;
}

MemoryFloor GraphFloor(const Chain& chain, const Unit& unit) {
  MemoryFloor floor =
      FloorOfStage(GraphStage(chain, unit), unit.last, BesideStages(chain, unit.first, unit.last));
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
