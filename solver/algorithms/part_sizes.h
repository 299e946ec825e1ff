// The memory that the parts of a chain need, in bytes or in the slots of a grid, and the least of
// it. Stages count from 0 here: stage i is stage i+1 of the papers, part [s..t] is theirs one
// further.
#ifndef STOWAGE_SOLVER_ALGORITHMS_PART_SIZES_H_
#define STOWAGE_SOLVER_ALGORITHMS_PART_SIZES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "solver/algorithms/solver.h"
#include "solver/base/status_macros.h"
#include "solver/kernels/min_max.h"
#include "solver/kernels/min_plus.h"
#include "solver/model/chain.h"

namespace stowage {

// Which parts of two stages or more may begin with FORWARD_SAVE.
enum class Saving {
  kAlways,      // all: rotor
  kWhereForced  // those of a no_recompute stage: revolve
};

// T is int64_t for bytes, int32_t for slots. All but sweep_limit and may_save in that unit.
template <typename T>
struct PartSizes {
  std::vector<T> output;        // |a^s|
  std::vector<T> saved;         // |ā^s|
  std::vector<T> gradient;      // |δ^s|
  std::vector<T> save_forward;  // |ā^s| + oF_s: FORWARD_SAVE s, but for the gradient held meanwhile
  std::vector<T> save_backward;  // |ā^s| + |δ^s| + |δ^(s-1)| + oB_s: BACKWARD s
  std::vector<T> sweep;          // |a^(s-1)| + |a^s| + oF_s: a forward of a sweep, likewise
  std::vector<T> sweep_first;    // |a^s| + oF_s: the first of a sweep, whose input counts elsewhere
  std::vector<int32_t> sweep_limit;  // the first no_recompute stage at or after s; none: the count
  std::vector<uint8_t> may_save;     // whether a part of two or more may begin with FORWARD_SAVE s

  int stages() const { return static_cast<int>(output.size()); }
  T SaveNeed(int s, int t) const {
    return std::max(save_forward[s] + gradient[t], save_backward[s]);
  }
};

// `unit` turns bytes into T; it must not overflow when three of its results are added.
template <typename T, typename Unit>
PartSizes<T> MakePartSizes(const Chain& chain, Saving saving, const Unit& unit) {
  const int count = chain.length() + 1;
  PartSizes<T> sizes;
  for (int l = 1; l <= count; ++l) {
    const Stage& stage = chain.stage(l);
    sizes.output.push_back(unit(stage.output_bytes));
    sizes.saved.push_back(unit(stage.saved_bytes));
    sizes.gradient.push_back(unit(chain.gradient_bytes(l)));
    sizes.save_forward.push_back(unit(stage.saved_bytes + stage.forward_overhead_bytes));
    sizes.save_backward.push_back(unit(stage.saved_bytes + chain.gradient_bytes(l) +
                                       chain.gradient_bytes(l - 1) +
                                       stage.backward_overhead_bytes));
    const int64_t sweep_first = stage.output_bytes + stage.forward_overhead_bytes;
    sizes.sweep.push_back(unit(chain.output_bytes(l - 1) + sweep_first));
    sizes.sweep_first.push_back(unit(sweep_first));
    sizes.may_save.push_back(saving == Saving::kAlways || stage.no_recompute ? 1 : 0);
  }
  sizes.sweep_limit.resize(static_cast<size_t>(count));
  int32_t limit = count;
  for (int s = count - 1; s >= 0; --s) {
    if (chain.stage(s + 1).no_recompute) limit = s;
    sizes.sweep_limit[s] = limit;
  }
  return sizes;
}

// K(s,t), the least memory of part [s..t], its input counted apart; Theorem 1 with peaks in the
// place of times:
//   K(s,s) = SaveNeed(s,s)
//   K(s,t) = min( max(SaveNeed(s,t), saved[s] + K(s+1,t))                    if may_save[s],
//                 min over k in s..t-1 of max(SweepNeed(s..k) + gradient[t],
//                                             output[k] + K(k+1,t), K(s,k)) )
// Fills `least`, in Triangle order, from the last row up; calls `row_done(s)` after each. Values of
// `never` and more are written as `never`. O(L^3 / vector lanes).
// Errors: CANCELLED once context.stop is set.
template <typename T>
absl::Status FillLeast(const PartSizes<T>& sizes, T never, const SolveContext& context, T* least,
                       const std::function<void(int s)>& row_done = {}) {
  const int count = sizes.stages();
  const Triangle index(count);
  for (int s = count - 1; s >= 0; --s) {
    RETURN_IF_ERROR(context.CheckStop());
    T* const row = least + index(s, s) - s;  // row[t]
    row[s] = std::min(never, sizes.SaveNeed(s, s));
    for (int t = s + 1; t < count; ++t) {
      const T saving = std::max(sizes.SaveNeed(s, t), sizes.saved[s] + least[index(s + 1, t)]);
      row[t] = sizes.may_save[s] != 0 ? std::min(never, saving) : never;
    }
    T sweep = 0;
    for (int k = s; k < std::min(count - 1, sizes.sweep_limit[s]); ++k) {
      constexpr int kSplitsBetweenPolls = 1024;
      if (k % kSplitsBetweenPolls == 0) RETURN_IF_ERROR(context.CheckStop());
      sweep = std::max(sweep, k == s ? sizes.sweep_first[k] : sizes.sweep[k]);
      LowerLeast(SplitNeed<T>{sizes.output[k], row[k], sweep}, least + index(k + 1, k + 1),
                 sizes.gradient.data() + k + 1, static_cast<size_t>(count - 1 - k), row + k + 1);
    }
    if (row_done) row_done(s);
  }
  return absl::OkStatus();
}

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_PART_SIZES_H_
