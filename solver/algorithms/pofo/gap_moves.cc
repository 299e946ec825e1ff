#include "solver/algorithms/pofo/gap_moves.h"

#include <algorithm>

namespace stowage {
namespace {

// The index of `gap`, an element of `gaps`, among the gaps of its value.
size_t OrdinalOf(const std::vector<Gap>& gaps, const Gap& gap) {
  size_t ordinal = 0;
  for (const Gap& other : gaps) {
    if (&other == &gap) break;
    if (other.value == gap.value) ++ordinal;
  }
  return ordinal;
}

}  // namespace

GapChoice& GapMoves::Choice(int value, size_t ordinal) {
  std::vector<GapChoice>& choices = choices_[static_cast<size_t>(value)];
  if (choices.size() <= ordinal) choices.resize(ordinal + 1);
  return choices[ordinal];
}

void GapMoves::Set(int value, size_t ordinal, const GapChoice& choice) {
  GapChoice& old = Choice(value, ordinal);
  old_.push_back({static_cast<size_t>(value), ordinal, old});
  old = choice;
}

// A neighbour of a delay, in operations: 0, or a step away from it within least..512.
int16_t GapMoves::RandomDelay(int16_t old, int least) {
  if (old > 0 && random_.OneIn(3)) return 0;
  // A step of 1 to 16 operations, either way.
  const int span = 1 << random_.Below(5);
  return static_cast<int16_t>(std::clamp(old + (random_.OneIn(2) ? span : -span), least, 512));
}

// Two of three draws are of `used`, where there are any.
const Gap& GapMoves::Draw(const std::vector<Gap>& gaps, const std::vector<int>& used) {
  if (used.empty() || random_.OneIn(3)) return gaps[random_.Below(gaps.size())];
  return gaps[static_cast<size_t>(used[random_.Below(used.size())])];
}

bool GapMoves::Change(const std::vector<Gap>& gaps, const std::vector<int>& used) {
  if (!has_link_ || gaps.empty()) return false;
  const Gap& gap = Draw(gaps, used);
  const size_t ordinal = OrdinalOf(gaps, gap);
  GapChoice choice = Choice(gap.value, ordinal);
  // Of sixteen: eight toggle the offload, two the early release, three each change a delay.
  const uint32_t kind = random_.Below(16);
  if (!choice.moved || kind < 8) {
    Toggle(gaps, used, gap);
    return true;
  }
  if (kind < 10) {
    choice.early_release = !choice.early_release;
  } else if (kind < 13) {
    choice.offload_delay = RandomDelay(choice.offload_delay, -1);
  } else {
    choice.prefetch_delay = RandomDelay(choice.prefetch_delay, 0);
  }
  Set(gap.value, ordinal, choice);
  return true;
}

// Offloads the value of a gap, or stops offloading it; half of the time in exchange for another.
void GapMoves::Toggle(const std::vector<Gap>& gaps, const std::vector<int>& used, const Gap& gap) {
  const size_t ordinal = OrdinalOf(gaps, gap);
  GapChoice choice = Choice(gap.value, ordinal);
  choice.moved = !choice.moved;
  choice.early_release = false;
  Set(gap.value, ordinal, choice);
  if (!random_.OneIn(2)) return;
  const bool from_used = choice.moved && !used.empty();
  const Gap& other = from_used ? gaps[static_cast<size_t>(used[random_.Below(used.size())])]
                               : gaps[random_.Below(gaps.size())];
  const size_t other_ordinal = OrdinalOf(gaps, other);
  GapChoice swapped = Choice(other.value, other_ordinal);
  if (swapped.moved != choice.moved) return;
  swapped.moved = !swapped.moved;
  Set(other.value, other_ordinal, swapped);
}

void GapMoves::Thin() {
  const uint32_t one_in = 2 + random_.Below(4);
  for (size_t value = 0; value < choices_.size(); ++value) {
    for (size_t ordinal = 0; ordinal < choices_[value].size(); ++ordinal) {
      if (choices_[value][ordinal].moved && random_.OneIn(one_in)) {
        Set(static_cast<int>(value), ordinal, GapChoice{});
      }
    }
  }
}

void GapMoves::Undo() {
  // In reverse, since a move may set one choice twice.
  for (auto old = old_.rbegin(); old != old_.rend(); ++old) {
    choices_[old->value][old->ordinal] = old->choice;
  }
  old_.clear();
}

}  // namespace stowage
