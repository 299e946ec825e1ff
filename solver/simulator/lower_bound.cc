#include "solver/simulator/lower_bound.h"

#include <algorithm>
#include <cmath>

#include "solver/simulator/cut_bound.h"

namespace stowage {
namespace {

// The least that value l takes when a later operation reads it.
int64_t LeastValueBytes(const Chain& chain, int l) {
  return l > 0 && chain.stage(l).no_recompute ? chain.saved_bytes(l) : chain.output_bytes(l);
}

// Sums of the same times in another order differ by less.
constexpr double kSummation = 1e-12;

}  // namespace

double LowerBoundSeconds(const Chain& chain, const Platform& platform) {
  const double seconds = CutBoundSeconds(chain, platform);
  return std::max(chain.ComputeSeconds(), seconds * (1 - kSummation / 2));
}

double Excess(double a, double b) {
  return std::abs(a - b) > kSummation * b && b > 0 ? a / b - 1 : 0;
}

void FillBound(const Chain& chain, const Platform& platform, Prediction* prediction) {
  Platform limits = platform;
  limits.memory_bytes = std::max(limits.memory_bytes, prediction->peak_memory_bytes);
  if (limits.host_memory_bytes > 0) {
    limits.host_memory_bytes = std::max(limits.host_memory_bytes, prediction->peak_host_bytes);
  }
  prediction->lower_bound_seconds = LowerBoundSeconds(chain, limits);
  prediction->gap = Excess(prediction->makespan_seconds, prediction->lower_bound_seconds);
}

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
