// Where transfers go in a sequence of forwards and backwards: the conversion of what a relaxed
// program decides (POFO, section 3.2, assumption 3) into a schedule of whole transfers.
//
// An OFFLOAD starts right after the operation that made the value. A RELEASE comes just before the
// first operation that would not fit, in copy order, of values that have been read for now: as late
// as memory allows, since compute waits for the copy there. Whoever need not be released is not
// offloaded either. A PREFETCH comes, in order of next use, as early as what is on the device
// allows; where both directions share a link not before an OFFLOAD that has to be complete before
// that use. Nothing is ever over the memory limit, nor over the platform's host memory.
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

// What becomes of a gap. Everything but `moved` departs from the rules above, for searches.
struct GapChoice {
  bool moved = false;          // the value is on the host for a part of the gap, where memory asks
  bool at_once = false;        // it is released as soon as it has been read, whether asked or not
  int16_t offload_delay = 0;   // in operations
  int16_t prefetch_delay = 0;  // likewise

  bool operator==(const GapChoice&) const = default;
};

// Places and times one set of choices after the other, without allocating once warm. Borrows the
// chain and the platform. Not thread-safe.
class TransferPlacement {
 public:
  TransferPlacement(const Chain& chain, const Platform& platform);

  // The makespan of `sequence` with those choices, one a gap, within `memory_bytes`: what the
  // simulator says of ToSchedule(). nullopt: they do not fit. O(operations + gaps), and for each
  // value moved as many operations as its prefetch comes early. Requires: the platform has
  // bandwidths if a gap is moved.
  std::optional<double> Place(const ComputeSequence& sequence, std::span<const GapChoice> choices,
                              int64_t memory_bytes);

  // Of the last Place(), which has succeeded.
  Schedule ToSchedule(const ComputeSequence& sequence) const;
  int64_t PeakBytes() const;
  // Steps that prefetches were looked for back from their use: what Place() took beside the rest.
  int64_t walked() const { return walked_; }
  bool moves(int gap) const { return moves_[static_cast<size_t>(gap)].release >= 0; }

 private:
  // An operation of position k comes right before the k-th of the sequence.
  struct Move {
    int offload = -1;
    int release = -1;  // -1: the gap is not used
    int prefetch = -1;
  };
  // In copy order: by the operation after which it may start, then by value.
  struct Copy {
    int from = 0;
    int value = 0;
    int gap = 0;
    auto operator<=>(const Copy&) const = default;
  };
  // OFFLOADs of a position come first, then its RELEASEs, then its PREFETCHes.
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
  void ListEvents();
  double Time(const ComputeSequence& sequence);

  const Chain& chain_;
  const Platform& platform_;

  int64_t memory_bytes_ = 0;
  int64_t walked_ = 0;
  std::vector<Move> moves_;      // by gap
  std::vector<Copy> copies_;     // of the gaps chosen
  std::vector<int> copy_order_;  // these gaps
  std::vector<int> waiting_;     // chosen, not released so far, in copy order
  std::vector<int> used_;        // released
  std::vector<int> by_release_;  // the same, by the position of the RELEASE
  std::vector<int64_t> free_;    // by operation: what it leaves of the memory
  std::vector<int64_t> change_;  // by position: of the bytes that are away
  std::vector<int64_t> host_;    // by position: bytes on the host
  std::vector<Event> events_;
  std::vector<double> offloaded_;   // by gap: when the copy is complete
  std::vector<double> prefetched_;  // by value: when its latest copy back is complete
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_TRANSFERS_TRANSFER_PLACEMENT_H_
