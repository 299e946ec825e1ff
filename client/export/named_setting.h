// A setting that somebody uses today, by name: "megatron:uniform:4".
#ifndef STOWAGE_CLIENT_EXPORT_NAMED_SETTING_H_
#define STOWAGE_CLIENT_EXPORT_NAMED_SETTING_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/export/layers.h"
#include "client/export/settings.h"
#include "client/export/targets.h"
#include "solver/model/chain.h"
#include "solver/model/schedule.h"

namespace stowage {

struct NamedSetting {
  const Target* target = nullptr;  // not null
  Setting setting;
};

// "TARGET:none" and "TARGET:all", of which the second recomputes each layer by itself, and the
// methods with a number: "megatron:uniform:4", "megatron:block:4", "deepspeed:uniform:4".
// Errors: INVALID_ARGUMENT with these forms.
absl::StatusOr<NamedSetting> ParseNamedSetting(absl::string_view text);

// What the framework runs with it where the stages of `range` are its layers; those that may run
// only once are saved. O(stages). Requires: Violations(chain) is empty; `range` is one of its
// stages.
Schedule ScheduleOf(const NamedSetting& named, const Chain& chain, const StageSpan& range);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_EXPORT_NAMED_SETTING_H_
