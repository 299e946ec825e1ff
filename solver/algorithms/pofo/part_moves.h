// Moves of the local search that change the partition of the chain (transfers/forward_parts.h).
#ifndef STOWAGE_SOLVER_ALGORITHMS_POFO_PART_MOVES_H_
#define STOWAGE_SOLVER_ALGORITHMS_POFO_PART_MOVES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "solver/algorithms/pofo/gap_moves.h"
#include "solver/algorithms/pofo/part_sequences.h"
#include "solver/algorithms/pofo/search_random.h"
#include "solver/algorithms/transfers/forward_parts.h"
#include "solver/model/chain.h"
#include "solver/model/platform.h"

namespace stowage {

// Changes `parts`, and can undo that. One of the moves also sets a choice of a gap, by `gap_moves`,
// which undoes it. Borrows its arguments. Not thread-safe.
class PartMoves {
 public:
  // `sequences`: the recomputations that a new part may use; null: new parts are single stages.
  PartMoves(const Chain& chain, const Platform& platform, const PartSequences* sequences,
            SearchRandom* random, GapMoves* gap_moves, std::vector<ForwardPart>* parts)
      : chain_(chain),
        sequences_(sequences),
        random_(*random),
        loss_(chain.length() + 1),
        has_link_(platform.has_link()),
        has_ways_(chain.has_save_options()),
        gap_moves_(*gap_moves),
        parts_(*parts) {}

  // Begins a move of one or more changes, none so far: Undo() returns to this point.
  void Begin();
  // Applies a random change. False, and nothing has changed, when the one drawn is not possible.
  bool Change();
  void Undo();
  // What the changes since Begin() add to the compute time.
  double added_seconds() const { return added_seconds_; }

 private:
  static constexpr size_t kLongest = 9;  // stages saved at once by one change
  using NewParts = absl::InlinedVector<ForwardPart, kLongest>;
  struct OldParts {
    size_t at = 0;     // index of the first part replaced
    size_t count = 0;  // how many parts replaced them
    NewParts parts;
  };
  using Recomputation = std::shared_ptr<const std::vector<Operation>>;

  // False when the move is not possible for part p.
  bool Merge(size_t p);
  bool Split(size_t p);
  bool ToggleSaved(size_t p);
  bool ShiftBorder(size_t p);
  bool ChangeRecomputation(size_t p);
  bool SaveAndOffloadLast(size_t p);
  bool ChangeWay(size_t p);
  bool DrawWay(int stage, int* save_option);
  ForwardPart SomeSavedPart(int stage);
  std::optional<ForwardPart> RecomputedPart(int first, int last);
  Recomputation RecomputationOf(int first, int last, int32_t sequence);
  void Replace(size_t p, size_t count, NewParts with);
  void Exchange(size_t p, size_t count, NewParts* with);
  double SecondsOf(const ForwardPart& part) const;

  const Chain& chain_;
  const PartSequences* const sequences_;
  SearchRandom& random_;
  const int loss_;
  const bool has_link_;
  const bool has_ways_;  // some stage can be saved in several ways
  GapMoves& gap_moves_;
  std::vector<ForwardPart>& parts_;
  std::vector<OldParts> old_;  // what Undo() restores, from the last to the first
  // By index in sequences_: those used so far, since parts change far more often than sequences.
  absl::flat_hash_map<int32_t, Recomputation> recomputations_;
  double added_seconds_ = 0;
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_POFO_PART_MOVES_H_
