// A chain in which neighbouring stages are merged to one: a coarser form of the same problem. A
// schedule for the merged chain expands to one for the chain, which needs no more memory at any
// operation and takes the same compute time, so solvers whose time or memory grows fast with the
// length of a chain can answer for long ones.
//
// Group [s..t] becomes one stage:
//   forward, backward   sums of the stages'
//   output, gradient    a^t, δ^t
//   saved               Σ ā^k over the group
//   forward overhead    what the forwards of s..t need beside the input and the result, at most:
//                         saved:    max_k Σ_{h=s..k} ā^h + oF_k, less the sum of all ā
//                         sweeping: max_k [k > s] a^(k-1) + a^k + oF_k, less a^t
//   backward overhead   max_k Σ_{h=s..k} ā^h + δ^k + δ^(k-1) + oB_k, less Σ ā + δ^t + δ^(s-1)
// Overheads are at least 0. The loss stays by itself. Neighbours are merged only where they agree
// on no_recompute and no_offload, unless they rarely do: then a group has what any of its stages
// has.
//
// Where memory is so short that few groups could be saved, groups are compact instead: they save
// their output only, and their backward begins with recomputing the group from its input, by the
// fastest nested sequence within a part of the memory (RotorMinimum's least one where none fits):
//   saved               a^t
//   backward            that sequence, which includes the backwards
//   backward overhead   its peak, less a^t + δ^t + δ^(s-1)
// A group of one stage and one that may not be recomputed is never compact.
#ifndef STOWAGE_SOLVER_ALGORITHMS_AUTO_MERGED_CHAIN_H_
#define STOWAGE_SOLVER_ALGORITHMS_AUTO_MERGED_CHAIN_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "solver/algorithms/solver.h"
#include "solver/model/chain.h"
#include "solver/model/schedule.h"

namespace stowage {

// Immutable, thread-safe.
class MergedChain {
 public:
  struct Options {
    int stages = 0;  // aimed at, without the loss
    // Stages are not merged where the group would need more for its forwards or backwards, its
    // input excluded.
    int64_t max_group_bytes = 0;
    // Set: groups are compact, and recomputed within so many bytes, or the least if that is more.
    std::optional<int64_t> compact_bytes = {};
  };

  // Chooses the groups so that times and saved bytes are even and outputs between groups are small.
  // O(L * longest group); with compact groups O(L * longest group squared). Errors: CANCELLED once
  // context.stop is set. Requires: Violations(chain) is empty, no graph costs, options.stages > 0.
  static absl::StatusOr<MergedChain> Of(const Chain& chain, const Options& options,
                                        const SolveContext& context);

  // Groups of equal length: O(L), for estimates.
  static Chain Evenly(const Chain& chain, int stages);

  const Chain& chain() const { return merged_; }
  bool compact() const;  // some group is
  // The original stages of merged stage m, m in 1..chain().length()+1.
  int first(int m) const { return ends_[static_cast<size_t>(m) - 1] + 1; }
  int last(int m) const { return ends_[static_cast<size_t>(m)]; }

  // The schedule of the original chain in which every operation is replaced by those of its group.
  // Requires: `schedule` is valid for chain(), and no FORWARD_DISCARD drops a saved value.
  Schedule Expand(const Schedule& schedule) const;

 private:
  MergedChain(const Chain& chain, std::vector<int> ends);

  absl::Status Compact(const Chain& chain, int m, int64_t compact_bytes,
                       const SolveContext& context);

  void AppendSweep(OperationKind kind, int m, Schedule* expanded) const;
  // The first of the original values that merged value m consists of; they end with ends_[m].
  int FirstValue(int m, bool saved) const;

  std::vector<int> ends_;  // by merged stage, from 0: the last original stage of each
  Chain merged_;
  // By merged stage: what its BACKWARD expands to, where the group is compact; else empty.
  std::vector<std::vector<Operation>> recomputations_;
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_AUTO_MERGED_CHAIN_H_
