// All useful ways to recompute each part of a chain, in exact bytes: for every memory limit that
// makes a difference, the fastest nested persistent sequence (RR-9302, Theorem 1), with the two
// figures from which POFO's auxiliary program C_Δ follows (NeurIPS 2021, Lemma 1).
//
// A part [s..t] starts with value s-1 and δ^t on the device and ends with δ^(s-1). Value s-1 is
// counted apart, by the caller. A sequence S of operations has
//   U  seconds  its compute time
//   K  bytes    its peak
//   V  seconds  max over its operations o of (end of o from the start of S) + need_o / βp
// where βp is the prefetch bandwidth. Then, with A bytes kept and Δ bytes still to be prefetched,
//   C_Δ(s,t,A,Δ) = min over S with K <= M - A of max(U, V + (A + Δ - M) / βp)
// The Δ bytes have to be on the device when S ends, after a total time C. Copied as late as
// possible, Δ - βp (C - end_o) of them are there when operation o ends, beside A and need_o, and
// the sum must not exceed M for any o. K and V are built recursively:
//   save s:        K = max(m_all, m_B, ā^s + K')
//                  V = max(uF_s + m_all/βp, uF_s + ā^s/βp + V', U + m_B/βp)
//   checkpoint s, split after k:
//                  K = max(m_∅(s..k), a^k + K2, K1)
//                  V = max(max_h(Σ_{s..h} uF + m_∅(h)/βp), ΣuF + a^k/βp + V2, ΣuF + U2 + V1)
// with ' for the rest [s+1..t], 2 for the rest [k+1..t], 1 for the front [s..k]. See
// solver/README.md, "Backward part".
//
// Departures from the paper: for each memory limit only the sequence of least U is kept, not that
// of least C_Δ, except that short parts also keep slower sequences of smaller V; and sequences that
// gain little over their predecessor are thinned out.
#ifndef STOWAGE_SOLVER_ALGORITHMS_POFO_PART_SEQUENCES_H_
#define STOWAGE_SOLVER_ALGORITHMS_POFO_PART_SEQUENCES_H_

#include <climits>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "solver/algorithms/solver.h"
#include "solver/model/chain.h"
#include "solver/model/schedule.h"

namespace stowage {

// Immutable after Build(), thread-safe. Stages count from 0, as in part_sizes.h.
class PartSequences {
 public:
  struct Options {
    int64_t memory_bytes = 0;          // the memory limit M of a part
    double max_recompute_seconds = 0;  // parts and sequences with more recomputation are left out
    double prefetch_bytes_per_second = 0;  // βp; 0: V is not computed
    int max_steps_per_part = 64;           // sequences kept a part, about
    int max_stages = INT_MAX;              // of a part
    int all_splits_up_to = 16;  // stages: longer parts try only splits that neighbours use
    int slower_up_to = 5;       // stages: longer parts keep no slower sequences
  };

  struct Sequence {
    int64_t peak_bytes = 0;    // K
    double lost_seconds = 0;   // U less one forward and backward of each stage
    double reach_seconds = 0;  // V
    int32_t split = -1;        // -1: save s; otherwise k: checkpoint s, the rest begins at k+1
    int32_t rest = -1;         // index of the sequence of [s+1..t] or [k+1..t]
    int32_t front = -1;        // index of the sequence of [s..k]
    // In Fastest(): position of the next sequence of smaller peak that has a smaller V, too; -1:
    // none. Those between lose more time than this one and have no smaller V.
    int32_t earlier = -1;
  };

  // O(L^3) times the sequences of a part, at worst. Errors: CANCELLED once context.stop is set.
  static absl::StatusOr<PartSequences> Build(const Chain& chain, const Options& options,
                                             const SolveContext& context);
  // An upper bound on the bytes that Build() allocates for a chain of that length.
  static int64_t WorkingBytes(int stages, const Options& options);

  // The sequences of part [s..t], by growing peak and falling lost_seconds. Empty when the part
  // exceeds the limits in Options.
  std::span<const Sequence> Fastest(int s, int t) const {
    if (t - s >= max_stages_) return {};
    const Range& range = RangeOf(s, t);
    return {sequences_.data() + range.begin, static_cast<size_t>(range.end - range.begin)};
  }
  // Unordered: sequences that lose more time than Fastest() has at their peak, and whose V is
  // smaller than that of every faster one. They are the better choice for a few parts in a hundred
  // thousand, while many bytes have yet to be prefetched.
  std::span<const Sequence> Slower(int s, int t) const {
    if (t - s >= max_stages_) return {};
    const Range& range = RangeOf(s, t);
    return {sequences_.data() + range.end, static_cast<size_t>(range.slower_end - range.end)};
  }
  int32_t IndexOf(const Sequence& sequence) const {
    return static_cast<int32_t>(&sequence - sequences_.data());
  }
  const Sequence& At(int32_t index) const { return sequences_[static_cast<size_t>(index)]; }

  // One forward of each stage s..t; one forward and backward of each.
  double ForwardSeconds(int s, int t) const { return forward_[t + 1] - forward_[s]; }
  double StepSeconds(int s, int t) const { return step_[t + 1] - step_[s]; }

  // Appends the operations of sequence `index` of part [s..t].
  void AppendOperations(int s, int t, int32_t index, std::vector<Operation>* operations) const;

 private:
  // Of one part in sequences_: [begin, end) is Fastest(), [end, slower_end) is Slower().
  struct Range {
    int32_t begin = 0;
    int32_t end = 0;
    int32_t slower_end = 0;
  };

  friend class PartSequencesBuilder;
  PartSequences(const Chain& chain, int max_stages);

  size_t PlaceOf(int s, int t) const {
    return static_cast<size_t>(s) * static_cast<size_t>(max_stages_) + static_cast<size_t>(t - s);
  }
  const Range& RangeOf(int s, int t) const { return ranges_[PlaceOf(s, t)]; }

  std::vector<double> forward_;  // seconds of all forwards before each stage
  std::vector<double> step_;     // likewise, forwards and backwards
  int max_stages_;               // of a part
  std::vector<Range> ranges_;    // by s, then by t - s
  std::vector<Sequence> sequences_;
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_POFO_PART_SEQUENCES_H_
