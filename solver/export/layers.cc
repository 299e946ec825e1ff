#include "solver/export/layers.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "solver/base/quote.h"
#include "solver/export/name_pattern.h"

namespace stowage {
namespace {

bool IsIdentifier(absl::string_view text) {
  return !text.empty() && !absl::ascii_isdigit(static_cast<unsigned char>(text.front())) &&
         absl::c_all_of(text, [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_';
         });
}

// "aten.mm.default#2".
bool IsCallOfOperator(absl::string_view name) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(name, absl::MaxSplits('#', 1));
  const std::vector<absl::string_view> path = absl::StrSplit(parts.first, '.');
  const absl::string_view call = parts.second;
  return path.size() >= 3 && absl::c_all_of(path, IsIdentifier) && !call.empty() &&
         call.size() <= 9 && absl::c_all_of(call, [](char c) { return c >= '0' && c <= '9'; });
}

// "self_attn", "mlp.0/gate".
bool IsPlain(absl::string_view name) {
  return !name.empty() && absl::c_all_of(name, [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("_.-/", c);
  });
}

std::string StageName(const Chain& chain, int stage) {
  const std::string& name = chain.stage(stage).name;
  return name.empty() ? absl::StrCat("stage ", stage) : Printable(name);
}

// Plans are of eager mode alone.
void LeaveGroup(Stage* stage) {
  stage->graph.reset();
  stage->fusion_group.clear();
}

void RunOnce(Stage* stage) {
  stage->no_recompute = true;
  stage->replay_seconds.reset();  // a stage that runs once has no replay
}

// "'stem', 'layers.0' and 8 more".
std::string FirstNames(const Chain& chain) {
  constexpr int kShown = 5;
  std::vector<std::string> names;
  for (int l = 1; l <= std::min(kShown, chain.length()); ++l) {
    names.push_back(Quoted(chain.stage(l).name));
  }
  const int more = chain.length() - kShown;
  return absl::StrCat(absl::StrJoin(names, ", "),
                      more > 0 ? absl::StrCat(" and ", more, " more") : "");
}

// The stages of a pattern are neighbours, and so are those of each layer.
absl::StatusOr<LayerStages> FromPattern(absl::string_view pattern, const Chain& chain,
                                        LayerUnit unit) {
  LayerStages stages;
  absl::flat_hash_set<absl::string_view> layers;
  absl::string_view last_layer;
  for (int l = 1; l <= chain.length(); ++l) {
    const auto layer = MatchedName(pattern, chain.stage(l).name);
    if (!layer.has_value()) continue;
    const bool begins = layers.empty();
    const bool is_new = layers.insert(*layer).second;
    if (!begins && (stages.last != l - 1 || (!is_new && *layer != last_layer))) {
      const bool apart = stages.last != l - 1;
      return absl::InvalidArgumentError(absl::StrCat(
          Quoted(pattern), ": stage ", l, " ", Quoted(chain.stage(l).name), " is of a layer, and ",
          apart ? absl::StrCat("stage ", l - 1, " ", Quoted(chain.stage(l - 1).name),
                               ", between layers, of none")
                : absl::StrCat("others are between it and the other stages of ", Quoted(*layer)),
          "; layers are neighbours: give a range, as in 1:", chain.length()));
    }
    if (begins) stages.first = l;
    const bool goes_on = !is_new && unit == LayerUnit::kFusionGroup;
    if (goes_on) stages.ends.pop_back();
    stages.ends.push_back(l);
    stages.last = l;
    last_layer = *layer;
  }
  if (!layers.empty()) return stages;
  return absl::InvalidArgumentError(
      absl::StrCat(Quoted(pattern), " is in no stage's name; the names are ", FirstNames(chain)));
}

std::vector<StageSpan> SpansOf(const Chain& chain, const LayerStages& stages, LayerUnit unit) {
  std::vector<StageSpan> spans;
  if (!stages.ends.empty()) {
    int first = stages.first;
    for (const int last : stages.ends) {
      spans.push_back({first, last});
      first = last + 1;
    }
    return spans;
  }
  for (int l = stages.first; l <= stages.last; ++l) {
    const std::string& group = chain.stage(l).fusion_group;
    const bool goes_on = unit == LayerUnit::kFusionGroup && l > stages.first && !group.empty() &&
                         group == chain.stage(l - 1).fusion_group;
    if (goes_on) {
      spans.back().last = l;
    } else {
      spans.push_back({l, l});
    }
  }
  return spans;
}

void Append(const Piece& piece, std::vector<Piece>* pieces) {
  if (piece.first > piece.last) return;
  if (!piece.recomputed && !pieces->empty() && !pieces->back().recomputed &&
      piece.save_option == pieces->back().save_option) {
    pieces->back().last = piece.last;
  } else {
    pieces->push_back(piece);
  }
}

}  // namespace

