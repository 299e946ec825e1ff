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
    save_need_.push_back(stage.SaveNeedBytes(0));
    backward_need_.push_back(stage.saved_bytes + gradients + stage.backward_overhead_bytes);
  }
}

PofoSteps::Recomputations PofoSteps::RecomputationsOf(StageRange part, int64_t kept_bytes) const {
  const int first = part.first - 1;
  const int last = part.last - 1;
  Recomputations result;
  result.sequences_ = &sequences_;
  result.free_bytes_ = memory_ - kept_bytes;
  const auto options = sequences_.Fastest(first, last);
  const auto after = std::upper_bound(
      options.begin(), options.end(), result.free_bytes_,
      [](int64_t bytes, const PartSequences::Sequence& s) { return bytes < s.peak_bytes; });
  result.fit_ = options.first(static_cast<size_t>(after - options.begin()));
  result.slower_ = sequences_.Slower(first, last);
  result.forward_seconds_ = sequences_.ForwardSeconds(first, last);
  result.backward_seconds_ = BackwardSeconds(part.first, part.last);
  result.prefetch_rate_ = prefetch_rate_;
  return result;
}

// min over sequences S with K_S <= M - (A + I) of max(U_S, V_S + (A + I + ΔB - M) / βp), less the
// backwards. The second term matters only while something has yet to be prefetched (ΔB > 0).
PofoSteps::Recomputation PofoSteps::Recomputations::Fastest(double returning_bytes) const {
  Recomputation best;
  if (returning_bytes <= 0) {
    if (!fit_.empty()) {
      best = {forward_seconds_ + fit_.back().lost_seconds, sequences_->IndexOf(fit_.back())};
    }
    return best;
  }
  // What the last prefetch adds to V, less the backwards.
  const double late =
      (returning_bytes - static_cast<double>(free_bytes_)) / prefetch_rate_ - backward_seconds_;
  // From the largest peak that fits down. A smaller peak means more compute time, so the search
  // stops once compute time alone reaches the best.
  const PartSequences::Sequence* chosen = nullptr;
  for (auto at = static_cast<int32_t>(fit_.size()) - 1; at >= 0; at = fit_[at].earlier) {
    const PartSequences::Sequence& one = fit_[at];
    const double alone = forward_seconds_ + one.lost_seconds;
    if (alone >= best.seconds) break;
    const double seconds = std::max(alone, one.reach_seconds + late);
    if (seconds >= best.seconds) continue;
    best.seconds = seconds;
    chosen = &one;
  }
  // A slower sequence of smaller V may end earlier.
  for (const PartSequences::Sequence& one : slower_) {
    if (one.peak_bytes > free_bytes_) continue;
    const double seconds = std::max(forward_seconds_ + one.lost_seconds, one.reach_seconds + late);
    if (seconds >= best.seconds) continue;
    best.seconds = seconds;
    chosen = &one;
  }
  if (chosen != nullptr) best.sequence = sequences_->IndexOf(*chosen);
  return best;
}

void PofoSteps::ListParts(int i, double limit_seconds, std::vector<PofoPart>* parts) const {
  parts->clear();
  PofoStep step;
  for (int j = i; j < loss() && ExtendPart(j, i, limit_seconds, &step); ++j) {
    const auto sequences = sequences_.Fastest(i - 1, j - 1);
    if (sequences.empty()) continue;
    const double forwards = sequences_.ForwardSeconds(i - 1, j - 1);
    parts->push_back(
        {step, sequences.front().peak_bytes, forwards + sequences.back().lost_seconds});
  }
}

}  // namespace stowage
