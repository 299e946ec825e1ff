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

// A neighbour of a delay, in operations: 0, or a step away from it within 0..512.
int16_t GapMoves::RandomDelay(int16_t old) {
  if (old > 0 && random_.OneIn(3)) return 0;
  // A step of 1 to 16 operations, either way.
  const int span = 1 << random_.Below(5);
  return static_cast<int16_t>(std::clamp(old + (random_.OneIn(2) ? span : -span), 0, 512));
}

// Offloads the value of a random gap, or stops offloading it, half of the time in exchange for
// another; or changes when its transfers run.
bool GapMoves::Change(const std::vector<Gap>& gaps) {
  if (!has_link_ || gaps.empty()) return false;
  const Gap& gap = gaps[random_.Below(gaps.size())];
  const size_t ordinal = OrdinalOf(gaps, gap);
  GapChoice choice = Choice(gap.value, ordinal);
  // Of eight: three toggle the offload, one the early release, two each change a delay.
  const uint32_t kind = random_.Below(8);
  if (!choice.moved || kind < 3) {
    choice.moved = !choice.moved;
    choice.early_release = false;
    Set(gap.value, ordinal, choice);
    // Exchange: the other gap takes the opposite choice.
    if (random_.OneIn(2)) {
      const Gap& other = gaps[random_.Below(gaps.size())];
      const size_t other_ordinal = OrdinalOf(gaps, other);
      GapChoice swapped = Choice(other.value, other_ordinal);
      if (swapped.moved == choice.moved) {
        swapped.moved = !swapped.moved;
        Set(other.value, other_ordinal, swapped);
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
  Set(gap.value, ordinal, choice);
  return true;
}

void GapMoves::Undo() {
  // In reverse, since a move may set one choice twice.
  for (auto old = old_.rbegin(); old != old_.rend(); ++old) {
    choices_[old->value][old->ordinal] = old->choice;
  }
  old_.clear();
}

}  // namespace stowage
