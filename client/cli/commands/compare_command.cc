// stowage compare: the settings of a framework, ranked by what they cost on a chain.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/arguments.h"
#include "client/cli/commands.h"
#include "client/cli/export_flags.h"
#include "client/export/compare.h"
#include "client/text/table.h"
#include "nlohmann/json.hpp"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"

namespace stowage {
namespace {

struct CompareArguments {
  ExportFlags flags;
  int rows = 20;
};

size_t CountOfFitting(const std::vector<ComparedSchedule>& compared) {
  return static_cast<size_t>(std::ranges::count_if(compared, &ComparedSchedule::fits));
}

std::string Text(const std::vector<ComparedSchedule>& compared, size_t rows) {
  Table table({Table::Align::kLeft, Table::Align::kRight, Table::Align::kRight,
               Table::Align::kRight, Table::Align::kLeft});
  table.Add({"setting", "step", "over storing everything", "peak", ""});
  for (size_t i = 0; i < std::min(rows, compared.size()); ++i) {
    const Prediction& prediction = compared[i].prediction;
    table.Add({compared[i].name, FormatSeconds(prediction.makespan_seconds),
               absl::StrFormat("%+.1f %%", 100 * prediction.overhead),
               FormatBytes(prediction.peak_memory_bytes),
               compared[i].fits ? "" : "over the budget"});
  }
  std::string text = table.ToString(0);
  if (rows < compared.size()) {
    absl::StrAppend(&text, "and ", compared.size() - rows, " more: --rows ", compared.size(), "\n");
  }
  absl::StrAppend(&text, CountOfFitting(compared), " of ", compared.size(), " settings fit\n");
  return text;
}

std::string Json(const std::vector<ComparedSchedule>& compared) {
  nlohmann::ordered_json settings = nlohmann::ordered_json::array();
  for (const ComparedSchedule& setting : compared) settings.push_back(ToJson(setting));
  return nlohmann::ordered_json{{"settings", settings}}.dump(1) + "\n";
}

absl::StatusOr<int> RunCompare(const CompareArguments& arguments) {
  ASSIGN_OR_RETURN(const ExportRequest request, ReadExportRequest(arguments.flags));
  ASSIGN_OR_RETURN(const std::vector<ComparedSchedule> compared,
                   CompareSettings(request, LocalOptions()));
  const std::string text = arguments.flags.format == "json"
                               ? Json(compared)
                               : Text(compared, static_cast<size_t>(arguments.rows));
  std::fwrite(text.data(), 1, text.size(), stdout);
  return CountOfFitting(compared) > 0 ? kExitOk : kExitInfeasible;
}

}  // namespace

void AddCompareCommand(CLI::App& app, Subcommand* chosen) {
  auto arguments = std::make_shared<CompareArguments>();
  CLI::App& command = *app.add_subcommand(
      "compare", "rank the settings of a framework by what they cost on a chain");
  AddExportFlags(command, &arguments->flags);
  command.add_option("--rows", arguments->rows, "settings to print, without --format json")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command.callback([arguments, chosen] {
    arguments->flags.solve.local = true;
    *chosen = [arguments] { return RunCompare(*arguments); };
  });
}

}  // namespace stowage