std::vector<std::string> NamesOf(const SaveOption& option, WayNames names) {
  switch (names) {
    case WayNames::kNone:
      return {};
    case WayNames::kOperators:
      return absl::c_all_of(option.kept, IsCallOfOperator) ? option.kept
                                                           : std::vector<std::string>();
    case WayNames::kKept:
      return absl::c_all_of(option.kept, IsPlain) ? option.kept : std::vector<std::string>();
    case WayNames::kRerun:
      break;
  }
  // They stand among a command's arguments.
  return absl::c_all_of(option.rerun, IsIdentifier) ? option.rerun : std::vector<std::string>();
}

absl::StatusOr<LayerStages> ParseLayerStages(absl::string_view text, const Chain& chain,
                                             LayerUnit unit) {
  constexpr size_t kMaxBytes = 64;  // bounds time and memory
  if (text.size() > kMaxBytes) {
    return absl::InvalidArgumentError(absl::StrCat(Quoted(text), " has ", text.size(),
                                                   " bytes; at most ", kMaxBytes, " are allowed"));
  }
  if (absl::StrContains(text, kNumber)) return FromPattern(text, chain, unit);
  LayerStages stages{1, chain.length()};
  if (text.empty()) return stages;
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  const bool is_range = parts.size() == 2 && absl::SimpleAtoi(parts[0], &stages.first) &&
                        absl::SimpleAtoi(parts[1], &stages.last) && stages.first >= 1 &&
                        stages.first <= stages.last && stages.last <= chain.length();
  if (is_range) return stages;
  return absl::InvalidArgumentError(absl::StrCat(
      Quoted(text), " is neither a range of the stages 1 to ", chain.length(),
      ", as in 1:", chain.length(), ", nor a pattern of their names, as in layers.", kNumber));
}

Layers::Layers(const Chain& chain, const LayerStages& stages, LayerUnit unit, WayNames names)
    : names_(names), chain_(chain), layers_(SpansOf(chain, stages, unit)) {
  chain_.ClearSaveOptions();
  for (Stage& stage : chain_.stages) LeaveGroup(&stage);
  for (int l = 1; l <= chain.length(); ++l) {
    if (l >= stages.first && l <= stages.last) continue;
    Stage& other = chain_.stages[static_cast<size_t>(l) - 1];
    RunOnce(&other);
    other.no_offload = true;
  }
  for (int layer = 1; layer <= count(); ++layer) MarkLayer(chain, layer);
}

// One group, of which no stage runs again where one may not.
void Layers::MarkLayer(const Chain& chain, int layer) {
  const auto [first, last] = stages(layer);
  bool runs_once = false;
  for (int l = first; l <= last; ++l) runs_once |= chain.stage(l).no_recompute;
  for (int l = first; l <= last; ++l) {
    Stage& stage = chain_.stages[static_cast<size_t>(l) - 1];
    if (first < last) stage.fusion_group = absl::StrCat("layer ", layer);
    if (runs_once) RunOnce(&stage);
  }
  const std::vector<SaveOption>& options = chain.stage(first).save_options;
  const bool in_part =
      first == last && !runs_once && absl::c_none_of(options, [this](const SaveOption& option) {
        return NamesOf(option, names_).empty();
      });
  if (in_part) chain_.stages[static_cast<size_t>(first) - 1].save_options = options;
}

std::vector<std::string> Layers::way_names(int layer, int number) const {
  std::vector<std::string> names = NamesOf(way(layer, number), names_);
  if (names_ == WayNames::kRerun) absl::c_sort(names);
  return names;
}

std::string Layers::WayName(int layer, int number) const {
  if (names_ == WayNames::kRerun) return absl::StrJoin(way_names(layer, number), "+");
  return way(layer, number).name;
}

std::optional<std::vector<Piece>> Layers::SavedBy(absl::string_view way) const {
  std::vector<Piece> pieces;
  for (int layer = 1; layer <= count(); ++layer) {
    int number = 1;
    while (number <= ways(layer) && WayName(layer, number) != way) ++number;
    if (number > ways(layer)) return std::nullopt;
    Append({layer, layer, /*recomputed=*/false, number}, &pieces);
  }
  return pieces;
}

std::vector<std::string> Layers::CommonWays() const {
  std::vector<std::string> names;
  for (int number = 1; number <= ways(1); ++number) {
    std::string name = WayName(1, number);
    if (name.empty() || absl::c_linear_search(names, name)) continue;
    if (SavedBy(name).has_value()) names.push_back(std::move(name));
  }
  return names;
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
      Append({layer, layer, piece->recomputed, piece->save_option}, &of_layers);
    }
  }
  return of_layers;
}

std::vector<Piece> Layers::ToStages(const std::vector<Piece>& pieces) const {
  std::vector<Piece> of_stages;
  Append({1, layers_.front().first - 1, /*recomputed=*/false}, &of_stages);
  for (const Piece& piece : pieces) {
    Append(
        {stages(piece.first).first, stages(piece.last).last, piece.recomputed, piece.save_option},
        &of_stages);
  }
  Append({layers_.back().last + 1, chain_.length(), /*recomputed=*/false}, &of_stages);
  return of_stages;
}

}  // namespace stowage
