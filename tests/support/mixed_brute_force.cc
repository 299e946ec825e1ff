#include "tests/support/mixed_brute_force.h"

#include <algorithm>
#include <limits>

namespace stowage {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

}  // namespace

MixedBruteForce::MixedBruteForce(const Chain& chain) : chain_(chain) {
  for (int l = 1; l <= chain.length() + 1; ++l) {
    const Stage& stage = chain.stage(l);
    eager_.costs.push_back({stage.forward_seconds, stage.backward_seconds, stage.output_bytes,
                            stage.saved_bytes, chain.gradient_bytes(l), chain.gradient_bytes(l - 1),
                            stage.forward_overhead_bytes, stage.backward_overhead_bytes,
                            stage.no_recompute});
    const bool joins = l > 1 && !stage.fusion_group.empty() &&
                       stage.fusion_group == chain.stage(l - 1).fusion_group;
    if (joins) {
      groups_.back().second = l;
    } else {
      groups_.push_back({l, l});
    }
  }
}

// The least time of s..t, from the start of the first forward to the end of the last backward,
// within `memory` bytes. The input is not counted; the gradient of the output is, throughout.
double MixedBruteForce::Part(Line& line, int s, int t, int64_t memory) {
  const auto [known, is_new] = line.known.try_emplace({s, t, memory}, kNone);
  if (!is_new) return known->second;
  const Cost& first = line.costs[static_cast<size_t>(s)];
  const int64_t held = line.costs[static_cast<size_t>(t)].gradient;
  double best = kNone;
  // Save s, run s+1..t, then the backward of s.
  const int64_t while_saving = first.saved + first.forward_overhead + held;
  const int64_t going_back =
      first.saved + first.gradient + first.gradient_before + first.backward_overhead;
  if (while_saving <= memory && going_back <= memory) {
    const double rest = s == t ? 0 : Part(line, s + 1, t, memory - first.saved);
    best = first.forward + rest + first.backward;
  }
  // Run s..k and keep the output of k only, run k+1..t, then run s..k again.
  double sweep_seconds = 0;
  bool fits = true;
  for (int k = s; k < t && fits; ++k) {
    const Cost& cost = line.costs[static_cast<size_t>(k)];
    const int64_t read = k == s ? 0 : line.costs[static_cast<size_t>(k) - 1].output;
    fits = !cost.once && read + cost.output + cost.forward_overhead + held <= memory;
    if (!fits) break;
    sweep_seconds += cost.forward;
    const double rest = Part(line, k + 1, t, memory - cost.output);
    best = std::min(best, sweep_seconds + rest + Part(line, s, k, memory));
  }
  return line.known[{s, t, memory}] = best;
}

double MixedBruteForce::Graph(int first, int last, int64_t share) {
  Line line;
  for (const auto& [begin, end] : groups_) {
    if (end < first || begin > last) continue;
    if (begin < first || end > last) return kNone;  // the sub-sequence cuts a unit
    Cost fused;
    for (int l = begin; l <= end; ++l) {
      const Stage& stage = chain_.stage(l);
      if (stage.control_flow || !stage.graph.has_value()) return kNone;
      fused.forward += stage.graph->forward_seconds;
      fused.backward += stage.graph->backward_seconds;
      fused.saved += stage.graph->saved_bytes;
      fused.forward_overhead =
          std::max(fused.forward_overhead, stage.graph->forward_overhead_bytes);
      fused.backward_overhead =
          std::max(fused.backward_overhead, stage.graph->backward_overhead_bytes);
      fused.once = fused.once || stage.no_recompute;
    }
    fused.output = chain_.output_bytes(end);
    fused.gradient = chain_.gradient_bytes(end);
    fused.gradient_before = chain_.gradient_bytes(begin - 1);
    line.costs.push_back(fused);
  }
  const int units = static_cast<int>(line.costs.size()) - 1;
  return chain_.graph_entry_seconds + Part(line, 1, units, share);
}

// The least time of stages first..L+1, over all splits, modes and shares.
double MixedBruteForce::From(int first, int64_t memory) {
  const int loss = chain_.length() + 1;
  if (first > loss) return 0;
  const auto [known, is_new] = known_.try_emplace({first, memory}, kNone);
  if (!is_new) return known->second;
  double best = kNone;
  for (int last = first; last <= loss; ++last) {
    for (int64_t share = 0; share <= memory; ++share) {
      const double own = std::min(Eager(first, last, share), Graph(first, last, share));
      if (own == kNone) continue;
      best = std::min(best, own + From(last + 1, memory - share));
    }
  }
  return known_[{first, memory}] = best;
}

std::optional<double> MixedBruteForce::Seconds(int64_t memory_bytes) {
  if (memory_bytes < chain_.input_bytes) return std::nullopt;
  const double seconds = From(1, memory_bytes - chain_.input_bytes);
  if (seconds == kNone) return std::nullopt;
  return seconds;
}

}  // namespace stowage
