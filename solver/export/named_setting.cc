#include "solver/export/named_setting.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "solver/base/quote.h"

namespace stowage {
namespace {

std::optional<Method> NumberedMethod(absl::string_view name, PlanClass plans) {
  const bool blocks = plans == PlanClass::kUniformOrBlock;
  if (name == "block" && blocks) return Method::kBlock;
  if (name == "uniform" && (blocks || plans == PlanClass::kUniform)) return Method::kUniform;
  return std::nullopt;
}

std::optional<NamedSetting> Parsed(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  const Target* const target = FindTarget(parts[0]);
  if (target == nullptr) return std::nullopt;
  if (parts.size() == 2 && parts[1] == "none") return NamedSetting{target, {}};
  if (parts.size() == 2 && parts[1] == "all") return NamedSetting{target, {Method::kUniform, 1}};
  if (parts.size() != 3) return std::nullopt;
  const std::optional<Method> method = NumberedMethod(parts[1], target->plans);
  int layers = 0;
  const bool valid = method.has_value() && absl::SimpleAtoi(parts[2], &layers) && layers >= 1;
  if (!valid) return std::nullopt;
  return NamedSetting{target, {*method, layers}};
}

}  // namespace

absl::StatusOr<NamedSetting> ParseNamedSetting(absl::string_view text) {
  const std::optional<NamedSetting> named = Parsed(text);
  if (named.has_value()) return *named;
  std::string forms;
  for (const Target& target : AllTargets()) {
    absl::StrAppend(&forms, target.name, ":none, ", target.name, ":all, ");
  }
  return absl::InvalidArgumentError(absl::StrCat(
      Quoted(text), " is not a setting; one of ", forms,
      "megatron:uniform:N, megatron:block:N, deepspeed:uniform:N, with N layers, at least 1"));
}

std::string NameOf(const NamedSetting& named) {
  const auto& [target, setting] = named;
  if (setting.method == Method::kNone) return absl::StrCat(target->name, ":none");
  if (setting == Setting{Method::kUniform, 1}) return absl::StrCat(target->name, ":all");
  const char* const method = setting.method == Method::kUniform ? ":uniform:" : ":block:";
  return absl::StrCat(target->name, method, setting.layers);
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
  if (named.target->unit == LayerUnit::kStage) return std::nullopt;
  const Layers layers(chain, range, named.target->unit);
  return ForbiddenStage(chain, layers.ToStages(PiecesOf(named.setting, layers.count())));
}

std::string ForbiddenText(int stage) {
  return absl::StrCat("not possible: stage ", stage, " may run once");
}

Schedule ScheduleOf(const NamedSetting& named, const Chain& chain, const LayerStages& range) {
  const Layers layers(chain, range, named.target->unit);
  const std::vector<Piece> pieces = layers.ToStages(PiecesOf(named.setting, layers.count()));
  return FlatSchedule(chain, SplitAtNoRecompute(chain, pieces));
}

}  // namespace stowage
