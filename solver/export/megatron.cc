// Megatron-core: full recomputation by its two methods.
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "solver/export/settings.h"
#include "solver/export/targets.h"
#include "solver/export/text.h"

namespace stowage {

absl::StatusOr<std::string> WriteMegatron(const ExportedPlan& plan) {
  const std::optional<Setting> setting = SettingOf(plan.pieces);
  if (!setting.has_value()) {
    return absl::InvalidArgumentError(
        "Megatron-core recomputes segments of N layers each, or the first N layers one by one, and "
        "this plan others; solve with the solver uniform or block");
  }
  std::string arguments;
  if (setting->method != Method::kNone) {
    arguments = absl::StrCat("    --recompute-granularity full\n    --recompute-method ",
                             setting->method == Method::kUniform ? "uniform" : "block",
                             "\n    --recompute-num-layers ", setting->layers, "\n");
  }
  std::string layers = absl::StrCat("# Of one pipeline stage with ", plan.layers->count(),
                                    " layers: give each stage's chain a setting of its own, or the "
                                    "one of the\n# stage that needs most.\n");
  if (setting->method != Method::kNone) {
    absl::StrAppend(&layers,
                    "# Of a virtual pipeline the number applies to each chunk of layers.\n");
  }
  if (setting->method == Method::kUniform && plan.layers->count() % setting->layers != 0) {
    absl::StrAppend(&layers, "# The last segment is shorter, which releases before 0.19 refuse.\n");
  }
  return absl::StrCat(HashComments(plan.remarks), layers, "RECOMPUTE_ARGS=(\n", arguments, ")\n");
}

}  // namespace stowage
