// What a schedule computes, and where in it values wait: the stretches in which the host could hold
// them. The common ground of all solvers that offload: they choose a sequence and some of its gaps,
// and transfer_placement.h makes a schedule of that.
#ifndef STOWAGE_SOLVER_ALGORITHMS_TRANSFERS_COMPUTE_SEQUENCE_H_
#define STOWAGE_SOLVER_ALGORITHMS_TRANSFERS_COMPUTE_SEQUENCE_H_

#include <cstdint>
#include <vector>

#include "solver/model/chain.h"
#include "solver/model/schedule.h"

namespace stowage {

// A stretch between two operations that read a value (or make it) in which none does. The value
// has to be there for both, and may be on the host between them. Operations are named by index.
struct Gap {
  int value = 0;      // l
  int64_t bytes = 0;  // of a^l or ā^l, whichever waits
  int made = -1;      // the operation that made the value; -1: the chain's input
  int after = -1;     // the last that touches it before the gap; its RELEASE comes after that
  int before = 0;     // the first that reads it after the gap; its PREFETCH comes before that
  int previous = -1;  // the gap before it of the same value; -1: none
};

// Forwards and backwards in program order, and what they need without any transfer.
struct ComputeSequence {
  std::vector<Operation> operations;
  std::vector<int64_t> need_bytes;  // by operation, as the simulator counts it
  std::vector<Gap> gaps;            // by `before`; only of values that may leave the device

  int size() const { return static_cast<int>(operations.size()); }
};

// Fills in what belongs to `sequence->operations`; keeps what is allocated. O(operations + stages).
// Requires: they are a valid schedule of the chain without transfers.
void FindGaps(const Chain& chain, ComputeSequence* sequence);

// The sequence of a schedule, its transfers left out.
ComputeSequence SequenceOf(const Chain& chain, const Schedule& schedule);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_TRANSFERS_COMPUTE_SEQUENCE_H_
