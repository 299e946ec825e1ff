#include "solver/algorithms/flat/flat_plan.h"

#include <algorithm>
#include <cassert>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace stowage {
namespace {

void Append(OperationKind kind, int stage, Schedule* schedule) {
  schedule->operations.push_back({kind, stage});
}

// What the first sweep runs for a stage of the piece.
OperationKind SweepKind(const Piece& piece, int stage) {
  if (!piece.recomputed) return OperationKind::kForwardSave;
  return stage == piece.first ? OperationKind::kForwardCheckpoint : OperationKind::kForwardDiscard;
}

void AppendSweep(const Chain& chain, const Piece& piece, Schedule* schedule) {
  for (int l = piece.first; l <= piece.last; ++l) {
    Append(SweepKind(piece, l), l, schedule);
    schedule->operations.back().save_option =
        std::min(piece.save_option, chain.stage(l).last_option());
  }
}

void AppendBackward(const Piece& piece, Schedule* schedule) {
  if (piece.recomputed) {
    for (int l = piece.first; l <= piece.last; ++l) {
      Append(OperationKind::kForwardSave, l, schedule);
    }
  }
  for (int l = piece.last; l >= piece.first; --l) Append(OperationKind::kBackward, l, schedule);
}

// Saved stages join the piece in front of them.
void AppendStages(const Piece& piece, std::vector<Piece>* pieces) {
  if (!piece.recomputed && !pieces->empty() && !pieces->back().recomputed &&
      piece.save_option == pieces->back().save_option) {
    pieces->back().last = piece.last;
  } else {
    pieces->push_back(piece);
  }
}

// The pieces that the forwards at the beginning of the schedule belong to, as many stages as there
// are; what is no forward of a first sweep counts as saved.
std::vector<Piece> PiecesOfSweep(const Chain& chain, const Schedule& schedule) {
  std::vector<Piece> pieces;
  for (int l = 1; l <= chain.length(); ++l) {
    const auto index = static_cast<size_t>(l) - 1;
    const Operation operation = index < schedule.operations.size()
                                    ? schedule.operations[index]
                                    : Operation{OperationKind::kForwardSave, l};
    const OperationKind kind = operation.kind;
    if (kind == OperationKind::kForwardDiscard && !pieces.empty() && pieces.back().recomputed) {
      pieces.back().last = l;
    } else {
      const bool recomputed = kind == OperationKind::kForwardCheckpoint;
      AppendStages({l, l, recomputed, recomputed ? 0 : operation.save_option}, &pieces);
    }
  }
  return pieces;
}

}  // namespace

Schedule FlatSchedule(const Chain& chain, const std::vector<Piece>& pieces) {
  assert(!pieces.empty() && pieces.front().first == 1 && pieces.back().last == chain.length());
  Schedule schedule;
  for (const Piece& piece : pieces) AppendSweep(chain, piece, &schedule);
  Append(OperationKind::kForwardSave, chain.length() + 1, &schedule);
  Append(OperationKind::kBackward, chain.length() + 1, &schedule);
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
    AppendBackward(*piece, &schedule);
  }
  return schedule;
}

std::vector<int> ValuesLeft(const Chain& chain, const Piece& piece) {
  std::vector<int> values;
  for (const Piece& part : SplitAtNoRecompute(chain, {piece})) {
    for (int l = part.recomputed ? part.last : part.first; l <= part.last; ++l) {
      values.push_back(l);
    }
  }
  return values;
}

Schedule OffloadSchedule(const Chain& chain, const OffloadPlan& plan) {
  Schedule schedule;
  const int count = static_cast<int>(plan.pieces.size());
  const auto copy = [&](OperationKind kind, int i) {
    if (i < 0 || !plan.offloaded[static_cast<size_t>(i)]) return;
    for (const int value : ValuesLeft(chain, plan.pieces[static_cast<size_t>(i)])) {
      Append(kind, value, &schedule);
    }
  };
  const auto parts = [&](int i) {
    return SplitAtNoRecompute(chain, {plan.pieces[static_cast<size_t>(i)]});
  };
  for (int i = 0; i < count; ++i) {
    for (const Piece& part : parts(i)) AppendSweep(chain, part, &schedule);
    copy(OperationKind::kRelease, i - plan.ahead);
    copy(OperationKind::kOffload, i);
  }
  for (int i = std::max(0, count - plan.ahead); i < count; ++i) copy(OperationKind::kRelease, i);
  Append(OperationKind::kForwardSave, chain.length() + 1, &schedule);
  for (int i = count - 1; i >= count - 1 - plan.ahead; --i) copy(OperationKind::kPrefetch, i);
  Append(OperationKind::kBackward, chain.length() + 1, &schedule);
  for (int i = count - 1; i >= 0; --i) {
    copy(OperationKind::kPrefetch, i - plan.ahead - 1);
    const std::vector<Piece> split = parts(i);
    for (auto part = split.rbegin(); part != split.rend(); ++part) AppendBackward(*part, &schedule);
  }
  return schedule;
}

absl::StatusOr<std::vector<Piece>> PiecesOf(const Chain& chain, const Schedule& schedule) {
  std::vector<Piece> pieces = PiecesOfSweep(chain, schedule);
  // A stage that may run only once is a saved one, so the first difference is its second forward or
  // the first that does not save it.
  const Schedule flat = FlatSchedule(chain, SplitAtNoRecompute(chain, pieces));
  const auto [found, expected] =
      std::mismatch(schedule.operations.begin(), schedule.operations.end(), flat.operations.begin(),
                    flat.operations.end());
  if (found == schedule.operations.end() && expected == flat.operations.end()) return pieces;
  const auto index = static_cast<size_t>(found - schedule.operations.begin());
  return absl::InvalidArgumentError(absl::StrCat(
      OperationPath(schedule, index, chain.length()), ": a flat plan has ",
      expected == flat.operations.end() ? "nothing" : OperationText(*expected, chain.length()),
      " there"));
}

std::vector<Piece> SplitAtNoRecompute(const Chain& chain, const std::vector<Piece>& pieces) {
  std::vector<Piece> split;
  for (const Piece& piece : pieces) {
    int begin = piece.first;
    for (int l = piece.first; l <= piece.last; ++l) {
      if (piece.recomputed && !chain.stage(l).no_recompute) continue;
      if (begin < l) split.push_back({begin, l - 1, /*recomputed=*/true});
      AppendStages({l, l, /*recomputed=*/false, piece.save_option}, &split);
      begin = l + 1;
    }
    if (begin <= piece.last) split.push_back({begin, piece.last, /*recomputed=*/true});
  }
  return split;
}

}  // namespace stowage
