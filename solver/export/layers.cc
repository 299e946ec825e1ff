#include "solver/export/layers.h"

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "solver/base/quote.h"

namespace stowage {
namespace {

std::string StageName(const Chain& chain, int stage) {
  const std::string& name = chain.stage(stage).name;
  return name.empty() ? absl::StrCat("stage ", stage) : Printable(name);
}

// Of plans, which are of eager mode alone, only the groups of layers matter.
void LeaveGroup(Stage* stage) {
  stage->graph.reset();
  stage->fusion_group.clear();
}

void RunOnce(Stage* stage) {
  stage->no_recompute = true;
  stage->replay_seconds.reset();  // a stage that runs once has no replay
}

void Append(const Piece& piece, std::vector<Piece>* pieces) {
  if (piece.first > piece.last) return;
  if (!piece.recomputed && !pieces->empty() && !pieces->back().recomputed) {
    pieces->back().last = piece.last;
  } else {
    pieces->push_back(piece);
  }
}

}  // namespace

absl::StatusOr<StageSpan> ParseStageSpan(absl::string_view text, const Chain& chain) {
  StageSpan range{1, chain.length()};
  if (text.empty()) return range;
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  const bool is_range = parts.size() == 2 && absl::SimpleAtoi(parts[0], &range.first) &&
                        absl::SimpleAtoi(parts[1], &range.last) && range.first >= 1 &&
                        range.first <= range.last && range.last <= chain.length();
  if (is_range) return range;
  return absl::InvalidArgumentError(absl::StrCat(Quoted(text),
                                                 " is not a range of the stages 1 to ",
                                                 chain.length(), ", as in 1:", chain.length()));
}

Layers::Layers(const Chain& chain, const StageSpan& range, LayerUnit unit) : chain_(chain) {
  for (int l = 1; l <= chain.length(); ++l) {
    Stage& stage = chain_.stages[static_cast<size_t>(l) - 1];
    const bool is_layer = l >= range.first && l <= range.last;
    if (!is_layer || unit == LayerUnit::kStage) LeaveGroup(&stage);
    if (!is_layer) {
      RunOnce(&stage);
      continue;
    }
    const std::string& group = stage.fusion_group;
    if (l > range.first && !group.empty() && group == chain_.stage(l - 1).fusion_group) {
      layers_.back().last = l;
    } else {
      layers_.push_back({l, l});
    }
  }
  for (const StageSpan& layer : layers_) {
    bool runs_once = false;
    for (int l = layer.first; l <= layer.last; ++l) runs_once |= chain.stage(l).no_recompute;
    for (int l = layer.first; runs_once && l <= layer.last; ++l) {
      RunOnce(&chain_.stages[static_cast<size_t>(l) - 1]);
    }
  }
}

std::string Layers::name(int layer) const {
  const auto [first, last] = stages(layer);
  if (first == last) return StageName(chain_, first);
  return absl::StrCat(StageName(chain_, first), " to ", StageName(chain_, last));
}

std::vector<Piece> Layers::FromStages(const std::vector<Piece>& pieces) const {
  std::vector<Piece> of_layers;
  auto piece = pieces.begin();
  for (int layer = 1; layer <= count(); ++layer) {
    while (piece->last < stages(layer).first) ++piece;
    if (piece->recomputed && piece->first < stages(layer).first) {
      of_layers.back().last = layer;
    } else {
      Append({layer, layer, piece->recomputed}, &of_layers);
    }
  }
  return of_layers;
}

std::vector<Piece> Layers::ToStages(const std::vector<Piece>& pieces) const {
  std::vector<Piece> of_stages;
  Append({1, layers_.front().first - 1, /*recomputed=*/false}, &of_stages);
  for (const Piece& piece : pieces) {
    Append({stages(piece.first).first, stages(piece.last).last, piece.recomputed}, &of_stages);
  }
  Append({layers_.back().last + 1, chain_.length(), /*recomputed=*/false}, &of_stages);
  return of_stages;
}

}  // namespace stowage
