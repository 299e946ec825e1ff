#include "solver/algorithms/pofo/part_moves.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

namespace stowage {

void PartMoves::Begin() {
  old_.clear();
  added_seconds_ = 0;
}

// One of the moves with equal probability, on a random part.
bool PartMoves::Change() {
  const size_t p = random_.Below(parts_.size());
  switch (random_.Below(has_ways_ ? 7 : 6)) {
    case 0:
      return Merge(p);
    case 1:
      return Split(p);
    case 2:
      return ToggleSaved(p);
    case 3:
      return ShiftBorder(p);
    case 4:
      return ChangeRecomputation(p);
    case 5:
      return SaveAndOffloadLast(p);
    default:
      return ChangeWay(p);
  }
}

// A stage that is saved, every other time in another way where it has any.
ForwardPart PartMoves::SomeSavedPart(int stage) {
  ForwardPart part = SavedPart(stage);
  if (has_ways_ && random_.OneIn(2)) DrawWay(stage, &part.save_option);
  return part;
}

// Part [first..last] with a random recomputation; nullopt when sequences_ has none for it.
std::optional<ForwardPart> PartMoves::RecomputedPart(int first, int last) {
  if (last >= loss_) return std::nullopt;
  if (sequences_ == nullptr) {
    if (first != last || chain_.stage(first).no_recompute) return std::nullopt;
    return PassedPart(first, last,
                      {{OperationKind::kForwardSave, first}, {OperationKind::kBackward, first}});
  }
  const auto sequences = sequences_->Fastest(first - 1, last - 1);
  if (sequences.empty()) return std::nullopt;
  // Usually the fastest, which needs most memory; else one of the next three, or any.
  size_t chosen = sequences.size() - 1;
  if (random_.OneIn(3)) chosen -= random_.Below(std::min<size_t>(sequences.size(), 4));
  if (random_.OneIn(6)) chosen = random_.Below(sequences.size());
  ForwardPart part{first, last, false, PartInput::kKept, nullptr};
  part.recomputation = RecomputationOf(first, last, sequences_->IndexOf(sequences[chosen]));
  return part;
}

PartMoves::Recomputation PartMoves::RecomputationOf(int first, int last, int32_t sequence) {
  constexpr size_t kMaxKept = 20'000;
  if (recomputations_.size() >= kMaxKept) recomputations_.clear();
  Recomputation& kept = recomputations_[sequence];
  if (kept == nullptr) {
    std::vector<Operation> operations;
    sequences_->AppendOperations(first - 1, last - 1, sequence, &operations);
    kept = std::make_shared<const std::vector<Operation>>(std::move(operations));
  }
  return kept;
}

// The compute time of the part: forwards of the first sweep, then recomputation or backward.
double PartMoves::SecondsOf(const ForwardPart& part) const {
  double seconds = 0;
  for (int l = part.first; l <= part.last; ++l) seconds += chain_.stage(l).forward_seconds;
  if (part.saved) return seconds + chain_.stage(part.first).BackwardSeconds(part.save_option);
  for (const Operation& operation : *part.recomputation) {
    const Stage& stage = chain_.stage(operation.stage);
    seconds += IsForward(operation.kind) ? stage.forward_seconds : stage.backward_seconds;
    // With the forward, since the backward does not say how its stage was saved.
    seconds += stage.BackwardSeconds(operation.save_option) - stage.backward_seconds;
  }
  return seconds;
}

// Replaces `count` parts from p on, and records in old_ how to undo that.
void PartMoves::Replace(size_t p, size_t count, NewParts with) {
  for (const ForwardPart& part : with) added_seconds_ += SecondsOf(part);
  for (size_t i = p; i < p + count; ++i) added_seconds_ -= SecondsOf(parts_[i]);
  const size_t now = with.size();
  Exchange(p, count, &with);
  old_.push_back({p, now, std::move(with)});
}

// Puts `with` in place of `count` parts from p on, and these into `with`.
void PartMoves::Exchange(size_t p, size_t count, NewParts* with) {
  const size_t both = std::min(count, with->size());
  const auto at = parts_.begin() + static_cast<std::ptrdiff_t>(p);
  const auto behind = at + static_cast<std::ptrdiff_t>(both);
  std::swap_ranges(at, behind, with->begin());
  if (count > both) {
    const auto end = at + static_cast<std::ptrdiff_t>(count);
    with->insert(with->end(), std::make_move_iterator(behind), std::make_move_iterator(end));
    parts_.erase(behind, end);
  } else if (with->size() > both) {
    const auto rest = with->begin() + static_cast<std::ptrdiff_t>(both);
    parts_.insert(behind, std::make_move_iterator(rest), std::make_move_iterator(with->end()));
    with->erase(rest, with->end());
  }
}

// Parts p and p+1 become one recomputed part.
bool PartMoves::Merge(size_t p) {
  if (p + 1 >= parts_.size()) return false;
  std::optional<ForwardPart> part = RecomputedPart(parts_[p].first, parts_[p + 1].last);
  if (!part.has_value()) return false;
  Replace(p, 2, {*part});
  return true;
}

// A recomputed part becomes two; a single stage is saved or recomputed.
bool PartMoves::Split(size_t p) {
  const ForwardPart old = parts_[p];
  const int length = old.last - old.first + 1;
  if (old.saved || length < 2) return false;
  const int middle = old.first + static_cast<int>(random_.Below(static_cast<size_t>(length - 1)));
  NewParts with;
  for (const auto& [first, last] :
       {std::pair(old.first, middle), std::pair(middle + 1, old.last)}) {
    std::optional<ForwardPart> part;
    if (first == last && random_.OneIn(2)) {
      part = SomeSavedPart(first);
    } else {
      part = RecomputedPart(first, last);
    }
    if (!part.has_value()) return false;
    with.push_back(*part);
  }
  Replace(p, 1, std::move(with));
  return true;
}

// A saved stage is recomputed, or all stages of a short recomputed part are saved.
bool PartMoves::ToggleSaved(size_t p) {
  const ForwardPart old = parts_[p];
  if (old.saved) {
    std::optional<ForwardPart> part = RecomputedPart(old.first, old.last);
    if (!part.has_value()) return false;
    Replace(p, 1, {*part});
    return true;
  }
  if (static_cast<size_t>(old.last - old.first) >= kLongest) return false;
  NewParts with;
  for (int l = old.first; l <= old.last; ++l) with.push_back(SomeSavedPart(l));
  Replace(p, 1, std::move(with));
  return true;
}

// The border between parts p and p+1 moves by one stage; a part that becomes empty disappears.
bool PartMoves::ShiftBorder(size_t p) {
  if (p + 1 >= parts_.size()) return false;
  const ForwardPart left = parts_[p];
  const ForwardPart right = parts_[p + 1];
  const int border = left.last + (random_.OneIn(2) ? 1 : -1);
  NewParts with;
  for (const auto& [first, last, saved] : {std::tuple(left.first, border, left.saved),
                                           std::tuple(border + 1, right.last, right.saved)}) {
    if (first > last) continue;
    std::optional<ForwardPart> part;
    if (saved && first == last) {
      part = SomeSavedPart(first);
    } else {
      part = RecomputedPart(first, last);
    }
    if (!part.has_value()) return false;
    with.push_back(*part);
  }
  Replace(p, 2, std::move(with));
  return true;
}

// Part p is recomputed by another sequence, or by the same one again.
bool PartMoves::ChangeRecomputation(size_t p) {
  const ForwardPart& old = parts_[p];
  if (old.saved || old.first == old.last) return false;
  std::optional<ForwardPart> part = RecomputedPart(old.first, old.last);
  if (!part.has_value()) return false;
  Replace(p, 1, {*part});
  return true;
}

// Saves the last stage of a recomputed part and offloads what it saves; or the reverse.
bool PartMoves::SaveAndOffloadLast(size_t p) {
  const ForwardPart old = parts_[p];
  if (old.last >= loss_ || !has_link_) return false;
  NewParts with;
  if (old.saved) {
    std::optional<ForwardPart> part = RecomputedPart(old.first, old.last);
    if (!part.has_value()) return false;
    with.push_back(*part);
  } else {
    if (old.first < old.last) {
      std::optional<ForwardPart> part = RecomputedPart(old.first, old.last - 1);
      if (!part.has_value()) return false;
      with.push_back(*part);
    }
    with.push_back(SomeSavedPart(old.last));
  }
  GapChoice choice;
  choice.moved = !old.saved;
  gap_moves_.Set(old.last, 0, choice);
  Replace(p, 1, std::move(with));
  return true;
}

// A saved stage, or one that a recomputation saves, is saved in another way.
bool PartMoves::ChangeWay(size_t p) {
  ForwardPart part = parts_[p];
  if (part.saved) {
    if (!DrawWay(part.first, &part.save_option)) return false;
  } else {
    std::vector<Operation> operations = *part.recomputation;
    Operation& operation = operations[random_.Below(operations.size())];
    const bool saves = operation.kind == OperationKind::kForwardSave ||
                       operation.kind == OperationKind::kForwardSaveDiscard;
    if (!saves || !DrawWay(operation.stage, &operation.save_option)) return false;
    part.recomputation = std::make_shared<const std::vector<Operation>>(std::move(operations));
  }
  Replace(p, 1, {std::move(part)});
  return true;
}

// Draws one of the stage's other ways; false where it has none.
bool PartMoves::DrawWay(int stage, int* save_option) {
  const int others = chain_.stage(stage).last_option();
  if (others == 0) return false;
  const int drawn = static_cast<int>(random_.Below(static_cast<size_t>(others)));
  *save_option = drawn + (drawn >= *save_option ? 1 : 0);
  return true;
}

void PartMoves::Undo() {
  for (auto old = old_.rbegin(); old != old_.rend(); ++old) {
    Exchange(old->at, old->count, &old->parts);
  }
  old_.clear();
}

}  // namespace stowage
