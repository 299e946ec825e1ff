#include "solver/algorithms/pofo/search_moves.h"

#include <algorithm>
#include <utility>

namespace stowage {

SearchMoves::SearchMoves(const Chain& chain, const Platform& platform,
                         const PartSequences* sequences, SearchRandom* random)
    : chain_(chain),
      random_(*random),
      gap_moves_(platform.has_link(), random, &state_.choices),
      part_moves_(chain, platform, sequences, random, &gap_moves_, &state_.parts) {}

void SearchMoves::Start(const Schedule& schedule) {
  fixed_ = SequenceOf(chain_, schedule);
  state_.choices.assign(static_cast<size_t>(chain_.length()) + 2, {});  // by value, a^0 first
  state_.parts = PartsOf(chain_, fixed_.operations).value_or(std::vector<ForwardPart>());
  ReadChoices(schedule);
  Reassemble();
  CountSeconds();
}

void SearchMoves::Reset(const SearchState& state) {
  state_ = state;
  Reassemble();
  CountSeconds();
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

void SearchMoves::CountSeconds() {
  seconds_ = 0;
  for (const Operation& operation : sequence().operations) {
    const Stage& stage = chain_.stage(operation.stage);
    seconds_ += IsForward(operation.kind) ? stage.forward_seconds : stage.backward_seconds;
    // With the forward, since the backward does not say how its stage was saved.
    seconds_ += stage.BackwardSeconds(operation.save_option) - stage.backward_seconds;
  }
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

// Half of the moves are compound, a fifth change parts, where the state has any; the others change
// a gap.
bool SearchMoves::TryMove(double max_seconds) {
  moved_parts_ = false;
  thinned_ = false;
  gap_moves_.Begin();
  if (!state_.parts.empty()) {
    const uint32_t kind = random_.Below(10);
    if (kind < 5) return TryCompound(max_seconds);
    if (kind < 7) return TryParts(max_seconds, 1);
  }
  return gap_moves_.Change(sequence().gaps, used_);
}

// Up to so many changes of parts. Most recompute for too long, which costs little to see: several
// are drawn.
bool SearchMoves::TryParts(double max_seconds, size_t max_changes) {
  constexpr int kDraws = 4;
  for (int draw = 0; draw < kDraws; ++draw) {
    part_moves_.Begin();
    bool changed = false;
    for (size_t left = 1 + random_.Below(max_changes); left > 0; --left) {
      changed = part_moves_.Change() || changed;
    }
    if (!changed) continue;
    if (seconds_ + part_moves_.added_seconds() <= max_seconds) {
      moved_parts_ = true;
      seconds_before_ = seconds_;
      seconds_ += part_moves_.added_seconds();
      // Keeps the old sequence for Undo(), which then need not assemble it again.
      std::swap(assembled_, assembled_before_);
      Reassemble();
      return true;
    }
    gap_moves_.Undo();
    part_moves_.Undo();
  }
  return false;
}

// Several changes at once, each of which may be a loss by itself: one stage is recomputed instead
// of another, and other values are offloaded.
bool SearchMoves::TryCompound(double max_seconds) {
  if (!TryParts(max_seconds, 3)) return false;
  thinned_ = random_.OneIn(4);
  if (thinned_) {
    gap_moves_.Thin();
  } else {
    for (uint32_t left = random_.Below(3); left > 0; --left) {
      gap_moves_.Change(sequence().gaps, {});
    }
  }
  return true;
}

void SearchMoves::NoteUsed(const TransferPlacement& placement) {
  used_.clear();
  for (int g = 0; g < static_cast<int>(sequence().gaps.size()); ++g) {
    if (placement.moves(g)) used_.push_back(g);
  }
}

bool SearchMoves::Free(int index, int64_t bytes) {
  const ComputeSequence& sequence = this->sequence();
  gaps_seen_.assign(state_.choices.size(), 0);
  spanning_.clear();
  for (const Gap& gap : sequence.gaps) {
    const auto value = static_cast<size_t>(gap.value);
    const size_t ordinal = gaps_seen_[value]++;
    if (gap.after >= index || gap.before <= index) continue;
    const std::vector<GapChoice>& choices = state_.choices[value];
    if (ordinal < choices.size() && choices[ordinal].moved) continue;
    spanning_.push_back({gap.value, ordinal, gap.bytes});
  }
  // Gaps are sorted by their ends: the last one is needed last.
  while (bytes > 0 && !spanning_.empty()) {
    size_t chosen = spanning_.size() - 1;
    if (random_.OneIn(3)) chosen = random_.Below(spanning_.size());
    const Spanning one = spanning_[chosen];
    spanning_.erase(spanning_.begin() + static_cast<std::ptrdiff_t>(chosen));
    GapChoice choice;
    choice.moved = true;
    gap_moves_.Set(one.value, one.ordinal, choice);
    bytes -= one.bytes;
  }
  return bytes <= 0;
}

void SearchMoves::Undo() {
  gap_moves_.Undo();
  if (!moved_parts_) return;
  std::swap(assembled_, assembled_before_);
  seconds_ = seconds_before_;
  part_moves_.Undo();
}

}  // namespace stowage
