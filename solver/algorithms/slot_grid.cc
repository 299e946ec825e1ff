#include "solver/algorithms/slot_grid.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace stowage {

int64_t SlotGrid::Slots(int64_t size_bytes) const {
  if (size_bytes == 0 || bytes == 0) return size_bytes;  // without memory, more than every level
  __extension__ using Wide = __int128;
  const Wide product = static_cast<Wide>(size_bytes) * slots;
  const Wide half = rounding == Rounding::kUp ? static_cast<Wide>(bytes) - 1 : bytes / 2;
  return static_cast<int64_t>((product + half) / bytes);
}

namespace {

// By how much, in slots, the values are off; outputs, of which fewer are kept, count half.
double Misfit(const Chain& chain, double slots_per_byte) {
  double misfit = 0;
  const auto off = [slots_per_byte](int64_t bytes) {
    const double slots = static_cast<double>(bytes) * slots_per_byte;
    return std::abs(slots - std::nearbyint(slots));
  };
  for (int l = 1; l <= chain.length(); ++l) {
    misfit += off(chain.saved_bytes(l)) + off(chain.output_bytes(l)) / 2;
  }
  return misfit;
}

}  // namespace

SlotGrid BestFittingGrid(const Chain& chain, int64_t bytes, int64_t slots) {
  SlotGrid best{bytes, slots, SlotGrid::Rounding::kNearest};
  if (bytes == 0) return best;
  // A few more are tried than a step of one slot could tell apart on a fine grid.
  constexpr int64_t kMostTried = 1000;
  const int64_t first = std::max<int64_t>(1, slots * 7 / 10);
  const int64_t last = slots + slots / 4;
  const int64_t step = (last - first) / kMostTried + 1;
  double least = INFINITY;
  for (int64_t tried = last; tried >= first; tried -= step) {
    const double slots_per_byte = static_cast<double>(tried) / static_cast<double>(bytes);
    const double misfit = Misfit(chain, slots_per_byte) / static_cast<double>(tried);
    constexpr double kWorthIt = 0.999;  // else the finer one
    if (misfit >= least * kWorthIt) continue;
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
  const double bias = true_slots > 0 ? rounded_slots / true_slots - 1 : 0;
  constexpr double kLeast = 0.05;
  constexpr double kMost = 0.25;
  const double share = std::clamp(kLeast + bias, kLeast, kMost);
  return grid.slots + 1 + static_cast<int64_t>(share * static_cast<double>(grid.slots));
}

}  // namespace stowage
