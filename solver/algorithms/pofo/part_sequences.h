// The ways to recompute every part of a chain, in exact bytes: for each memory that makes a
// difference the fastest nested persistent sequence (RR-9302, Theorem 1), with what POFO's
// auxiliary program C_Δ asks of it. A part [s..t] begins with value s-1 and δ^t on the device and
// ends with δ^(s-1); value s-1 is counted apart. Of a sequence S:
//   U  its compute time
//   K  its peak, in bytes
//   V  max over its operations o of (end of o from the start of S) + need_o / prefetch bandwidth
// and with them, exactly for S, and for the paper's C_Δ as the minimum over all S with K <= M-A:
//   C_Δ(s,t,A,Δ) = max(U, V + (A + Δ - M) / prefetch bandwidth)
// since what is still to come back takes the more memory the later it is: the last moment to begin
// is set by the operation for which this is worst (Lemma 1, read backwards).
//   save s:        K = max(m_all, m_B, ā^s + K')       V = max((uF_s + m_all/β), uF_s + ā^s/β + V',
//                                                              U + m_B/β)
//   checkpoint k:  K = max(m_∅(s..k), a^k + K2, K1)    V = max(max_h(Σ_{<=h} uF + m_∅(h)/β),
//                                                              ΣuF + a^k/β + V2, ΣuF + U2 + V1)
// Departure from the paper: of each memory only the sequence of least U is kept, not that of least
// C_Δ, but that parts of a few stages keep slower ones of less V beside them; and of steps that
// gain next to nothing only one in a while.
#ifndef STOWAGE_SOLVER_ALGORITHMS_POFO_PART_SEQUENCES_H_
#define STOWAGE_SOLVER_ALGORITHMS_POFO_PART_SEQUENCES_H_

#include <climits>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "solver/algorithms/part_sizes.h"
#include "solver/algorithms/solver.h"
#include "solver/model/chain.h"
#include "solver/model/schedule.h"

namespace stowage {

// Immutable after Build(), thread-safe. Stages count from 0, as in part_sizes.h.
class PartSequences {
 public:
  struct Options {
    int64_t memory_bytes = 0;           // the most that a part can have
    double most_recompute_seconds = 0;  // parts and sequences that run more forwards are left out
    double prefetch_bytes_per_second = 0;  // 0: no V is asked for
    int most_steps_per_part = 64;
    int most_stages = INT_MAX;  // of a part
    int all_splits_up_to = 16;  // stages: of longer parts only likely splits are tried
    int slower_up_to = 5;       // stages: of longer parts there is nothing in SlowerOf()
  };

  struct Sequence {
    int64_t peak_bytes = 0;    // K
    double lost_seconds = 0;   // U less one forward and backward of each stage
    double reach_seconds = 0;  // V
    int32_t split = -1;        // -1: save s; else k: checkpoint s, the next part begins at k+1
    int32_t rest = -1;         // of part [s+1..t] or [k+1..t]
    int32_t front = -1;        // of part [s..k]
  };

  // Errors: CANCELLED once context.stop is set. O(L^3) times a part's steps at worst.
  static absl::StatusOr<PartSequences> Build(const Chain& chain, const Options& options,
                                             const SolveContext& context);
  // An upper bound on what Build() allocates for a chain of that length; INT64_MAX where that is
  // beyond all machines.
  static int64_t WorkingBytes(int stages, const Options& options);

  // Of part [s..t]: peaks grow, lost seconds fall. Empty: the part is out of bounds.
  std::span<const Sequence> Of(int s, int t) const {
    if (t - s >= most_stages_) return {};
    const Range& range = RangeOf(s, t);
    return {sequences_.data() + range.begin, static_cast<size_t>(range.end - range.begin)};
  }
  // In no order: what loses more than Of() has for its peak, with less V than all that loses less.
  // For a few parts in a hundred thousand it is the better choice while much has yet to come back.
  std::span<const Sequence> SlowerOf(int s, int t) const {
    if (t - s >= most_stages_) return {};
    const Range& range = RangeOf(s, t);
    return {sequences_.data() + range.end, static_cast<size_t>(range.slower_end - range.end)};
  }
  int32_t IndexOf(const Sequence& sequence) const {
    return static_cast<int32_t>(&sequence - sequences_.data());
  }
  const Sequence& At(int32_t index) const { return sequences_[static_cast<size_t>(index)]; }

  // One forward, and one forward and backward, of each of the stages s..t.
  double ForwardSeconds(int s, int t) const { return forward_[t + 1] - forward_[s]; }
  double StepSeconds(int s, int t) const { return step_[t + 1] - step_[s]; }

  // Appends the operations of a sequence of part [s..t].
  void Append(int s, int t, int32_t sequence, std::vector<Operation>* operations) const;

 private:
  struct Range {
    int32_t begin = 0;
    int32_t end = 0;
    int32_t slower_end = 0;
  };

  PartSequences(const Chain& chain, const Options& options);

  const Range& RangeOf(int s, int t) const {
    return ranges_[static_cast<size_t>(s) * static_cast<size_t>(most_stages_) +
                   static_cast<size_t>(t - s)];
  }
  void FillPart(int s, int t);
  void MarkSplits(int s, int t);
  void LowerBySaving(int s, int t);
  void Lower(int s, int k, int t, int64_t sweep_need);
  void Take(const Sequence& step);
  void Thin(int s, int t);
  void AddSlower(int s, int t, double most_lost);
  void AddSlowerUnlessUseless(int s, int t, const Sequence& sequence);
  double ReachOf(int s, int t, const Sequence& sequence) const;

  Options options_;
  PartSizes<int64_t> sizes_;
  std::vector<double> forward_;  // seconds before each stage
  std::vector<double> step_;     // likewise, forwards and backwards
  double tie_seconds_;           // what each forward of a sweep costs more than it takes
  double least_gain_;
  int most_stages_;  // of a part
  std::vector<Range> ranges_;
  std::vector<Sequence> sequences_;

  // Only while building.
  std::vector<uint8_t> worth_;  // by split: whether it is tried
  std::vector<Sequence> best_;
  std::vector<Sequence> merged_;
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_POFO_PART_SEQUENCES_H_
