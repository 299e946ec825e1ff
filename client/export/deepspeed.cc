// DeepSpeed: the interval of activation checkpoints of a PipelineModule.
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/export/settings.h"
#include "client/export/targets.h"
#include "client/export/text.h"

namespace stowage {
namespace {

// Requires: printable text.
std::string JsonString(absl::string_view text) {
  std::string json = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') json += '\\';
    json += c;
  }
  return json + '"';
}

// JSON has no comments; DeepSpeed ignores keys that it does not know.
std::string RemarkLines(const ExportedPlan& plan) {
  std::string lines;
  for (const std::string& remark : plan.remarks) {
    absl::StrAppend(&lines, lines.empty() ? "" : ",\n", "    ", JsonString(remark));
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
  return absl::StrCat(
      "{\n  \"comment\": [\n", RemarkLines(plan),
      "  ],\n  \"pipeline\": {\n    \"activation_checkpoint_interval\": ", interval,
      "\n  },\n  \"activation_checkpointing\": {\n    \"partition_activations\": false,\n    "
      "\"cpu_checkpointing\": false,\n    \"number_checkpoints\": ",
      interval == 0 ? "null" : absl::StrCat(checkpoints), "\n  }\n}\n");
}

}  // namespace stowage
