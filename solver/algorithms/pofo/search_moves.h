// The neighbourhood of the local search (local_search.h): a state, the moves that lead to its
// neighbours, and how to undo the last one.
//
// A state is a partition of the chain into parts (transfers/forward_parts.h) and a choice for each
// gap of the sequence that they make. Choices are stored by value and by the ordinal of the gap
// among that value's gaps, so that a change of one part leaves the choices elsewhere in place.
#ifndef STOWAGE_SOLVER_ALGORITHMS_POFO_SEARCH_MOVES_H_
#define STOWAGE_SOLVER_ALGORITHMS_POFO_SEARCH_MOVES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "solver/algorithms/pofo/part_sequences.h"
#include "solver/algorithms/transfers/compute_sequence.h"
#include "solver/algorithms/transfers/forward_parts.h"
#include "solver/algorithms/transfers/transfer_placement.h"
#include "solver/model/chain.h"
#include "solver/model/platform.h"
#include "solver/model/schedule.h"

namespace stowage {

struct SearchState {
  std::vector<ForwardPart> parts;               // empty: the sequence of computations is fixed
  std::vector<std::vector<GapChoice>> choices;  // by value, then by ordinal of the gap
};

// Random numbers from a fixed seed, so that equal inputs give equal answers.
class SearchRandom {
 public:
  // Uniform in 0..bound-1.
  uint32_t Below(size_t bound) {
    return static_cast<uint32_t>((static_cast<uint64_t>(engine_()) * bound) >> 32);
  }
  bool OneIn(uint32_t times) { return Below(times) == 0; }
  // Uniform in (0, 1].
  double Fraction() { return (static_cast<double>(engine_()) + 1) / 0x1p32; }

 private:
  std::mt19937 engine_;
};

// The current state of a search. Borrows its arguments. Not thread-safe.
class SearchMoves {
 public:
  // `sequences`: the recomputations that a new part may use; null: new parts are single stages.
  SearchMoves(const Chain& chain, const Platform& platform, const PartSequences* sequences,
              SearchRandom* random);

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

  // Applies a random move. False, and nothing has changed, when the move drawn is not possible.
  bool TryMove();
  // Undoes the last TryMove(), which has returned true; only once.
  void Undo();

 private:
  // What Undo() restores.
  struct OldChoice {
    size_t value = 0;
    size_t ordinal = 0;
    GapChoice choice;
  };
  struct OldParts {
    size_t at = 0;     // index of the first part replaced
    size_t count = 0;  // how many parts replaced them
    std::vector<ForwardPart> parts;
  };

  void ReadChoices(const Schedule& schedule);
  void Reassemble();

  // Moves on gaps.
  GapChoice& Choice(int value, size_t ordinal);
  void SetChoice(int value, size_t ordinal, const GapChoice& choice);
  size_t OrdinalOf(const Gap& gap) const;
  int16_t RandomDelay(int16_t old);
  bool ChangeGap();

  // Moves on parts; false when the move is not possible for part p.
  bool ChangeParts();
  bool Merge(size_t p);
  bool Split(size_t p);
  bool ToggleSaved(size_t p);
  bool ShiftBorder(size_t p);
  bool ChangeRecomputation(size_t p);
  bool SaveAndOffloadLast(size_t p);
  std::optional<ForwardPart> RecomputedPart(int first, int last);
  void Replace(size_t p, size_t count, std::vector<ForwardPart> with);

  const Chain& chain_;
  const PartSequences* const sequences_;
  SearchRandom& random_;
  const int loss_;
  const bool has_link_;

  SearchState state_;
  ComputeSequence fixed_;               // of the schedule given to Start()
  AssembledSequence assembled_;         // of state_.parts
  AssembledSequence assembled_before_;  // of the parts before the last move on parts
  std::vector<size_t> gaps_seen_;       // by value; scratch of FillChoices()

  // Of the last TryMove().
  bool moved_parts_ = false;
  std::vector<OldChoice> old_choices_;
  OldParts old_parts_;
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_POFO_SEARCH_MOVES_H_
