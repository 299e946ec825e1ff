// The memory needs of the parts [s..t] of a chain, in bytes or slots, and the least memory K(s,t)
// with which a part can run. Pure, thread-safe. Stages are numbered from 0 here: stage i is the
// papers' stage i+1. Source: RR-9302, Theorem 1; where the needs differ from it, see
// solver/README.md, "Where the papers differ". rotor_part.h describes how a part runs.
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
  kAlways,      // all of them: rotor
  kWhereForced  // only those that begin with a no_recompute stage: revolve
};

// By stage. T is int64_t for bytes and int32_t for slots; sweep_limit and may_save have no unit.
// "Held gradient": δ^t, which is on the device while part [s..t] runs forward. It is added
// separately, because it depends on t only. The input of a part is never included.
template <typename T>
struct PartSizes {
  std::vector<T> output;         // |a^s|
  std::vector<T> saved;          // |ā^s|
  std::vector<T> gradient;       // |δ^s|
  std::vector<T> save_forward;   // |ā^s| + oS_s: FORWARD_SAVE s without the held gradient
  std::vector<T> save_backward;  // |ā^s| + |δ^s| + |δ^(s-1)| + oB_s: BACKWARD s
  std::vector<T> sweep;          // |a^(s-1)| + |a^s| + oF_s: a later forward of a sweep, likewise
  std::vector<T> sweep_first;    // |a^s| + oF_s: the first forward of a sweep, likewise
  std::vector<int32_t> sweep_limit;  // the first no_recompute stage >= s, or stages()
  std::vector<uint8_t> may_save;     // 1: a part of two or more may begin with FORWARD_SAVE s
  std::vector<T> input;              // |a^(s-1)|
  std::vector<uint8_t> may_leave;    // 1: BACKWARD s does not read it

  int stages() const { return static_cast<int>(output.size()); }
  // The need of running stage s saved, as the first of part [s..t]: its forward and its backward.
  T SaveNeed(int s, int t) const {
    return std::max(save_forward[s] + gradient[t], save_backward[s]);
  }
  // The same where the input leaves after the forward: the backward has its memory, too.
  T LeaveNeed(int s, int t) const {
    return std::max(save_forward[s] + gradient[t], save_backward[s] - input[s]);
  }
};

// `unit` converts bytes to T. The sum of three of its results must not overflow T. Each need is
// converted as a whole, so that it is rounded once; the held gradient is the exception. O(L).
template <typename T, typename Unit>
PartSizes<T> MakePartSizes(const Chain& chain, Saving saving, const Unit& unit) {
  const int count = chain.length() + 1;
  PartSizes<T> sizes;
  for (int l = 1; l <= count; ++l) {
    const Stage& stage = chain.stage(l);
    sizes.output.push_back(unit(stage.output_bytes));
    sizes.saved.push_back(unit(stage.saved_bytes));
    sizes.gradient.push_back(unit(chain.gradient_bytes(l)));
    sizes.save_forward.push_back(unit(stage.SaveNeedBytes(0)));
    sizes.save_backward.push_back(unit(stage.saved_bytes + chain.gradient_bytes(l) +
                                       chain.gradient_bytes(l - 1) +
                                       stage.backward_overhead_bytes));
    const int64_t sweep_first = stage.OutputNeedBytes();
    sizes.sweep.push_back(unit(chain.output_bytes(l - 1) + sweep_first));
    sizes.sweep_first.push_back(unit(sweep_first));
    sizes.input.push_back(unit(chain.output_bytes(l - 1)));
    sizes.may_leave.push_back(stage.input_unread ? 1 : 0);
    sizes.may_save.push_back(saving == Saving::kAlways || stage.no_recompute ? 1 : 0);
  }
  // The first no_recompute stage from s on, found from the last stage down.
  sizes.sweep_limit.resize(static_cast<size_t>(count));
  int32_t limit = count;
  for (int s = count - 1; s >= 0; --s) {
    if (chain.stage(s + 1).no_recompute) limit = s;
    sizes.sweep_limit[s] = limit;
  }
  return sizes;
}

inline PartSizes<int64_t> PartSizesInBytes(const Chain& chain, Saving saving) {
  return MakePartSizes<int64_t>(chain, saving, [](int64_t bytes) { return bytes; });
}

// Larger than the need of any part: the sum of all sizes of a chain is below it.
inline constexpr int64_t kNeverBytes = kMaxTotalBytes;

// K(s,t), the least memory of part [s..t] without its input: Theorem 1 with peaks instead of times.
// SweepNeed(s..k) = max of sweep_first[s] and sweep[s+1..k].
//   K(s,s) = SaveNeed(s,s)
//   K(s,t) = min( max(SaveNeed(s,t), saved[s] + K(s+1,t))                    if may_save[s],
//                 min over k in s..t-1 of max(SweepNeed(s..k) + gradient[t],
//                                             output[k] + K(k+1,t), K(s,k)) )
// Fills `least`, which has Triangle::size() entries in Triangle order, from the last row up, and
// calls `row_done(s)` after row s. Values of `never` and more are stored as `never`, which must
// leave room for the sum of three values. `other_ways(s, row)` may lower row[t] to what saving
// stage s in another way needs; the rows below are final then. O(L^3 / vector lanes).
// Errors: CANCELLED once context.stop is set.
template <typename T>
absl::Status FillLeast(const PartSizes<T>& sizes, T never, const SolveContext& context, T* least,
                       const std::function<void(int s)>& row_done = {},
                       const std::function<void(int s, T* row)>& other_ways = {}) {
  const int count = sizes.stages();
  const Triangle index(count);
  for (int s = count - 1; s >= 0; --s) {
    RETURN_IF_ERROR(context.CheckStop());
    T* const row = least + index(s, s) - s;  // row[t]
    row[s] = std::min(never, sizes.SaveNeed(s, s));
    // Case 1: save stage s.
    for (int t = s + 1; t < count; ++t) {
      const T saving = std::max(sizes.SaveNeed(s, t), sizes.saved[s] + least[index(s + 1, t)]);
      row[t] = sizes.may_save[s] != 0 ? std::min(never, saving) : never;
    }
    if (other_ways) other_ways(s, row);
    // Case 2: split after stage k, for all t at once. K(s,k) is final by then: it depends on
    // smaller k.
    T sweep = 0;
    for (int k = s; k < std::min(count - 1, sizes.sweep_limit[s]); ++k) {
      constexpr int kSplitsBetweenPolls = 1024;
      if (k % kSplitsBetweenPolls == 0) RETURN_IF_ERROR(context.CheckStop());
      sweep = std::max(sweep, k == s ? sizes.sweep_first[k] : sizes.sweep[k]);
      LowerLeast(SplitNeed<T>{.kept = sizes.output[k],
                              .front = row[k],
                              .sweep = sweep,
                              .rest = least + index(k + 1, k + 1),
                              .gradient = sizes.gradient.data() + k + 1},
                 static_cast<size_t>(count - 1 - k), row + k + 1);
    }
    if (row_done) row_done(s);
  }
  return absl::OkStatus();
}

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_PART_SIZES_H_
