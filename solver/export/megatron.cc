// Megatron-core: full recomputation by its two methods, or that of modules of every layer.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "solver/export/settings.h"
#include "solver/export/targets.h"
#include "solver/export/text.h"

namespace stowage {

namespace {

// The modules that every layer reruns; empty: layers differ, or one is saved or recomputed whole.
std::vector<std::string> RerunModules(const ExportedPlan& plan) {
  std::vector<std::string> modules;
  for (const Piece& piece : plan.pieces) {
    for (int layer = piece.first; layer <= piece.last; ++layer) {
      if (piece.save_option == 0) return {};
      std::vector<std::string> of_layer = plan.layers->way_names(layer, piece.save_option);
      if (layer > 1 && of_layer != modules) return {};
      modules = std::move(of_layer);
    }
  }
  return modules;
}

}  // namespace

absl::StatusOr<std::string> WriteMegatron(const ExportedPlan& plan) {
  const std::vector<std::string> modules = RerunModules(plan);
  const std::optional<Setting> setting =
      modules.empty() ? SettingOf(plan.pieces) : std::optional<Setting>(Setting());
  if (!setting.has_value()) {
    return absl::InvalidArgumentError(
        "Megatron-core recomputes segments of N layers each, the first N layers one by one, or the "
        "same modules of every layer, and this plan others; solve with the solver uniform or "
        "block");
  }
  std::string arguments;
  if (!modules.empty()) {
    arguments = absl::StrCat("    --recompute-granularity selective\n    --recompute-modules ",
                             absl::StrJoin(modules, " "), "\n");
  }
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
