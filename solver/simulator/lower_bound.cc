#include "solver/simulator/lower_bound.h"

#include <algorithm>

namespace stowage {
namespace {

// The least that value l takes when a later operation reads it.
int64_t LeastValueBytes(const Chain& chain, int l) {
  return l > 0 && chain.stage(l).no_recompute ? chain.saved_bytes(l) : chain.output_bytes(l);
}

}  // namespace

double LowerBoundSeconds(const Chain& chain) { return chain.ComputeSeconds(); }

MemoryFloor FloorOfMemory(const Chain& chain) {
  MemoryFloor floor{-1, {}};
  const auto consider = [&floor](int64_t bytes, OperationKind kind, int l) {
    if (bytes > floor.bytes) floor = {bytes, {kind, l}};
  };
  for (int l = 1; l <= chain.length() + 1; ++l) {
    const Stage& stage = chain.stage(l);
    const int64_t values = LeastValueBytes(chain, l - 1) + stage.saved_bytes;
    consider(values + stage.forward_overhead_bytes, OperationKind::kForwardSave, l);
    consider(values + chain.gradient_bytes(l) + chain.gradient_bytes(l - 1) +
                 stage.backward_overhead_bytes,
             OperationKind::kBackward, l);
  }
  return floor;
}

int64_t StoreAllPeakBytes(const Chain& chain) {
  int64_t stored = chain.input_bytes;
  int64_t peak = stored;
  for (int l = 1; l <= chain.length() + 1; ++l) {
    const Stage& stage = chain.stage(l);
    stored += stage.saved_bytes;
    peak = std::max(peak, stored + stage.forward_overhead_bytes);
    // The same values are there again when the backward of stage l runs.
    peak = std::max(peak, stored + chain.gradient_bytes(l) + chain.gradient_bytes(l - 1) +
                              stage.backward_overhead_bytes);
  }
  return peak;
}

}  // namespace stowage
