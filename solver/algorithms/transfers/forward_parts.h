// The structure of every schedule that POFO considers (POFO, section 4.2). The stages up to the
// loss are divided into parts. A part is either one saved stage, or a sequence of stages that the
// forward phase only passes through and that is recomputed from its input in the backward phase.
// While the rest of the chain runs, the input of a part stays on the device or is offloaded.
#ifndef STOWAGE_SOLVER_ALGORITHMS_TRANSFERS_FORWARD_PARTS_H_
#define STOWAGE_SOLVER_ALGORITHMS_TRANSFERS_FORWARD_PARTS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "solver/algorithms/transfers/compute_sequence.h"
#include "solver/algorithms/transfers/transfer_placement.h"
#include "solver/model/chain.h"
#include "solver/model/schedule.h"

namespace stowage {

// Where the input of a part, value first - 1, is while the rest of the chain runs.
enum class PartInput : uint8_t {
  kKept,      // on the device
  kOffloaded  // on the host
};

// One part. Stages are numbered from 1.
struct ForwardPart {
  int first = 0;
  int last = 0;
  bool saved = false;  // FORWARD_SAVE, with first == last; false: passed through
  PartInput input = PartInput::kKept;
  // The operations that recompute the part and run its backwards, once δ^last exists. Null for a
  // saved part. Shared, so that copies of a plan are cheap.
  std::shared_ptr<const std::vector<Operation>> recomputation;
  int save_option = 0;  // of a saved part
};

ForwardPart SavedPart(int stage, PartInput input = PartInput::kKept);
// `recomputation` may be empty while a solver still chooses it; AssembleParts() needs it.
ForwardPart PassedPart(int first, int last, std::vector<Operation> recomputation,
                       PartInput input = PartInput::kKept);

// A compute sequence and which of its gaps the parts offload.
struct AssembledSequence {
  ComputeSequence sequence;
  std::vector<GapChoice> choices;  // one a gap
};

// Converts parts to a sequence: the forward phase in order, then the backward phase in reverse
// order. A recomputation keeps the part's input where the part before is saved. Reuses the capacity
// of `result`. O(operations + stages). Requires: the parts cover stages
// 1..L+1 in order and the last one is saved.
void AssembleParts(const Chain& chain, const std::vector<ForwardPart>& parts,
                   AssembledSequence* result);

// The inverse of AssembleParts() without offloads: the parts of a schedule without transfers;
// nullopt if it does not have this structure. O(operations).
std::optional<std::vector<ForwardPart>> PartsOf(const Chain& chain,
                                                const std::vector<Operation>& operations);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_TRANSFERS_FORWARD_PARTS_H_
