#include "solver/algorithms/pofo/pofo_steps.h"

#include <algorithm>

namespace stowage {

PofoSteps::PofoSteps(const Chain& chain, const Platform& platform, const PartSequences& sequences,
                     int64_t memory_bytes)
    : chain_(chain),
      platform_(platform),
      sequences_(sequences),
      memory_(memory_bytes),
      offload_rate_(platform.offload_bytes_per_second),
      prefetch_rate_(platform.prefetch_rate()),
      has_link_(platform.has_link()) {
  for (int l = 1; l <= loss(); ++l) {
    const Stage& stage = chain.stage(l);
    const int64_t gradients = chain.gradient_bytes(l) + chain.gradient_bytes(l - 1);
    save_need_.push_back(stage.saved_bytes + stage.forward_overhead_bytes);
    backward_need_.push_back(stage.saved_bytes + gradients + stage.backward_overhead_bytes);
  }
}

// min over sequences S with K_S <= M - (A + I) of max(U_S, V_S + (A + I + ΔB - M) / βp), less the
// backwards. The second term matters only while something has yet to be prefetched (ΔB > 0).
PofoSteps::Recomputation PofoSteps::FastestRecomputation(StageRange part, int64_t kept_bytes,
                                                         double returning_bytes) const {
  const int first = part.first;
  const int last = part.last;
  const auto options = sequences_.Fastest(first - 1, last - 1);
  const int64_t free = memory_ - kept_bytes;
  const auto after = std::upper_bound(
      options.begin(), options.end(), free,
      [](int64_t bytes, const PartSequences::Sequence& s) { return bytes < s.peak_bytes; });
  const double once = sequences_.ForwardSeconds(first - 1, last - 1);
  const double backward = BackwardSeconds(first, last);
  // Time at which the last prefetch lets the sequence end.
  const auto late = [this, free, returning_bytes, backward](const PartSequences::Sequence& s) {
    return s.reach_seconds + (returning_bytes - static_cast<double>(free)) / prefetch_rate_ -
           backward;
  };
  // From the largest peak that fits down. A smaller peak means more compute time, so the search
  // stops once compute time alone reaches the best.
  Recomputation best;
  for (auto s = after; s != options.begin();) {
    --s;
    const double alone = once + s->lost_seconds;
    if (alone >= best.seconds) break;
    const double seconds = returning_bytes > 0 ? std::max(alone, late(*s)) : alone;
    if (seconds < best.seconds) best = {seconds, sequences_.IndexOf(*s)};
  }
  if (returning_bytes <= 0) return best;
  // While bytes have yet to return, a slower sequence of smaller V may end earlier.
  for (const PartSequences::Sequence& slower : sequences_.Slower(first - 1, last - 1)) {
    if (slower.peak_bytes > free) continue;
    const double seconds = std::max(once + slower.lost_seconds, late(slower));
    if (seconds < best.seconds) best = {seconds, sequences_.IndexOf(slower)};
  }
  return best;
}

int64_t PofoSteps::LeastRecomputationBytes(StageRange part) const {
  const auto sequences = sequences_.Fastest(part.first - 1, part.last - 1);
  return sequences.empty() ? INT64_MAX : sequences.front().peak_bytes;
}

}  // namespace stowage
