#include "solver/export/named_setting.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "solver/base/quote.h"

namespace stowage {
namespace {

// How a target's exports count what they list.
int FirstNumber(const Target& target) { return target.unit == LayerUnit::kStage ? 1 : 0; }

std::optional<Method> NumberedMethod(absl::string_view name, const Target& target) {
  const PlanClass plans = target.plans;
  const bool blocks = plans == PlanClass::kUniformOrBlock;
  if (name == "block" && blocks) return Method::kBlock;
  if (name == "uniform" && (blocks || plans == PlanClass::kUniform)) return Method::kUniform;
  if (name != "every" || plans != PlanClass::kPerLayer) return std::nullopt;
  return target.every_is_first ? Method::kFirstOfEvery : Method::kLastOfEvery;
}

// The layers of "2-3", or of "5".
std::optional<Piece> ParsedSegment(absl::string_view text, const Target& target) {
  const std::vector<absl::string_view> ends = absl::StrSplit(text, '-');
  const size_t most = target.plans == PlanClass::kFlat ? 2 : 1;
  Piece segment{.recomputed = true};
  const bool valid = ends.size() <= most && absl::SimpleAtoi(ends.front(), &segment.first) &&
                     absl::SimpleAtoi(ends.back(), &segment.last) && segment.last < kMaxStages &&
                     FirstNumber(target) <= segment.first && segment.first <= segment.last;
  if (!valid) return std::nullopt;
  segment.first += 1 - FirstNumber(target);
  segment.last += 1 - FirstNumber(target);
  return segment;
}

std::optional<Setting> ParsedList(absl::string_view text, const Target& target) {
  if (target.plans != PlanClass::kFlat && target.plans != PlanClass::kPerLayer) return std::nullopt;
  Setting setting{.method = Method::kList};
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::optional<Piece> segment = ParsedSegment(part, target);
    if (!segment.has_value()) return std::nullopt;
    if (!setting.list.empty() && segment->first <= setting.list.back().last) return std::nullopt;
    setting.list.push_back(*segment);
  }
  return setting;
}

std::optional<NamedSetting> Parsed(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits(':', 2));
  const Target* const target = FindTarget(parts[0]);
  if (target == nullptr) return std::nullopt;
  if (parts.size() == 2 && parts[1] == "none") return NamedSetting{target, {}};
  if (parts.size() == 2 && parts[1] == "all") return NamedSetting{target, {Method::kUniform, 1}};
  if (parts.size() == 2) {
    std::optional<Setting> list = ParsedList(parts[1], *target);
    if (!list.has_value()) return std::nullopt;
    return NamedSetting{target, *std::move(list)};
  }
  if (parts.size() != 3) return std::nullopt;
  if (parts[1] == "way") {
    if (target->ways == WayNames::kNone || parts[2].empty()) return std::nullopt;
    return NamedSetting{target, {.method = Method::kWay, .way = std::string(parts[2])}};
  }
  const std::optional<Method> method = NumberedMethod(parts[1], *target);
  int layers = 0;
  const bool valid = method.has_value() && absl::SimpleAtoi(parts[2], &layers) && layers >= 1;
  if (!valid) return std::nullopt;
  return NamedSetting{target, {*method, layers}};
}

std::vector<absl::string_view> TargetsWithWays() {
  std::vector<absl::string_view> names;
  for (const Target& target : AllTargets()) {
    if (target.ways != WayNames::kNone) names.push_back(target.name);
  }
  return names;
}

std::string ListText(const NamedSetting& named) {
  const int shift = FirstNumber(*named.target) - 1;
  return absl::StrJoin(named.setting.list, ",", [shift](std::string* text, const Piece& segment) {
    absl::StrAppend(text, segment.first + shift);
    if (segment.first < segment.last) absl::StrAppend(text, "-", segment.last + shift);
  });
}

}  // namespace

