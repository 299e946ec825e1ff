#include "tests/support/textbook_rotor.h"

#include <algorithm>
#include <limits>

namespace stowage {

const double TextbookRotor::kNone = std::numeric_limits<double>::infinity();

TextbookRotor::TextbookRotor(const Chain& chain, const std::function<int64_t(int64_t)>& slots,
                             int levels, bool keep_outputs_only)
    : count_(chain.length() + 1) {
  const int n = count_;
  std::vector<int> a(n + 1), saved(n + 1), delta(n + 1), all_f(n + 1), all_b(n + 1), ck(n + 1),
      ck_first(n + 1);
  std::vector<double> uf(n + 1), ub(n + 1);
  const auto in_slots = [&](int64_t bytes) {
    return static_cast<int>(std::min<int64_t>(slots(bytes), levels + 1));
  };
  for (int l = 1; l <= n; ++l) {
    const Stage& stage = chain.stage(l);
    a[l] = in_slots(stage.output_bytes);
    saved[l] = in_slots(stage.saved_bytes);
    delta[l] = in_slots(chain.gradient_bytes(l));
    all_f[l] = in_slots(stage.saved_bytes + stage.forward_overhead_bytes);
    all_b[l] = in_slots(stage.saved_bytes + chain.gradient_bytes(l) + chain.gradient_bytes(l - 1) +
                        stage.backward_overhead_bytes);
    ck_first[l] = in_slots(stage.output_bytes + stage.forward_overhead_bytes);
    ck[l] = in_slots(chain.output_bytes(l - 1) + stage.output_bytes + stage.forward_overhead_bytes);
    uf[l] = stage.forward_seconds;
    ub[l] = stage.backward_seconds;
  }
  input_slots_ = in_slots(chain.input_bytes);
  table_.assign(static_cast<size_t>(levels + 1) * n * n, kNone);
  const auto at = [this, n](int m, int s, int t) -> double& {
    return table_[(static_cast<size_t>(m) * n + (s - 1)) * n + (t - 1)];
  };
  for (int m = 0; m <= levels; ++m) {
    for (int s = n; s >= 1; --s) {
      for (int t = s; t <= n; ++t) {
        const bool all_fits = m >= all_f[s] + delta[t] && m >= all_b[s];
        double best = kNone;
        if (s == t) {
          if (all_fits) best = uf[s] + ub[s];
        } else {
          const bool may_save = !keep_outputs_only || chain.stage(s).no_recompute;
          if (may_save && all_fits && m >= saved[s]) {
            best = uf[s] + ub[s] + at(m - saved[s], s + 1, t);
          }
          double sweep_seconds = 0;
          int sweep_need = 0;
          for (int split = s + 1; split <= t && !chain.stage(split - 1).no_recompute; ++split) {
            const int k = split - 1;
            sweep_seconds += uf[k];
            sweep_need = std::max(sweep_need, k == s ? ck_first[k] : ck[k]);
            if (m < sweep_need + delta[t]) break;
            if (m < a[k]) continue;
            best = std::min(best, sweep_seconds + at(m - a[k], split, t) + at(m, s, k));
          }
        }
        at(m, s, t) = best;
      }
    }
  }
}

double TextbookRotor::Seconds(int level) const {
  return level < input_slots_ ? kNone : At(level - input_slots_, 1, count_);
}

}  // namespace stowage
