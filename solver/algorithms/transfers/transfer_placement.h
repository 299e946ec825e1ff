// Places transfers in a compute sequence: the conversion of a relaxed solution, in which transfers
// can be interrupted and free memory continuously (POFO, section 3.2, assumption 3), to a schedule
// of whole transfers.
//
// Rules, applied to the gaps that a solver has chosen:
// 1. RELEASE: just before the first operation that would not fit, in copy order, of values between
//    two uses. As late as memory allows, because compute waits for the copy there. A value that
//    never has to be released is not offloaded.
// 2. OFFLOAD: right after the operation that produces the value, or after the first use that
//    follows its previous prefetch.
// 3. PREFETCH: in order of next use, as early as device memory allows. If both directions share a
//    link, not before an OFFLOAD whose RELEASE comes before that use.
// 4. If host memory is limited, an OFFLOAD is delayed until the host has room for its copy.
// Invariant: the result never exceeds the memory limit or the platform's host memory.
#ifndef STOWAGE_SOLVER_ALGORITHMS_TRANSFERS_TRANSFER_PLACEMENT_H_
#define STOWAGE_SOLVER_ALGORITHMS_TRANSFERS_TRANSFER_PLACEMENT_H_

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "solver/algorithms/transfers/compute_sequence.h"
#include "solver/model/chain.h"
#include "solver/model/platform.h"
#include "solver/model/schedule.h"

namespace stowage {

// The decision for one gap. All fields but `moved` are deviations from the rules, for local search.
struct GapChoice {
  bool moved = false;          // the value may be on the host during the gap, where memory needs it
  bool early_release = false;  // RELEASE right after the use before the gap, needed or not
  // In operations. -1: before the first use that follows the previous prefetch, not after it.
  int16_t offload_delay = 0;
  int16_t prefetch_delay = 0;  // in operations

  bool operator==(const GapChoice&) const = default;
};

// Places and times one set of choices after another. Reuses its buffers, so that repeated calls do
// not allocate. Borrows the chain and the platform. Not thread-safe.
class TransferPlacement {
 public:
  TransferPlacement(const Chain& chain, const Platform& platform);

  // The makespan in seconds of `sequence` with these choices, one per gap, within `memory_bytes`;
  // equal to what Simulate() computes for ToSchedule(). nullopt if they do not fit. O(operations +
  // gaps), plus for each moved value the number of operations by which its prefetch precedes its
  // use. Requires: platform.has_link() if any gap is moved.
  std::optional<double> Place(const ComputeSequence& sequence, std::span<const GapChoice> choices,
                              int64_t memory_bytes);

  // Why the last Place() returned nullopt: the first operation that does not fit, whatever is
  // released, and the bytes that it lacks; operation -1: the host is too small.
  struct Shortage {
    int operation = -1;
    int64_t bytes = 0;
  };
  Shortage shortage() const { return shortage_; }
  // The schedule and the peak of the last Place(), which must have succeeded.
  Schedule ToSchedule(const ComputeSequence& sequence) const;
  int64_t PeakBytes() const;
  // The operations by which all prefetches precede their uses: the variable part of the cost of
  // Place().
  int64_t walked() const { return walked_; }
  // Whether the last Place() offloads the value in this gap.
  bool moves(int gap) const { return moves_[static_cast<size_t>(gap)].release >= 0; }

 private:
  // Transfers at position k come right before operation k of the sequence.
  struct Move {
    int offload = -1;
    int release = -1;  // -1: the gap is not used
    int prefetch = -1;
  };
  // Sorted in copy order: by the operation after which the copy may start, then by value.
  struct Copy {
    int from = 0;
    int value = 0;
    int gap = 0;
    // clang-tidy 14 sees a 0 in the comparison that the compiler writes.
    auto operator<=>(const Copy&) const = default;  // NOLINT(modernize-use-nullptr)
  };
  // OFFLOADs of a position come first, then its RELEASEs, then its PREFETCHes, then OFFLOADs of
  // what they bring back.
  struct Event {
    int64_t key = 0;  // position, kind and rank
    OperationKind kind = OperationKind::kOffload;
    int gap = 0;
  };

  void Start(const ComputeSequence& sequence, std::span<const GapChoice> choices);
  bool PlaceReleases(const ComputeSequence& sequence, std::span<const GapChoice> choices);
  void Release(const ComputeSequence& sequence, int gap, int position);
  void PlaceOffloads(const ComputeSequence& sequence, std::span<const GapChoice> choices);
  void PlacePrefetches(const ComputeSequence& sequence, std::span<const GapChoice> choices);
  bool FitHost(const ComputeSequence& sequence);
  bool FollowsPrefetch(const ComputeSequence& sequence, int gap) const;
  void ListEvents(const ComputeSequence& sequence);
  double Time(const ComputeSequence& sequence);

  const Chain& chain_;
  const Platform& platform_;

  int64_t memory_bytes_ = 0;
  int64_t walked_ = 0;
  Shortage shortage_;
  std::vector<Move> moves_;      // by gap
  std::vector<Copy> copies_;     // of the moved gaps
  std::vector<int> copy_order_;  // moved gaps in copy order
  std::vector<int> waiting_;     // moved gaps without a RELEASE so far, in copy order
  std::vector<int> used_;        // gaps with a RELEASE
  std::vector<int> by_release_;  // the same gaps by the position of the RELEASE
  std::vector<int64_t> free_;    // by operation: unused device memory
  std::vector<int64_t> change_;  // by position: change of the bytes that are off the device
  std::vector<int64_t> host_;    // by position: unused host memory
  std::vector<Event> events_;
  std::vector<double> offloaded_;   // by gap: when the copy is complete
  std::vector<double> prefetched_;  // by value: when its latest copy back is complete
  std::vector<int> save_options_;   // by value: that of its latest forward
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_TRANSFERS_TRANSFER_PLACEMENT_H_
