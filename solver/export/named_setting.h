// A setting that somebody uses today, by name: "megatron:uniform:4".
#ifndef STOWAGE_SOLVER_EXPORT_NAMED_SETTING_H_
#define STOWAGE_SOLVER_EXPORT_NAMED_SETTING_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "solver/algorithms/flat/flat_plan.h"
#include "solver/export/layers.h"
#include "solver/export/settings.h"
#include "solver/export/targets.h"
#include "solver/model/chain.h"
#include "solver/model/schedule.h"

namespace stowage {

struct NamedSetting {
  const Target* target = nullptr;  // not null
  Setting setting;
};

// "TARGET:none" and "TARGET:all", of which the second recomputes each layer by itself; the methods
// with a number: "megatron:uniform:4", "megatron:block:4", "deepspeed:uniform:4",
// "torchtitan:every:2" (the last one of every two), "huggingface:every:2" (the first one); and
// lists as exports have them: layers counted from 0 ("torchtitan:0,2,4", "huggingface:0,2,4"),
// segments of stages counted from 1 ("pytorch:2-3,5", "jax:2-3,5"); where the target can save a
// layer in part, "pytorch:way:NAME", which saves each by its way of that name, and
// "megatron:way:core_attn+mlp", which reruns these modules of each (Layers::WayName).
// Errors: INVALID_ARGUMENT with these forms.
absl::StatusOr<NamedSetting> ParseNamedSetting(absl::string_view text);

// The inverse: "megatron:uniform:4".
std::string NameOf(const NamedSetting& named);

// Errors: INVALID_ARGUMENT where a list has a layer that there is not, as in "lists layer 9, of 8
// that are counted from 0", or where a layer has no way of the name, with the names that all have.
// Requires: as ScheduleOf(), but for this.
absl::Status CheckLayers(const NamedSetting& named, const Chain& chain, const LayerStages& stages);

// The layers that the target's settings are of. O(stages). Requires: as Layers().
Layers LayersOf(const Target& target, const Chain& chain, const LayerStages& stages);

// The plan of a setting of these layers. O(stages). Requires: CheckLayers() is OK.
std::vector<Piece> PiecesOf(const Setting& setting, const Layers& layers);

// The first stage that may run only once and that a plan of the chain recomputes; nullopt: none.
// O(stages). Requires: the pieces are 1..L in order without a gap.
std::optional<int> ForbiddenStage(const Chain& chain, const std::vector<Piece>& pieces);

// The same of what the framework would run. PyTorch and JAX recompute the stages that their user
// chooses, so those of a list alone. O(stages).
// Requires: Violations(chain) is empty; `range` is one of its stages.
std::optional<int> ForbiddenStage(const NamedSetting& named, const Chain& chain,
                                  const LayerStages& range);

// "not possible: stage 4 may run once".
std::string ForbiddenText(int stage);

// The plan of the setting where the stages of `range` are the framework's layers; of PyTorch and
// JAX, those that may run only once are saved. O(stages). Requires: no stage is forbidden, and
// CheckLayers() is OK.
Schedule ScheduleOf(const NamedSetting& named, const Chain& chain, const LayerStages& range);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_EXPORT_NAMED_SETTING_H_
