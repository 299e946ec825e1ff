// The shape of every schedule that POFO considers (its section 4.2): the stages up to the loss in
// parts, of each of which only the input is kept or moved to the host while the rest of the chain
// runs. A part either is one saved stage or is computed again, from its input, in the backward
// phase.
#ifndef STOWAGE_SOLVER_ALGORITHMS_TRANSFERS_FORWARD_PARTS_H_
#define STOWAGE_SOLVER_ALGORITHMS_TRANSFERS_FORWARD_PARTS_H_

#include <memory>
#include <optional>
#include <vector>

#include "solver/algorithms/transfers/compute_sequence.h"
#include "solver/algorithms/transfers/transfer_placement.h"
#include "solver/model/chain.h"
#include "solver/model/schedule.h"

namespace stowage {

// Stages count from 1.
struct ForwardPart {
  int first = 0;
  int last = 0;
  bool saved = false;      // FORWARD_SAVE, and first == last; else only passed through
  bool offloaded = false;  // its input, value first - 1
  // How it runs again, once the gradient of value `last` is there; null for a saved part, which
  // does not. Shared, so that plans that differ in little are copied at little cost.
  std::shared_ptr<const std::vector<Operation>> again;
};

ForwardPart SavedPart(int stage, bool offloaded = false);
ForwardPart PassedPart(int first, int last, std::vector<Operation> again, bool offloaded = false);

// A sequence and what its parts ask of its gaps.
struct PartedSequence {
  ComputeSequence sequence;
  std::vector<GapChoice> choices;  // one a gap
};

// Requires: the parts cover the stages 1..L+1 in order, the last of them saved.
void Join(const Chain& chain, const std::vector<ForwardPart>& parts, PartedSequence* result);

// The parts of a schedule without transfers; nullopt when it has another shape.
std::optional<std::vector<ForwardPart>> PartsOf(const Chain& chain,
                                                const std::vector<Operation>& operations);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_TRANSFERS_FORWARD_PARTS_H_
