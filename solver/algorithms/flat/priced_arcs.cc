#include "solver/algorithms/flat/priced_arcs.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace stowage {
namespace {

// No arc takes more ticks, so that those of any plan can be added; a bound that is too low holds.
constexpr double kMostTicks = 0x1p48;

double CopySeconds(const Arc& arc, const Platform& platform, double rate) {
  return arc.copies * platform.transfer_latency_seconds + static_cast<double>(arc.add) / rate;
}

}  // namespace

double OffloadSeconds(const Arc& arc, const Platform& platform) {
  return CopySeconds(arc, platform, platform.offload_bytes_per_second);
}

double PrefetchSeconds(const Arc& arc, const Platform& platform) {
  return CopySeconds(arc, platform, platform.prefetch_rate());
}

int64_t PricedArcs::Ticks(double seconds) const {
  return static_cast<int64_t>(std::min(kMostTicks, seconds / seconds_per_tick()));
}

void PricedArcs::From(int position, int64_t room, std::vector<Arc>* arcs) const {
  arcs_.From(position, room, arcs);
  const size_t count = arcs->size();
  for (size_t i = 0; i < count; ++i) {
    Arc& arc = (*arcs)[i];
    arc.ticks = static_cast<int64_t>((1 - prices_.prefetch) * static_cast<double>(arc.ticks));
    if (arc.copies == 0 || arc.to > positions()) continue;
    Arc offloaded = arc;
    offloaded.offloaded = true;
    offloaded.add = 0;
    offloaded.ticks += Ticks(prices_.offload * OffloadSeconds(arc, platform_) +
                             prices_.prefetch * PrefetchSeconds(arc, platform_));
    arcs->push_back(offloaded);
  }
}

}  // namespace stowage