absl::StatusOr<NamedSetting> ParseNamedSetting(absl::string_view text) {
  std::optional<NamedSetting> named = Parsed(text);
  if (named.has_value()) return *std::move(named);
  std::string forms;
  for (const Target& target : AllTargets()) {
    absl::StrAppend(&forms, target.name, ":none, ", target.name, ":all, ");
  }
  return absl::InvalidArgumentError(
      absl::StrCat(Quoted(text), " is not a setting; one of ", forms,
                   "megatron:uniform:N, megatron:block:N, deepspeed:uniform:N, torchtitan:every:N, "
                   "huggingface:every:N, torch-remat:every:N, with N layers, at least 1; a list as "
                   "an export has "
                   "it, in order: torchtitan:0,2, huggingface:0,2, torch-remat:0,2, pytorch:2-3,5, "
                   "jax:2-3,5; or "
                   "TARGET:way:NAME, which saves each layer by its save_option of that name, or "
                   "megatron:way:mlp, by that which reruns these modules, of ",
                   absl::StrJoin(TargetsWithWays(), ", ")));
}

std::string NameOf(const NamedSetting& named) {
  const auto& [target, setting] = named;
  if (setting == Setting{Method::kUniform, 1}) return absl::StrCat(target->name, ":all");
  const int layers = setting.layers;
  switch (setting.method) {
    case Method::kNone:
      break;
    case Method::kUniform:
      return absl::StrCat(target->name, ":uniform:", layers);
    case Method::kBlock:
      return absl::StrCat(target->name, ":block:", layers);
    case Method::kFirstOfEvery:
    case Method::kLastOfEvery:
      return absl::StrCat(target->name, ":every:", layers);
    case Method::kList:
      return absl::StrCat(target->name, ":", ListText(named));
    case Method::kWay:
      return absl::StrCat(target->name, ":way:", setting.way);
  }
  return absl::StrCat(target->name, ":none");
}

Layers LayersOf(const Target& target, const Chain& chain, const LayerStages& stages) {
  return Layers(chain, stages, target.unit, target.ways);
}

std::vector<Piece> PiecesOf(const Setting& setting, const Layers& layers) {
  if (setting.method != Method::kWay) return PiecesOf(setting, layers.count());
  return layers.SavedBy(setting.way).value_or(std::vector<Piece>());
}

absl::Status CheckLayers(const NamedSetting& named, const Chain& chain, const LayerStages& stages) {
  const Layers layers = LayersOf(*named.target, chain, stages);
  if (named.setting.method == Method::kWay && !layers.SavedBy(named.setting.way).has_value()) {
    const std::string ways = absl::StrJoin(
        layers.CommonWays(), ", ",
        [](std::string* text, const std::string& name) { absl::StrAppend(text, Quoted(name)); });
    return absl::InvalidArgumentError(absl::StrCat(
        "saves each layer by its save_option ",
        named.target->ways == WayNames::kRerun ? "that reruns these modules"
                                               : "of that name, which has to say what it keeps",
        "; what all layers have is ", ways.empty() ? "none" : ways));
  }
  const int count = layers.count();
  const std::vector<Piece>& list = named.setting.list;
  if (list.empty() || list.back().last <= count) return absl::OkStatus();
  const int first_number = FirstNumber(*named.target);
  return absl::InvalidArgumentError(absl::StrCat("lists layer ",
                                                 list.back().last + first_number - 1, ", of ",
                                                 count, " that are counted from ", first_number));
}

std::optional<int> ForbiddenStage(const Chain& chain, const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) {
    for (int l = piece.first; piece.recomputed && l <= piece.last; ++l) {
      if (chain.stage(l).no_recompute) return l;
    }
  }
  return std::nullopt;
}

std::optional<int> ForbiddenStage(const NamedSetting& named, const Chain& chain,
                                  const LayerStages& range) {
  const bool chooses = named.target->unit == LayerUnit::kStage;
  if (chooses && named.setting.method != Method::kList) return std::nullopt;
  const Layers layers = LayersOf(*named.target, chain, range);
  return ForbiddenStage(chain, layers.ToStages(PiecesOf(named.setting, layers)));
}

std::string ForbiddenText(int stage) {
  return absl::StrCat("not possible: stage ", stage, " may run once");
}

Schedule ScheduleOf(const NamedSetting& named, const Chain& chain, const LayerStages& range) {
  const Layers layers = LayersOf(*named.target, chain, range);
  const std::vector<Piece> pieces = layers.ToStages(PiecesOf(named.setting, layers));
  return FlatSchedule(chain, SplitAtNoRecompute(chain, pieces));
}

}  // namespace stowage
