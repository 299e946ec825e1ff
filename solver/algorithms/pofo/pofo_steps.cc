#include "solver/algorithms/pofo/pofo_steps.h"

#include <algorithm>

namespace stowage {

PofoSteps::PofoSteps(const Chain& chain, const Platform& platform, const PartSequences& sequences,
                     int64_t memory_bytes)
    : chain_(chain),
      platform_(platform),
      sequences_(sequences),
      memory_(memory_bytes),
      out_rate_(platform.offload_bytes_per_second),
      in_rate_(platform.prefetch_rate()),
      moves_(platform.has_link()) {
  for (int l = 1; l <= loss(); ++l) {
    const Stage& stage = chain.stage(l);
    const int64_t gradients = chain.gradient_bytes(l) + chain.gradient_bytes(l - 1);
    save_need_.push_back(stage.saved_bytes + stage.forward_overhead_bytes);
    back_need_.push_back(stage.saved_bytes + gradients + stage.backward_overhead_bytes);
  }
}

double PofoSteps::AgainSeconds(int first, int last, int64_t kept, double returning,
                               int32_t* sequence) const {
  const auto options = sequences_.Of(first - 1, last - 1);
  const int64_t free = memory_ - kept;
  const auto after = std::upper_bound(
      options.begin(), options.end(), free,
      [](int64_t bytes, const PartSequences::Sequence& s) { return bytes < s.peak_bytes; });
  const double once = sequences_.ForwardSeconds(first - 1, last - 1);
  const double backward = BackwardSeconds(first, last);
  const auto late = [this, free, returning, backward](const PartSequences::Sequence& s) {
    return s.reach_seconds + (returning - static_cast<double>(free)) / in_rate_ - backward;
  };
  double best = kNoWay;
  for (auto s = after; s != options.begin();) {
    --s;
    const double alone = once + s->lost_seconds;
    if (alone >= best) break;  // less memory, more time
    const double seconds = returning > 0 ? std::max(alone, late(*s)) : alone;
    if (seconds < best) {
      best = seconds;
      *sequence = sequences_.IndexOf(*s);
    }
  }
  if (returning <= 0) return best;
  for (const PartSequences::Sequence& slower : sequences_.SlowerOf(first - 1, last - 1)) {
    if (slower.peak_bytes > free) continue;
    const double seconds = std::max(once + slower.lost_seconds, late(slower));
    if (seconds < best) {
      best = seconds;
      *sequence = sequences_.IndexOf(slower);
    }
  }
  return best;
}

int64_t PofoSteps::LeastAgainBytes(int first, int last) const {
  const auto ways = sequences_.Of(first - 1, last - 1);
  return ways.empty() ? INT64_MAX : ways.front().peak_bytes;
}

}  // namespace stowage
