// stowage chain: a summary of a profile.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/arguments.h"
#include "client/cli/commands.h"
#include "client/cli/schedule_text.h"
#include "client/text/table.h"
#include "google/protobuf/struct.pb.h"
#include "nlohmann/json.hpp"
#include "proto/convert/json.h"
#include "solver/base/quote.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/chain_warnings.h"
#include "solver/model/modes.h"

namespace stowage {
namespace {

using Align = Table::Align;

constexpr size_t kStagesShown = 12;
constexpr size_t kProvenanceCharacters = 76;  // of a value

struct ChainArguments {
  std::string file;
  std::string format = "text";
};

// Sums over the stages, the loss included in the times.
struct Totals {
  double forward_seconds = 0;
  double backward_seconds = 0;
  int64_t output_bytes = 0;
  int64_t saved_bytes = 0;
  int no_recompute = 0;
  int no_offload = 0;
};

Totals Sum(const Chain& chain) {
  Totals totals{chain.loss.forward_seconds, chain.loss.backward_seconds, 0, 0, 0, 0};
  for (const Stage& stage : chain.stages) {
    totals.forward_seconds += stage.forward_seconds;
    totals.backward_seconds += stage.backward_seconds;
    totals.output_bytes += stage.output_bytes;
    totals.saved_bytes += stage.saved_bytes;
    totals.no_recompute += stage.no_recompute ? 1 : 0;
    totals.no_offload += stage.no_offload ? 1 : 0;
  }
  return totals;
}

// The sums over all stages, and the range of budgets: from the floor of any schedule (0 %) to
// storing everything (100 %).
std::string TotalsText(const Chain& chain) {
  const Totals totals = Sum(chain);
  const MemoryFloor floor = FloorOfMemory(chain);
  Table table({Align::kLeft, Align::kRight, Align::kLeft});
  table.Add(
      {"stages", absl::StrCat(chain.length()),
       absl::StrCat(totals.no_recompute, " no_recompute, ", totals.no_offload, " no_offload")});
  table.Add({"forward", FormatSeconds(totals.forward_seconds), ""});
  table.Add({"backward", FormatSeconds(totals.backward_seconds), ""});
  table.Add({"a step", FormatSeconds(ComputeSeconds(chain)), "with unlimited memory"});
  if (ChainUnits(chain).HasGraph()) {
    table.Add({"graph mode", FormatSeconds(chain.graph_entry_seconds),
               absl::StrCat("to enter it; ", GraphModeSummary(chain))});
  }
  table.Add({"input", FormatBytes(chain.input_bytes),
             absl::StrCat("its gradient ", FormatBytes(chain.gradient_bytes(0)))});
  table.Add({"outputs", FormatBytes(totals.output_bytes), "of all stages together"});
  table.Add(
      {"saved", FormatBytes(totals.saved_bytes), "for all backwards together, outputs included"});
  table.Add(
      {"memory floor", FormatBytes(floor.bytes),
       absl::StrCat("which ", NamedOperation(chain, floor.operation), " needs by itself (0 %)")});
  table.Add({"most memory", FormatBytes(StoreAllPeakBytes(chain)), "to store everything (100 %)"});
  return table.ToString(2);
}

// Why a unit with graph costs has no graph mode; empty for other units.
std::string EagerReason(const Chain& chain, const Unit& unit) {
  bool costs = false;
  std::string reason;
  for (int l = unit.first; l <= unit.last; ++l) {
    costs = costs || chain.stage(l).graph.has_value();
    if (chain.stage(l).control_flow && reason.empty()) reason = absl::StrCat("control_flow of ", l);
  }
  if (!costs || reason.empty()) return "";
  const std::string stages =
      unit.first == unit.last ? std::string("eager only")
                              : absl::StrCat("stages ", unit.first, "-", unit.last, " eager only");
  return absl::StrCat(stages, ": ", reason);
}

// A table of all stages, or of those with the largest saved values where there are many.
std::string StagesText(const Chain& chain) {
  std::vector<int> stages(static_cast<size_t>(chain.length()));
  std::iota(stages.begin(), stages.end(), 1);
  std::string title = "\nstages\n";
  if (stages.size() > kStagesShown) {
    title = absl::StrCat("\nthe ", kStagesShown, " stages that save most\n");
    std::stable_sort(stages.begin(), stages.end(), [&chain](int a, int b) {
      return chain.saved_bytes(a) > chain.saved_bytes(b);
    });
    stages.resize(kStagesShown);
  }
  Table table({Align::kRight, Align::kLeft, Align::kRight, Align::kRight, Align::kRight,
               Align::kRight, Align::kRight});
  table.Add({"", "name", "forward", "backward", "output", "saved", "overheads"});
  // The costs of a unit in graph mode stand below its last stage.
  std::vector<const Unit*> unit_of(static_cast<size_t>(chain.length()) + 2);
  const ChainUnits units(chain);
  for (const Unit& unit : units) {
    const bool eager_only = !unit.has_graph && !EagerReason(chain, unit).empty();
    if (unit.has_graph || eager_only) unit_of[static_cast<size_t>(unit.last)] = &unit;
  }
  for (const int l : stages) {
    const Stage& stage = chain.stage(l);
    table.Add({absl::StrCat(l), stage.name, FormatSeconds(stage.forward_seconds),
               FormatSeconds(stage.backward_seconds), FormatBytes(stage.output_bytes),
               FormatBytes(stage.saved_bytes),
               FormatBytes(std::max({stage.forward_overhead_bytes, stage.SaveOverheadBytes(0),
                                     stage.backward_overhead_bytes}))});
    const Unit* unit = unit_of[static_cast<size_t>(l)];
    if (unit == nullptr) continue;
    if (!unit->has_graph) {
      table.Add({"", EagerReason(chain, *unit), "", "", "", "", ""});
      continue;
    }
    const Stage graph = GraphStage(chain, *unit);
    table.Add({"",
               unit->first == unit->last
                   ? "in graph mode"
                   : absl::StrCat("stages ", unit->first, "-", unit->last, " in graph mode"),
               FormatSeconds(graph.forward_seconds), FormatSeconds(graph.backward_seconds), "",
               FormatBytes(graph.saved_bytes),
               FormatBytes(std::max(graph.forward_overhead_bytes, graph.backward_overhead_bytes))});
  }
  return title + table.ToString(2);
}

std::string ProvenanceText(const v1::Chain& chain) {
  if (chain.provenance().fields().empty()) return "";
  std::vector<std::string> keys;
  for (const auto& [key, value] : chain.provenance().fields()) keys.push_back(key);
  std::sort(keys.begin(), keys.end());
  Table table({Align::kLeft, Align::kLeft});
  for (const std::string& key : keys) {
    const google::protobuf::Value& value = chain.provenance().fields().at(key);
    std::string text = value.has_string_value() ? value.string_value() : ToJson(value);
    text = Printable(text);
    if (text.size() > kProvenanceCharacters) {
      size_t end = kProvenanceCharacters;
      while ((static_cast<unsigned char>(text[end]) & 0xC0) == 0x80)
        --end;  // not inside a UTF-8 character
      text = text.substr(0, end) + "…";
    }
    table.Add({Printable(key), text});
  }
  return absl::StrCat("\nprovenance\n", table.ToString(2));
}

// The API has no message for this. 64-bit integers are strings, as in protobuf's JSON.
std::string SummaryJson(const Chain& chain) {
  const Totals totals = Sum(chain);
  const MemoryFloor floor = FloorOfMemory(chain);
  nlohmann::ordered_json summary = {
      {"name", chain.name},
      {"stages", chain.length()},
      {"no_recompute_stages", totals.no_recompute},
      {"no_offload_stages", totals.no_offload},
      {"forward_seconds", totals.forward_seconds},
      {"backward_seconds", totals.backward_seconds},
      {"input_bytes", absl::StrCat(chain.input_bytes)},
      {"output_bytes", absl::StrCat(totals.output_bytes)},
      {"saved_bytes", absl::StrCat(totals.saved_bytes)},
      {"memory_floor_bytes", absl::StrCat(floor.bytes)},
      {"memory_floor_operation", OperationName(floor.operation)},
      {"most_memory_bytes", absl::StrCat(StoreAllPeakBytes(chain))},
  };
  if (const ChainUnits all(chain); all.HasGraph()) {
    int units = 0;
    int stages = 0;
    for (const Unit& unit : all) {
      units += unit.has_graph ? 1 : 0;
      stages += unit.has_graph ? unit.last - unit.first + 1 : 0;
    }
    summary["graph_mode"] = {{"stages", stages},
                             {"units", units},
                             {"entry_seconds", chain.graph_entry_seconds},
                             {"step_seconds", ComputeSeconds(chain)}};
  }
  for (const ChainWarning& warning : ChainWarnings(chain)) {
    summary["warnings"].push_back(
        {{"field", warning.field}, {"reason", warning.reason}, {"problem", warning.problem}});
  }
  return summary.dump(1) + "\n";
}

absl::StatusOr<int> RunChain(const ChainArguments& arguments) {
  ASSIGN_OR_RETURN(const ChainFile file, ReadChain(arguments.file));
  const std::string text =
      arguments.format == "json"
          ? SummaryJson(file.chain)
          : absl::StrCat(file.chain.name.empty() ? "unnamed chain" : file.chain.name, "\n",
                         WarningLines(ChainWarnings(file.chain)), TotalsText(file.chain),
                         StagesText(file.chain), ProvenanceText(file.message));
  std::fwrite(text.data(), 1, text.size(), stdout);
  return kExitOk;
}

}  // namespace

void AddChainCommand(CLI::App& app, Subcommand* chosen) {
  auto arguments = std::make_shared<ChainArguments>();
  CLI::App& command = *app.add_subcommand("chain", "summarize a profile");
  command
      .add_option("file", arguments->file, "profile of the network, JSON; - reads standard input")
      ->required()
      ->type_name("FILE");
  AddFormat(command, &arguments->format);
  command.callback([arguments, chosen] { *chosen = [arguments] { return RunChain(*arguments); }; });
}

}  // namespace stowage
