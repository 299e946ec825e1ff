// The computations of a schedule without its transfers, and the gaps in which a value is not used
// and could be on the host. Every offloading solver chooses a compute sequence and some of its
// gaps; transfer_placement.h converts the two to a schedule.
#ifndef STOWAGE_SOLVER_ALGORITHMS_TRANSFERS_COMPUTE_SEQUENCE_H_
#define STOWAGE_SOLVER_ALGORITHMS_TRANSFERS_COMPUTE_SEQUENCE_H_

#include <cstdint>
#include <vector>

#include "solver/model/chain.h"
#include "solver/model/schedule.h"

namespace stowage {

// An interval between two consecutive uses of a value, where producing it counts as a use. The
// value must be on the device for both and may be on the host in between. Operations are given by
// index.
struct Gap {
  int value = 0;      // l
  int64_t bytes = 0;  // of a^l or ā^l, whichever is live
  int made = -1;      // the operation that produces the value; -1: the chain's input
  int after = -1;     // the last use before the gap; the RELEASE comes after it
  int before = 0;     // the first use after the gap; the PREFETCH comes before it
  int previous = -1;  // the previous gap of the same value; -1: none
};

// Forwards and backwards in program order, their memory needs without transfers, and their gaps.
struct ComputeSequence {
  std::vector<Operation> operations;
  std::vector<int64_t> need_bytes;  // by operation, as MemoryWalk counts it
  std::vector<Gap> gaps;            // sorted by `before`; only values that may be offloaded

  int size() const { return static_cast<int>(operations.size()); }
};

// Computes need_bytes and gaps of `sequence->operations`. Reuses the capacity of the vectors.
// O(operations + stages). Requires: the operations are a valid schedule of the chain.
void FindGaps(const Chain& chain, ComputeSequence* sequence);

// The compute sequence of a schedule: its transfers are removed. O(operations + stages).
ComputeSequence SequenceOf(const Chain& chain, const Schedule& schedule);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_TRANSFERS_COMPUTE_SEQUENCE_H_
