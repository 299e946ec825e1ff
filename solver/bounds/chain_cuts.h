// The cuts of a chain: what a lower bound on the makespan knows of the moment at which an operation
// runs.
//
// A cut is an operation that every schedule contains exactly once: the first forward of stage l, or
// BACKWARD l. While it runs, every stage k < l has run forward, and BACKWARD k, which needs ā^k,
// has not run yet. ValueAtCut k therefore has one of three fates:
//
// - stays: it is on the device as ā^k.
// - leaves: it is on the host as ā^k. Before the cut: its OFFLOAD started after forwards 1..k and
//   ended before the cut's operation began, because that waits for the RELEASE. After the cut: its
//   PREFETCH starts after the operation ended, and BACKWARD k+1..1 come after the PREFETCH, because
//   the first of them needs value k on the device and a value on the host cannot be recomputed.
// - runs again: it is absent or it is a^k. Forward k runs once more after the cut.
//
// Value l-1 is read by the operation, so it is on the device: it stays, or it is a^(l-1) and runs
// again. A no_recompute stage and the chain's input do not run again. A no_offload value does not
// leave, and without a link none does.
//
// A no_recompute stage k+1 only runs as FORWARD_SAVE, which drops nothing. So value k is never
// absent at the cut: as a^k it stays or leaves, and only the rest of ā^k is freed by running again.
// The two count as two values, a^k and the rest. The latency belongs to a^k.
#ifndef STOWAGE_SOLVER_BOUNDS_CHAIN_CUTS_H_
#define STOWAGE_SOLVER_BOUNDS_CHAIN_CUTS_H_

#include <cstdint>
#include <vector>

#include "solver/model/chain.h"
#include "solver/model/platform.h"

namespace stowage {

// A fate, or a bit set of possible fates.
enum Fate : uint8_t {
  kStays = 1,
  kRunsAgain = 2,
  kLeaves = 4,
  kRunsAgainOrStays = kRunsAgain | kStays,
  kLeavesOrRunsAgain = kLeaves | kRunsAgain,
};

// A value k, or one of the two parts of it, at a cut of a stage above k + 1.
struct ValueAtCut {
  int64_t bytes = 0;                // freed unless it stays
  uint8_t fates = kStays;           // possible fates, a set of Fate
  double rerun_seconds = 0;         // forward k
  double rerun_seconds_a_byte = 0;  // stored, so that comparisons are consistent
  double ready_seconds = 0;         // forwards 1..k
  double rest_seconds = 0;          // backwards k+1..1
  double offload_seconds = 0;
  double prefetch_seconds = 0;

  // Whether the two values are interchangeable but for their position.
  bool IsLike(const ValueAtCut& other) const {
    return bytes == other.bytes && rerun_seconds == other.rerun_seconds && fates == other.fates &&
           offload_seconds == other.offload_seconds && prefetch_seconds == other.prefetch_seconds;
  }
};

// One cut, as FirstForward(l) or Backward(l) describes it.
struct Cut {
  int stage = 0;
  int values = 0;                // ChainCuts::value(i) with i below this, and the one that is read
  int64_t excess_bytes = 0;      // bytes of values that must not stay
  double before_seconds = 0;     // compute of every schedule before the operation
  double operation_seconds = 0;  // duration of the operation
  double after_seconds = 0;      // compute of every schedule after the operation
};

// The prefix sums and per-value costs that the cuts of a chain share. Immutable, thread-safe.
class ChainCuts {
 public:
  // Requires: Violations() of both are empty. Both must outlive the object. O(stages *
  // log(stages)).
  ChainCuts(const Chain& chain, const Platform& platform);

  // The cut at the first forward of stage l, and that at BACKWARD l; 1 <= l <= loss(). O(1).
  Cut FirstForward(int l) const;
  Cut Backward(int l) const;
  // Value l at a cut of stage l + 1, which reads it: it cannot leave, and if it runs again it is
  // a^l.
  ValueAtCut ReadByCut(int l) const;

  int loss() const { return chain_.length() + 1; }
  // In the order of their stages.
  const ValueAtCut& value(int i) const { return values_[i]; }
  const std::vector<int>& cheapest_first() const { return cheapest_first_; }
  double offload_seconds_a_byte() const { return offload_seconds_a_byte_; }
  double prefetch_seconds_a_byte() const { return prefetch_seconds_a_byte_; }
  int64_t host_bytes() const { return host_bytes_; }

 private:
  int64_t BytesOf(int k) const;  // of value k, saved
  void AddValue(int k);
  void LetLeave(double latency_seconds, ValueAtCut* value);

  const Chain& chain_;
  const Platform& platform_;
  std::vector<double> forwards_;     // seconds of forwards 1..l
  std::vector<double> backwards_;    // seconds of backwards 1..l
  std::vector<int64_t> stay_bytes_;  // of values 0..l-1, if all stay
  std::vector<ValueAtCut> values_;
  std::vector<int> first_value_;     // by k: in values_
  std::vector<int> cheapest_first_;  // values that may run again, by seconds a byte
  // Lower bounds over all values, with their share of the latency. 0 without a link.
  double offload_seconds_a_byte_ = 0;
  double prefetch_seconds_a_byte_ = 0;
  int64_t host_bytes_ = 0;
  int64_t largest_bytes_ = 1;       // of those that may leave
  double min_latency_seconds_ = 0;  // likewise
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_BOUNDS_CHAIN_CUTS_H_
