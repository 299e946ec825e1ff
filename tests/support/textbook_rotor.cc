#include "tests/support/textbook_rotor.h"

#include <algorithm>
#include <limits>

namespace stowage {

const double TextbookRotor::kNone = std::numeric_limits<double>::infinity();

namespace {

// A chain in slots and seconds, by stage from 1. Symbols as in solver/README.md.
struct Letters {
  std::vector<int> a, saved, delta, all_f, all_b, ck, ck_first;
  std::vector<double> uf, ub, ur;
  std::vector<bool> fixed;  // no_recompute

  Letters(const Chain& chain, const std::function<int(int64_t)>& slots) {
    for (int l = 0; l <= chain.length() + 1; ++l) {
      const Stage& stage = chain.stage(std::max(1, l));
      const int64_t input = chain.output_bytes(std::max(1, l) - 1);
      const int64_t input_gradient = chain.gradient_bytes(std::max(1, l) - 1);
      a.push_back(slots(chain.output_bytes(l)));
      saved.push_back(slots(stage.saved_bytes));
      delta.push_back(slots(chain.gradient_bytes(l)));
      all_f.push_back(slots(stage.saved_bytes +
                            stage.save_overhead_bytes.value_or(stage.forward_overhead_bytes)));
      all_b.push_back(slots(stage.saved_bytes + chain.gradient_bytes(l) + input_gradient +
                            stage.backward_overhead_bytes));
      ck_first.push_back(slots(stage.output_bytes + stage.forward_overhead_bytes));
      ck.push_back(slots(input + stage.output_bytes + stage.forward_overhead_bytes));
      uf.push_back(stage.forward_seconds);
      ub.push_back(stage.backward_seconds);
      ur.push_back(stage.replay_seconds.value_or(stage.forward_seconds));
      fixed.push_back(stage.no_recompute);
    }
  }
};

}  // namespace

TextbookRotor::TextbookRotor(const Chain& chain, const std::function<int64_t(int64_t)>& slots,
                             int levels, bool keep_outputs_only)
    : count_(chain.length() + 1) {
  const int n = count_;
  const Letters c(chain, [&slots, levels](int64_t bytes) {
    return static_cast<int>(std::min<int64_t>(slots(bytes), levels + 1));
  });
  input_slots_ = c.a[0];
  table_.assign(static_cast<size_t>(levels + 1) * n * n, kNone);
  const auto at = [this, n](int m, int s, int t) -> double& {
    return table_[(static_cast<size_t>(m) * n + (s - 1)) * n + (t - 1)];
  };
  const auto save_first = [&](int m, int s, int t) {
    if (m < c.all_f[s] + c.delta[t] || m < c.all_b[s]) return kNone;
    if (s == t) return c.ur[s] + c.ub[s];  // its forward ran before, unless it is the loss
    if ((keep_outputs_only && !c.fixed[s]) || m < c.saved[s]) return kNone;
    return c.uf[s] + c.ub[s] + at(m - c.saved[s], s + 1, t);
  };
  const auto checkpoint_first = [&](int m, int s, int t) {
    double best = kNone;
    double sweep_seconds = 0;
    int sweep_need = 0;
    for (int k = s; k < t && !c.fixed[k]; ++k) {
      sweep_seconds += c.uf[k];
      sweep_need = std::max(sweep_need, k == s ? c.ck_first[k] : c.ck[k]);
      if (m < sweep_need + c.delta[t]) break;
      if (m < c.a[k]) continue;
      best = std::min(best, sweep_seconds + at(m - c.a[k], k + 1, t) + at(m, s, k));
    }
    return best;
  };
  for (int m = 0; m <= levels; ++m) {
    for (int s = n; s >= 1; --s) {
      for (int t = s; t <= n; ++t) {
        at(m, s, t) = std::min(save_first(m, s, t), checkpoint_first(m, s, t));
      }
    }
  }
}

double TextbookRotor::Seconds(int level) const {
  return level < input_slots_ ? kNone : At(level - input_slots_, 1, count_);
}

}  // namespace stowage
