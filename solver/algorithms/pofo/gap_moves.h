// Moves of the local search that change what becomes of a value in a gap between two of its
// computations: whether it is offloaded, and when its transfers run.
#ifndef STOWAGE_SOLVER_ALGORITHMS_POFO_GAP_MOVES_H_
#define STOWAGE_SOLVER_ALGORITHMS_POFO_GAP_MOVES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "solver/algorithms/pofo/search_random.h"
#include "solver/algorithms/transfers/compute_sequence.h"
#include "solver/algorithms/transfers/transfer_placement.h"

namespace stowage {

// By value, then by ordinal of the gap among that value's gaps.
using GapChoices = std::vector<std::vector<GapChoice>>;

// Changes `choices`, and can undo that. Borrows its arguments. Not thread-safe.
class GapMoves {
 public:
  GapMoves(bool has_link, SearchRandom* random, GapChoices* choices)
      : has_link_(has_link), random_(*random), choices_(*choices) {}

  // A new move, without changes so far: Undo() returns to this point.
  void Begin() { old_.clear(); }
  // Applies a random move to one of `gaps`, those of the current sequence; mostly to one of `used`,
  // the indices of those in which a value is away: at others most moves change nothing. False, and
  // nothing has changed, when the move drawn is not possible.
  bool Change(const std::vector<Gap>& gaps, const std::vector<int>& used);
  // Stops offloading a random share of all values.
  void Thin();
  void Set(int value, size_t ordinal, const GapChoice& choice);
  void Undo();

 private:
  struct OldChoice {
    size_t value = 0;
    size_t ordinal = 0;
    GapChoice choice;
  };

  const Gap& Draw(const std::vector<Gap>& gaps, const std::vector<int>& used);
  void Toggle(const std::vector<Gap>& gaps, const std::vector<int>& used, const Gap& gap);
  GapChoice& Choice(int value, size_t ordinal);
  int16_t RandomDelay(int16_t old, int least);

  const bool has_link_;
  SearchRandom& random_;
  GapChoices& choices_;
  std::vector<OldChoice> old_;  // what Undo() restores
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_POFO_GAP_MOVES_H_
