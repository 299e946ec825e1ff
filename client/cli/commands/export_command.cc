// stowage export: the best plan that a framework can express, as its settings or code.
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cli/arguments.h"
#include "client/cli/commands.h"
#include "client/cli/export_flags.h"
#include "client/export/local_export.h"
#include "client/lib/remote_scheduler.h"
#include "client/text/table.h"
#include "nlohmann/json.hpp"
#include "solver/base/prefixed.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"
#include "solver/export/targets.h"

namespace stowage {
namespace {

struct ExportArguments {
  ExportFlags flags;
  ServerFlags server;
  bool list = false;
};

std::string ListText() {
  Table table({Table::Align::kLeft, Table::Align::kLeft});
  for (const Target& target : AllTargets()) {
    table.Add({std::string(target.name), absl::StrCat(target.framework, "; ", target.setting)});
    table.Add({"", absl::StrCat("expresses: ", target.expresses)});
    table.Add({"", absl::StrCat("loses: ", target.loses)});
    table.Add({"", absl::StrCat("usual: ", target.usual)});
    table.Add({"", absl::StrCat("tried: ", target.tried)});
  }
  return table.ToString(0);
}

// nlohmann's library knows std::string_view alone.
std::string Owned(absl::string_view text) { return std::string(text); }

std::string ListJson() {
  nlohmann::ordered_json targets = nlohmann::ordered_json::array();
  for (const Target& target : AllTargets()) {
    targets.push_back({{"name", Owned(target.name)},
                       {"framework", Owned(target.framework)},
                       {"setting", Owned(target.setting)},
                       {"expresses", Owned(target.expresses)},
                       {"loses", Owned(target.loses)},
                       {"usual", Owned(target.usual)},
                       {"tried", Owned(target.tried)},
                       {"plans", Owned(PlanClassName(target.plans))}});
  }
  return nlohmann::ordered_json{{"targets", targets}}.dump(1) + "\n";
}

// The API has no message for this. 64-bit integers are strings, as in protobuf's JSON.
std::string ExportJson(const ExportRequest& request, const Export& result) {
  nlohmann::ordered_json json = {
      {"target", Owned(request.target->name)},
      {"framework", Owned(request.target->framework)},
      {"memory_bytes", absl::StrCat(request.platform.memory_bytes)},
      {"outcome", result.exported.has_value() ? "FEASIBLE" : "INFEASIBLE"}};
  if (result.minimum_memory_bytes.has_value()) {
    json["minimum_memory_bytes"] = absl::StrCat(*result.minimum_memory_bytes);
  }
  if (result.full.has_value()) json["full"] = ToJson(*result.full);
  if (result.exported.has_value()) json["exported"] = ToJson(*result.exported);
  if (result.usual.has_value()) json["usual"] = ToJson(*result.usual);
  if (result.forbidden_stage.has_value()) json["forbidden_stage"] = *result.forbidden_stage;
  if (result.exported.has_value()) json["text"] = result.text;
  return json.dump(1) + "\n";
}

std::string InfeasibleText(const ExportRequest& request, const Export& result) {
  const std::string budget = FormatBytes(request.platform.memory_bytes);
  std::string text = absl::StrCat("infeasible: ", request.target->framework,
                                  " can express no plan within ", budget, "\n");
  if (result.minimum_memory_bytes.has_value()) {
    absl::StrAppend(&text, "  least memory  ", FormatBytes(*result.minimum_memory_bytes),
                    ": --memory ", *result.minimum_memory_bytes, "\n");
  }
  for (const std::string& line : result.comparison) {
    absl::StrAppend(&text, "  ", line, "\n");
  }
  return text;
}

// A server's, or one that is solved in this process.
absl::StatusOr<Export> Find(const ExportArguments& arguments, const ExportRequest& request) {
  ASSIGN_OR_RETURN(const RemoteOptions options, ReadServer(arguments.server));
  if (options.servers.empty()) {
    return MakeExport(request, LocalOptions{.timeout_seconds = options.timeout_seconds});
  }
  const SolveRequest solve{request.chain, request.platform, "auto", {}};
  ASSIGN_OR_RETURN(const SolveResult result,
                   RemoteScheduler(options).SolveAndExport(solve, arguments.flags.target,
                                                           arguments.flags.layers));
  return *result.exported;
}

absl::StatusOr<int> RunExport(const ExportArguments& arguments) {
  const bool json = arguments.flags.format == "json";
  if (arguments.list) {
    std::fputs((json ? ListJson() : ListText()).c_str(), stdout);
    return kExitOk;
  }
  ASSIGN_OR_RETURN(const ExportRequest request, ReadExportRequest(arguments.flags));
  ASSIGN_OR_RETURN(const Export result, Find(arguments, request));
  RETURN_IF_ERROR(Prefixed("--timeout", KnownInTime(request, result)));
  const bool feasible = result.exported.has_value();
  const std::string text = json       ? ExportJson(request, result)
                           : feasible ? result.text
                                      : InfeasibleText(request, result);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return feasible ? kExitOk : kExitInfeasible;
}

}  // namespace

void AddExportCommand(CLI::App& app, Subcommand* chosen) {
  auto arguments = std::make_shared<ExportArguments>();
  CLI::App& command = *app.add_subcommand(
      "export", "print the best plan that a framework can express, as its own settings");
  AddExportFlags(command, &arguments->flags);
  AddServer(command, "none, solve in this process", &arguments->server);
  command.add_flag("--list", arguments->list, "say what each can express, and what is lost");
  command.callback([arguments, chosen] {
    arguments->flags.solve.local = true;
    *chosen = [arguments] { return RunExport(*arguments); };
  });
}

}  // namespace stowage
