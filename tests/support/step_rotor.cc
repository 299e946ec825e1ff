#include "tests/support/step_rotor.h"

#include <algorithm>
#include <map>
#include <utility>

namespace stowage {

StepRotor::Steps StepRotor::LowerEnvelope(Steps steps) {
  std::sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) {
    return std::pair(a.bytes, a.seconds) < std::pair(b.bytes, b.seconds);
  });
  Steps envelope;
  for (const Step& step : steps) {
    if (envelope.empty() || step.seconds < envelope.back().seconds) envelope.push_back(step);
  }
  return envelope;
}

StepRotor::StepRotor(const Chain& chain, bool keep_outputs_only) : input_bytes_(chain.input_bytes) {
  const int n = chain.length() + 1;
  const auto a = [&chain](int l) { return chain.output_bytes(l); };
  const auto delta = [&chain](int l) { return chain.gradient_bytes(l); };
  std::map<std::pair<int, int>, Steps> parts;
  for (int length = 1; length <= n; ++length) {
    for (int s = 1; s + length - 1 <= n; ++s) {
      const int t = s + length - 1;
      const Stage& first = chain.stage(s);
      const double both = first.forward_seconds + first.backward_seconds;
      const int64_t save_need =
          std::max(delta(t) + first.saved_bytes +
                       first.save_overhead_bytes.value_or(first.forward_overhead_bytes),
                   first.saved_bytes + delta(s) + delta(s - 1) + first.backward_overhead_bytes);
      if (length == 1) {
        parts[{s, t}] = {{save_need, both}};
        continue;
      }
      Steps candidates;
      if (!keep_outputs_only || first.no_recompute) {
        for (const Step& rest : parts[{s + 1, t}]) {
          candidates.push_back(
              {std::max(save_need, first.saved_bytes + rest.bytes), both + rest.seconds});
        }
      }
      double sweep_seconds = 0;
      int64_t sweep_need = 0;
      for (int split = s + 1; split <= t && !chain.stage(split - 1).no_recompute; ++split) {
        const int k = split - 1;
        sweep_seconds += chain.stage(k).forward_seconds;
        sweep_need = std::max(sweep_need, delta(t) + (k == s ? 0 : a(k - 1)) + a(k) +
                                              chain.stage(k).forward_overhead_bytes);
        // The sum of two step functions has a step where either has one.
        const Steps& rest = parts[{split, t}];
        const Steps& front = parts[{s, k}];
        size_t i = 0;
        size_t j = 0;
        while (true) {
          candidates.push_back({std::max({sweep_need, a(k) + rest[i].bytes, front[j].bytes}),
                                sweep_seconds + rest[i].seconds + front[j].seconds});
          const bool more_rest = i + 1 < rest.size();
          const bool more_front = j + 1 < front.size();
          if (!more_rest && !more_front) break;
          if (!more_front || (more_rest && a(k) + rest[i + 1].bytes <= front[j + 1].bytes)) {
            ++i;
          } else {
            ++j;
          }
        }
      }
      parts[{s, t}] = LowerEnvelope(std::move(candidates));
    }
  }
  whole_ = parts[{1, n}];
}

std::optional<double> StepRotor::Seconds(int64_t memory_bytes) const {
  std::optional<double> seconds;
  for (const Step& step : whole_) {
    if (input_bytes_ + step.bytes <= memory_bytes) seconds = step.seconds;
  }
  return seconds;
}

int64_t StepRotor::LeastBytes() const { return input_bytes_ + whole_.front().bytes; }

}  // namespace stowage
