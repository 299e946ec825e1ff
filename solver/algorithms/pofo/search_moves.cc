#include "solver/algorithms/pofo/search_moves.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

namespace stowage {

SearchMoves::SearchMoves(const Chain& chain, const Platform& platform,
                         const PartSequences* sequences, SearchRandom* random)
    : chain_(chain),
      sequences_(sequences),
      random_(*random),
      loss_(chain.length() + 1),
      has_link_(platform.has_link()) {}

void SearchMoves::Start(const Schedule& schedule) {
  fixed_ = SequenceOf(chain_, schedule);
  state_.choices.assign(static_cast<size_t>(loss_) + 1, {});
  std::optional<std::vector<ForwardPart>> parts = PartsOf(chain_, fixed_.operations);
  if (parts.has_value()) state_.parts = *std::move(parts);
  ReadChoices(schedule);
  Reassemble();
}

void SearchMoves::Reset(const SearchState& state) {
  state_ = state;
  Reassemble();
}

// A gap is used when a RELEASE of its value lies between its two computations.
void SearchMoves::ReadChoices(const Schedule& schedule) {
  // By value: each RELEASE, as the index of the computation before which it stands.
  std::vector<std::vector<int>> released(state_.choices.size());
  int index = 0;
  for (const Operation& operation : schedule.operations) {
    if (operation.kind == OperationKind::kRelease) {
      released[static_cast<size_t>(operation.stage)].push_back(index);
    }
    if (IsCompute(operation.kind)) ++index;
  }
  for (const Gap& gap : fixed_.gaps) {
    std::vector<GapChoice>& choices = state_.choices[static_cast<size_t>(gap.value)];
    const std::vector<int>& of_value = released[static_cast<size_t>(gap.value)];
    const auto next = std::upper_bound(of_value.begin(), of_value.end(), gap.after);
    const bool moved = next != of_value.end() && *next <= gap.before;
    choices.push_back({});
    choices.back().moved = moved;
  }
}

void SearchMoves::Reassemble() {
  if (!state_.parts.empty()) AssembleParts(chain_, state_.parts, &assembled_);
}

// The choice of a gap is that of its value and ordinal; a gap beyond those of the state is not
// used.
void SearchMoves::FillChoices(std::vector<GapChoice>* choices) {
  const ComputeSequence& sequence = this->sequence();
  choices->assign(sequence.gaps.size(), GapChoice{});
  gaps_seen_.assign(state_.choices.size(), 0);
  for (size_t g = 0; g < sequence.gaps.size(); ++g) {
    const auto value = static_cast<size_t>(sequence.gaps[g].value);
    const size_t ordinal = gaps_seen_[value]++;
    if (ordinal < state_.choices[value].size()) (*choices)[g] = state_.choices[value][ordinal];
  }
}

// Half of the moves change parts, where the state has any; the others change a gap.
bool SearchMoves::TryMove() {
  moved_parts_ = !state_.parts.empty() && random_.OneIn(2);
  old_choices_.clear();
  if (!moved_parts_) return ChangeGap();
  if (!ChangeParts()) return false;
  // Keeps the old sequence for Undo(), which then need not assemble it again.
  std::swap(assembled_, assembled_before_);
  Reassemble();
  return true;
}

void SearchMoves::Undo() {
  // In reverse, since a move may set one choice twice.
  for (auto old = old_choices_.rbegin(); old != old_choices_.rend(); ++old) {
    state_.choices[old->value][old->ordinal] = old->choice;
  }
  if (!moved_parts_) return;
  std::swap(assembled_, assembled_before_);
  std::vector<ForwardPart> parts;
  parts.swap(old_parts_.parts);
  Replace(old_parts_.at, old_parts_.count, std::move(parts));
}

GapChoice& SearchMoves::Choice(int value, size_t ordinal) {
  std::vector<GapChoice>& choices = state_.choices[static_cast<size_t>(value)];
  if (choices.size() <= ordinal) choices.resize(ordinal + 1);
  return choices[ordinal];
}

void SearchMoves::SetChoice(int value, size_t ordinal, const GapChoice& choice) {
  GapChoice& old = Choice(value, ordinal);
  old_choices_.push_back({static_cast<size_t>(value), ordinal, old});
  old = choice;
}

// The index of `gap`, an element of sequence().gaps, among the gaps of its value.
size_t SearchMoves::OrdinalOf(const Gap& gap) const {
  size_t ordinal = 0;
  for (const Gap& other : sequence().gaps) {
    if (&other == &gap) break;
    if (other.value == gap.value) ++ordinal;
  }
  return ordinal;
}

// A neighbour of a delay, in operations: 0, or a step away from it within 0..512.
int16_t SearchMoves::RandomDelay(int16_t old) {
  if (old > 0 && random_.OneIn(3)) return 0;
  // A step of 1 to 16 operations, either way.
  const int span = 1 << random_.Below(5);
  return static_cast<int16_t>(std::clamp(old + (random_.OneIn(2) ? span : -span), 0, 512));
}

// Offloads the value of a random gap, or stops offloading it, half of the time in exchange for
// another; or changes when its transfers run.
bool SearchMoves::ChangeGap() {
  if (!has_link_) return false;
  const std::vector<Gap>& gaps = sequence().gaps;
  if (gaps.empty()) return false;
  const Gap& gap = gaps[random_.Below(gaps.size())];
  const size_t ordinal = OrdinalOf(gap);
  GapChoice choice = Choice(gap.value, ordinal);
  // Of eight: three toggle the offload, one the early release, two each change a delay.
  const uint32_t kind = random_.Below(8);
  if (!choice.moved || kind < 3) {
    choice.moved = !choice.moved;
    choice.early_release = false;
    SetChoice(gap.value, ordinal, choice);
    // Exchange: the other gap takes the opposite choice.
    if (random_.OneIn(2)) {
      const Gap& other = gaps[random_.Below(gaps.size())];
      const size_t other_ordinal = OrdinalOf(other);
      GapChoice swapped = Choice(other.value, other_ordinal);
      if (swapped.moved == choice.moved) {
        swapped.moved = !swapped.moved;
        SetChoice(other.value, other_ordinal, swapped);
      }
    }
    return true;
  }
  if (kind == 3) {
    choice.early_release = !choice.early_release;
  } else if (kind < 6) {
    choice.offload_delay = RandomDelay(choice.offload_delay);
  } else {
    choice.prefetch_delay = RandomDelay(choice.prefetch_delay);
  }
  SetChoice(gap.value, ordinal, choice);
  return true;
}

// One of six moves with equal probability, on a random part.
bool SearchMoves::ChangeParts() {
  const size_t p = random_.Below(state_.parts.size());
  switch (random_.Below(6)) {
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
    default:
      return SaveAndOffloadLast(p);
  }
}

// Part [first..last] with a random recomputation; nullopt when sequences_ has none for it.
std::optional<ForwardPart> SearchMoves::RecomputedPart(int first, int last) {
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
  std::vector<Operation> recomputation;
  sequences_->AppendOperations(first - 1, last - 1, sequences_->IndexOf(sequences[chosen]),
                               &recomputation);
  return PassedPart(first, last, std::move(recomputation));
}

// Replaces `count` parts from p on and records in old_parts_ how to undo that.
void SearchMoves::Replace(size_t p, size_t count, std::vector<ForwardPart> with) {
  const auto at = state_.parts.begin() + static_cast<std::ptrdiff_t>(p);
  const auto end = at + static_cast<std::ptrdiff_t>(count);
  old_parts_ = {p, with.size(), {std::make_move_iterator(at), std::make_move_iterator(end)}};
  state_.parts.erase(at, end);
  state_.parts.insert(state_.parts.begin() + static_cast<std::ptrdiff_t>(p),
                      std::make_move_iterator(with.begin()), std::make_move_iterator(with.end()));
}

// Parts p and p+1 become one recomputed part.
bool SearchMoves::Merge(size_t p) {
  if (p + 1 >= state_.parts.size()) return false;
  std::optional<ForwardPart> part = RecomputedPart(state_.parts[p].first, state_.parts[p + 1].last);
  if (!part.has_value()) return false;
  Replace(p, 2, {*part});
  return true;
}

// A recomputed part becomes two; a single stage is saved or recomputed.
bool SearchMoves::Split(size_t p) {
  const ForwardPart old = state_.parts[p];
  const int length = old.last - old.first + 1;
  if (old.saved || length < 2) return false;
  const int middle = old.first + static_cast<int>(random_.Below(static_cast<size_t>(length - 1)));
  std::vector<ForwardPart> with;
  for (const auto& [first, last] :
       {std::pair(old.first, middle), std::pair(middle + 1, old.last)}) {
    std::optional<ForwardPart> part;
    if (first == last && random_.OneIn(2)) {
      part = SavedPart(first);
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
bool SearchMoves::ToggleSaved(size_t p) {
  constexpr int kLongest = 9;  // stages saved at once
  const ForwardPart old = state_.parts[p];
  if (old.saved) {
    std::optional<ForwardPart> part = RecomputedPart(old.first, old.last);
    if (!part.has_value()) return false;
    Replace(p, 1, {*part});
    return true;
  }
  if (old.last - old.first + 1 > kLongest) return false;
  std::vector<ForwardPart> with;
  for (int l = old.first; l <= old.last; ++l) with.push_back(SavedPart(l));
  Replace(p, 1, std::move(with));
  return true;
}

// The border between parts p and p+1 moves by one stage; a part that becomes empty disappears.
bool SearchMoves::ShiftBorder(size_t p) {
  if (p + 1 >= state_.parts.size()) return false;
  const ForwardPart left = state_.parts[p];
  const ForwardPart right = state_.parts[p + 1];
  const int border = left.last + (random_.OneIn(2) ? 1 : -1);
  std::vector<ForwardPart> with;
  for (const auto& [first, last, saved] : {std::tuple(left.first, border, left.saved),
                                           std::tuple(border + 1, right.last, right.saved)}) {
    if (first > last) continue;
    std::optional<ForwardPart> part;
    if (saved && first == last) {
      part = SavedPart(first);
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
bool SearchMoves::ChangeRecomputation(size_t p) {
  const ForwardPart& old = state_.parts[p];
  if (old.saved || old.first == old.last) return false;
  std::optional<ForwardPart> part = RecomputedPart(old.first, old.last);
  if (!part.has_value()) return false;
  Replace(p, 1, {*part});
  return true;
}

// Saves the last stage of a recomputed part and offloads what it saves; or the reverse.
bool SearchMoves::SaveAndOffloadLast(size_t p) {
  const ForwardPart old = state_.parts[p];
  if (old.last >= loss_ || !has_link_) return false;
  std::vector<ForwardPart> with;
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
    with.push_back(SavedPart(old.last));
  }
  GapChoice choice;
  choice.moved = !old.saved;
  SetChoice(old.last, 0, choice);
  Replace(p, 1, std::move(with));
  return true;
}

}  // namespace stowage
