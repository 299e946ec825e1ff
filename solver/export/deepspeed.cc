// DeepSpeed: the interval of activation checkpoints of a PipelineModule.
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "solver/export/settings.h"
#include "solver/export/targets.h"
#include "solver/export/text.h"
#include "solver/json/print_json.h"

namespace stowage {
namespace {

// DeepSpeed takes the interval of its configuration only where that is above 0.
constexpr absl::string_view kNoInterval =
    "An interval of 0 leaves the one that the PipelineModule is made with: make it with 0.";

// JSON has no comments; DeepSpeed ignores keys that it does not know.
std::string RemarkLines(const std::vector<std::string>& remarks) {
  std::string lines;
  for (const std::string& remark : remarks) {
    absl::StrAppend(&lines, lines.empty() ? "" : ",\n", "    ", ToJsonString(remark));
  }
  return lines + "\n";
}

}  // namespace

absl::StatusOr<std::string> WriteDeepSpeed(const ExportedPlan& plan) {
  const std::optional<Setting> setting = SettingOf(plan.pieces);
  if (!setting.has_value() || setting->method == Method::kBlock) {
    return absl::InvalidArgumentError(
        "DeepSpeed recomputes segments of N layers each, and this plan others; solve with the "
        "solver uniform");
  }
  const int interval = setting->layers;
  const auto checkpoints = plan.pieces.size();
  std::vector<std::string> remarks = plan.remarks;
  if (interval == 0) remarks.emplace_back(kNoInterval);
  return absl::StrCat(
      "{\n  \"comment\": [\n", RemarkLines(remarks),
      "  ],\n  \"pipeline\": {\n    \"activation_checkpoint_interval\": ", interval,
      "\n  },\n  \"activation_checkpointing\": {\n    \"partition_activations\": false,\n    "
      "\"cpu_checkpointing\": false,\n    \"number_checkpoints\": ",
      interval == 0 ? "null" : absl::StrCat(checkpoints), "\n  }\n}\n");
}

}  // namespace stowage
