// Flat plans: what frameworks can express. The stages 1..L are cut into pieces; the first sweep
// saves some of them, and of every other one keeps only the input. Before the backward of such a
// segment its forwards run again, once, and save, as torch.utils.checkpoint does. Nothing is
// nested. A stage that the first sweep saves may be saved by one of its options, as selective
// checkpointing does. The loss is always saved, in its own way.
#ifndef STOWAGE_SOLVER_ALGORITHMS_FLAT_FLAT_PLAN_H_
#define STOWAGE_SOLVER_ALGORITHMS_FLAT_FLAT_PLAN_H_

#include <vector>

#include "absl/status/statusor.h"
#include "solver/model/chain.h"
#include "solver/model/schedule.h"

namespace stowage {

// Stages first..last, the loss excluded.
struct Piece {
  int first = 0;
  int last = 0;
  bool recomputed = false;  // one segment; false: every stage is saved in the first sweep
  // By this of its save_options, or by the last that it has. Requires: 0 where `recomputed`.
  int save_option = 0;

  bool operator==(const Piece&) const = default;
};

// The schedule of a flat plan, all in eager mode. O(stages).
// Requires: the pieces are 1..L in order without a gap, and no recomputed one has a no_recompute
// stage.
Schedule FlatSchedule(const Chain& chain, const std::vector<Piece>& pieces);

// A flat plan with a link: what a piece leaves may be offloaded. Copies start right after the
// piece's last forward. `ahead` pieces further on, or before the loss, the device no longer has
// what was copied; while the backward of the piece ahead + 1 further on runs, or of the loss, it is
// copied back. So 1 is double buffering: copies overlap one piece.
struct OffloadPlan {
  std::vector<Piece> pieces;
  std::vector<bool> offloaded;  // by piece; never the last, whose output the loss reads
  int ahead = 1;
};

// The values that the backward of a piece needs of its first sweep but its input: of saved stages
// what they save, of a segment its output, which is the next piece's input. no_recompute stages cut
// the segment. O(stages).
std::vector<int> ValuesLeft(const Chain& chain, const Piece& piece);

// The schedule of such a plan, all in eager mode; without an offloaded piece that of
// FlatSchedule(). no_recompute stages cut segments. O(stages).
// Requires: the pieces are 1..L in order without a gap, and ahead >= 1.
Schedule OffloadSchedule(const Chain& chain, const OffloadPlan& plan);

// The inverse: the pieces whose FlatSchedule() is `schedule`, with neighbouring stages that are
// saved by the same option as one piece. O(operations).
// Errors: INVALID_ARGUMENT names the first operation that no flat plan has there, as in
//   "operations[3] FORWARD_DISCARD 1: a flat plan has BACKWARD 5 there".
// Requires: Violations(chain) is empty.
absl::StatusOr<std::vector<Piece>> PiecesOf(const Chain& chain, const Schedule& schedule);

// Cuts each recomputed piece at its no_recompute stages, which are saved, and joins neighbouring
// pieces that are saved by the same option. O(stages). Requires: the pieces are 1..L in order
// without a gap.
std::vector<Piece> SplitAtNoRecompute(const Chain& chain, const std::vector<Piece>& pieces);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_FLAT_FLAT_PLAN_H_
