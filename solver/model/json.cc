#include "solver/model/json.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "solver/base/quote.h"

namespace stowage {
namespace {

std::string JsonOf(const std::string& text) { return ToJsonString(text); }

// 15 digits where they read back as the same number, else 17. JSON has no infinity.
std::string JsonOf(double value) {
  if (std::isnan(value)) return "\"NaN\"";
  if (std::isinf(value)) return value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  const std::string digits = absl::StrFormat("%.15g", value);
  double read = 0;
  return absl::SimpleAtod(digits, &read) && read == value ? digits
                                                          : absl::StrFormat("%.17g", value);
}

// A string: programs whose numbers are doubles would lose digits.
std::string JsonOf(int64_t value) { return absl::StrCat("\"", value, "\""); }
std::string JsonOf(bool value) { return value ? "true" : "false"; }

// An object, a line a field. Objects in it begin one space further to the right.
class JsonObject {
 public:
  explicit JsonObject(int level = 1) : level_(level) {}

  template <typename Value>
  void Add(const char* name, const Value& value) {
    AddText(name, JsonOf(value));
  }
  template <typename Value>
  void Add(const char* name, const std::optional<Value>& value) {
    if (value.has_value()) Add(name, *value);
  }
  // A value that is already JSON.
  void AddText(const char* name, absl::string_view json) {
    absl::StrAppend(&text_, text_.empty() ? "" : ",", Line(level_), "\"", name, "\": ", json);
  }

  std::string ToString() const {
    return text_.empty() ? "{}" : absl::StrCat("{", text_, Line(level_ - 1), "}");
  }

  static std::string Line(int level) {
    return absl::StrCat("\n", std::string(static_cast<size_t>(level), ' '));
  }

 private:
  const int level_;
  std::string text_;
};

std::string JsonOf(const GraphCosts& costs, int level) {
  JsonObject object(level);
  object.Add("forward_seconds", costs.forward_seconds);
  object.Add("backward_seconds", costs.backward_seconds);
  object.Add("saved_bytes", costs.saved_bytes);
  object.Add("forward_overhead_bytes", costs.forward_overhead_bytes);
  object.Add("backward_overhead_bytes", costs.backward_overhead_bytes);
  return object.ToString();
}

std::string JsonOf(const SaveOption& option, int level) {
  JsonObject object(level);
  object.Add("name", option.name);
  object.Add("saved_bytes", option.saved_bytes);
  object.Add("backward_seconds", option.backward_seconds);
  object.Add("backward_overhead_bytes", option.backward_overhead_bytes);
  object.Add("save_overhead_bytes", option.save_overhead_bytes);
  return object.ToString();
}

std::string JsonOf(const std::vector<SaveOption>& options, int level) {
  std::string text;
  for (const SaveOption& option : options) {
    absl::StrAppend(&text, text.empty() ? "" : ",", JsonObject::Line(level),
                    JsonOf(option, level + 1));
  }
  return absl::StrCat("[", text, JsonObject::Line(level - 1), "]");
}

// Fields that may be unset come last, as protobuf has them. Those that most stages do without are
// left out where they say nothing.
std::string JsonOf(const Stage& stage, int level) {
  JsonObject object(level);
  object.Add("name", stage.name);
  object.Add("forward_seconds", stage.forward_seconds);
  object.Add("backward_seconds", stage.backward_seconds);
  object.Add("output_bytes", stage.output_bytes);
  object.Add("saved_bytes", stage.saved_bytes);
  object.Add("forward_overhead_bytes", stage.forward_overhead_bytes);
  object.Add("backward_overhead_bytes", stage.backward_overhead_bytes);
  object.Add("no_recompute", stage.no_recompute);
  object.Add("no_offload", stage.no_offload);
  if (stage.graph.has_value()) object.AddText("graph", JsonOf(*stage.graph, level + 1));
  if (!stage.save_options.empty()) {
    object.AddText("save_options", JsonOf(stage.save_options, level + 1));
  }
  object.Add("gradient_bytes", stage.gradient_bytes);
  if (!stage.fusion_group.empty()) object.Add("fusion_group", stage.fusion_group);
  if (stage.control_flow) object.Add("control_flow", true);
  object.Add("replay_seconds", stage.replay_seconds);
  if (stage.input_unread) object.Add("input_unread", true);
  object.Add("save_overhead_bytes", stage.save_overhead_bytes);
  return object.ToString();
}

}  // namespace

std::string ToJsonString(absl::string_view text) {
  std::string json = "\"";
  for (const char c : ValidUtf8(text)) {
    if (c == '"' || c == '\\') {
      absl::StrAppend(&json, "\\", std::string(1, c));
    } else if (c == '\b') {
      json += "\\b";
    } else if (c == '\f') {
      json += "\\f";
    } else if (c == '\n') {
      json += "\\n";
    } else if (c == '\r') {
      json += "\\r";
    } else if (c == '\t') {
      json += "\\t";
    } else if ((c >= 0 && c < ' ') || c == '<' || c == '>' || c == '\x7f') {
      absl::StrAppendFormat(&json, "\\u%04x", static_cast<unsigned>(c));
    } else {
      json += c;
    }
  }
  return json + "\"";
}

std::string ToJson(const Chain& chain) {
  JsonObject object;
  object.Add("name", chain.name);
  object.Add("input_bytes", chain.input_bytes);
  std::string stages;
  for (const Stage& stage : chain.stages) {
    absl::StrAppend(&stages, stages.empty() ? "" : ",", JsonObject::Line(2), JsonOf(stage, 3));
  }
  if (!stages.empty()) stages += JsonObject::Line(1);
  object.AddText("stages", absl::StrCat("[", stages, "]"));
  if (chain.loss != Stage{}) object.AddText("loss", JsonOf(chain.loss, 2));
  object.Add("input_gradient_bytes", chain.input_gradient_bytes);
  if (chain.graph_entry_seconds != 0) {
    object.Add("graph_entry_seconds", chain.graph_entry_seconds);
  }
  return object.ToString() + "\n";
}

std::string ToJson(const Platform& platform) {
  JsonObject object;
  object.Add("name", platform.name);
  object.Add("offload_bytes_per_second", platform.offload_bytes_per_second);
  object.Add("transfer_latency_seconds", platform.transfer_latency_seconds);
  object.Add("half_duplex", platform.half_duplex);
  object.Add("host_memory_bytes", platform.host_memory_bytes);
  object.Add("memory_bytes", platform.memory_bytes);
  object.Add("prefetch_bytes_per_second", platform.prefetch_bytes_per_second);
  return object.ToString() + "\n";
}

}  // namespace stowage
