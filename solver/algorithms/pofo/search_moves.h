// The neighbourhood of the local search (local_search.h): a state, the moves that lead to its
// neighbours (gap_moves.h, part_moves.h), and how to undo the last one.
//
// A state is a partition of the chain into parts (transfers/forward_parts.h) and a choice for each
// gap of the sequence that they make. Choices are stored by value and by the ordinal of the gap
// among that value's gaps, so that a change of one part leaves the choices elsewhere in place.
#ifndef STOWAGE_SOLVER_ALGORITHMS_POFO_SEARCH_MOVES_H_
#define STOWAGE_SOLVER_ALGORITHMS_POFO_SEARCH_MOVES_H_

#include <cstddef>
#include <vector>

#include "solver/algorithms/pofo/gap_moves.h"
#include "solver/algorithms/pofo/part_moves.h"
#include "solver/algorithms/pofo/part_sequences.h"
#include "solver/algorithms/pofo/search_random.h"
#include "solver/algorithms/transfers/compute_sequence.h"
#include "solver/algorithms/transfers/forward_parts.h"
#include "solver/algorithms/transfers/transfer_placement.h"
#include "solver/model/chain.h"
#include "solver/model/platform.h"
#include "solver/model/schedule.h"

namespace stowage {

struct SearchState {
  std::vector<ForwardPart> parts;  // empty: the sequence of computations is fixed
  GapChoices choices;
};

// The current state of a search. Borrows its arguments. Not thread-safe.
class SearchMoves {
 public:
  // `sequences`: the recomputations that a new part may use; null: new parts are single stages.
  SearchMoves(const Chain& chain, const Platform& platform, const PartSequences* sequences,
              SearchRandom* random);
  SearchMoves(const SearchMoves&) = delete;
  SearchMoves& operator=(const SearchMoves&) = delete;

  // Starts from a valid schedule: its parts, if it consists of parts, and the gaps that its
  // transfers use.
  void Start(const Schedule& schedule);

  const SearchState& state() const { return state_; }
  void Reset(const SearchState& state);
  // The computations of the state. Invalidated by Reset(), TryMove() and Undo().
  const ComputeSequence& sequence() const {
    return state_.parts.empty() ? fixed_ : assembled_.sequence;
  }
  // One choice for each gap of sequence().
  void FillChoices(std::vector<GapChoice>* choices);

  // Applies a random move. False, and nothing has changed, when the moves drawn are not possible or
  // their computations alone take more than `max_seconds`.
  bool TryMove(double max_seconds);
  // Whether the last TryMove() took offloads away that Free() is to replace.
  bool needs_repair() const { return thinned_; }
  // Offloads further values during operation `index` of sequence(), until those chosen free at
  // least `bytes`: part of the last TryMove(). False where there are not enough.
  bool Free(int index, int64_t bytes);
  // Call when the current state becomes the one that moves start from, and `placement` is of it.
  void NoteUsed(const TransferPlacement& placement);
  // Undoes the last TryMove(), which has returned true; only once.
  void Undo();

 private:
  // A gap that Free() may offload.
  struct Spanning {
    int value = 0;
    size_t ordinal = 0;
    int64_t bytes = 0;
  };

  bool TryParts(double max_seconds, size_t max_changes);
  bool TryCompound(double max_seconds);
  void CountSeconds();
  void ReadChoices(const Schedule& schedule);
  void Reassemble();

  const Chain& chain_;
  SearchRandom& random_;
  SearchState state_;
  GapMoves gap_moves_;    // of state_.choices
  PartMoves part_moves_;  // of state_.parts

  ComputeSequence fixed_;               // of the schedule given to Start()
  AssembledSequence assembled_;         // of state_.parts
  AssembledSequence assembled_before_;  // of the parts before the last move on parts
  double seconds_ = 0;                  // of the computations of sequence()
  double seconds_before_ = 0;           // before the last move on parts
  std::vector<size_t> gaps_seen_;       // by value; scratch of FillChoices()
  std::vector<Spanning> spanning_;      // scratch of Free()
  std::vector<int> used_;               // gaps in which a value is away, see NoteUsed()
  bool moved_parts_ = false;            // in the last TryMove()
  bool thinned_ = false;                // likewise
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_POFO_SEARCH_MOVES_H_
