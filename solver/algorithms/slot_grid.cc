#include "solver/algorithms/slot_grid.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace stowage {

int64_t SlotGrid::Slots(int64_t size_bytes) const {
  if (size_bytes == 0 || bytes == 0) return size_bytes;  // without memory, more than every level
  // size_bytes * slots may exceed 64 bits.
  __extension__ using Wide = __int128;
  const Wide product = static_cast<Wide>(size_bytes) * slots;
  const Wide half = rounding == Rounding::kUp ? static_cast<Wide>(bytes) - 1 : bytes / 2;
  return static_cast<int64_t>((product + half) / bytes);
}

namespace {

// A measure of how unevenly rounding affects the values of a chain. A common factor is harmless,
// since LevelsBeyond() compensates for it; errors in both directions make the wrong values look
// cheap. With x the exact and r the rounded size in slots, and c = Σr / Σx over saved values:
//   misfit = Σ|r - c x| / Σx over saved values + 0.05 times the same over outputs
// Outputs count little because fewer of them are kept.
double Misfit(const Chain& chain, double slots_per_byte) {
  struct Sum {
    double slots = 0;
    double rounded = 0;
  };
  const auto in_slots = [slots_per_byte](int64_t bytes) {
    const double slots = static_cast<double>(bytes) * slots_per_byte;
    return Sum{slots, std::nearbyint(slots)};
  };
  Sum saved;
  for (int l = 1; l <= chain.length(); ++l) {
    const Sum one = in_slots(chain.saved_bytes(l));
    saved.slots += one.slots;
    saved.rounded += one.rounded;
  }
  if (saved.slots <= 0) return 0;
  const double scale = saved.rounded / saved.slots;
  double saved_off = 0;
  double output_off = 0;
  double output_slots = 0;
  for (int l = 1; l <= chain.length(); ++l) {
    const Sum value = in_slots(chain.saved_bytes(l));
    const Sum output = in_slots(chain.output_bytes(l));
    saved_off += std::abs(value.rounded - scale * value.slots);
    output_off += std::abs(output.rounded - scale * output.slots);
    output_slots += output.slots;
  }
  constexpr double kOutputs = 0.05;
  return saved_off / saved.slots + (output_slots > 0 ? kOutputs * output_off / output_slots : 0);
}

}  // namespace

SlotGrid BestFittingGrid(const Chain& chain, int64_t bytes, int64_t slots) {
  SlotGrid best{bytes, slots, SlotGrid::Rounding::kNearest};
  if (bytes == 0) return best;
  constexpr int64_t kMaxTried = 1000;  // grids; large numbers of slots are sampled
  const int64_t first = std::max<int64_t>(1, slots * 7 / 10);
  const int64_t last = slots + slots / 2;
  const int64_t step = (last - first) / kMaxTried + 1;
  double least = INFINITY;
  for (int64_t tried = first; tried <= last; tried += step) {
    const double slots_per_byte = static_cast<double>(tried) / static_cast<double>(bytes);
    // A finer grid has smaller relative errors but costs time. The factor removes that advantage.
    const double misfit = Misfit(chain, slots_per_byte) * static_cast<double>(tried);
    if (misfit >= least) continue;
    least = misfit;
    best.slots = tried;
  }
  return best;
}

int64_t LevelsBeyond(const Chain& chain, const SlotGrid& grid) {
  double true_slots = 0;
  double rounded_slots = 0;
  for (int l = 1; l <= chain.length(); ++l) {
    const double slots = static_cast<double>(chain.saved_bytes(l)) /
                         static_cast<double>(std::max<int64_t>(1, grid.bytes)) *
                         static_cast<double>(grid.slots);
    true_slots += slots;
    rounded_slots += std::nearbyint(slots);
  }
  // If sizes are rounded up on average, the same share of additional levels is needed.
  const double bias = true_slots > 0 ? rounded_slots / true_slots - 1 : 0;
  constexpr double kMin = 0.05;
  constexpr double kMax = 0.25;
  const double share = std::clamp(kMin + bias, kMin, kMax);
  return grid.slots + 1 + static_cast<int64_t>(share * static_cast<double>(grid.slots));
}

}  // namespace stowage
