// stowage export: the best plan that a framework can express, as its settings or code.
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/arguments.h"
#include "client/cli/commands.h"
#include "client/cli/solve_flags.h"
#include "client/export/export.h"
#include "client/export/targets.h"
#include "client/text/table.h"
#include "nlohmann/json.hpp"
#include "proto/convert/chain_message.h"
#include "solver/base/prefixed.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"
#include "solver/model/answer.h"
#include "solver/solve/request_violations.h"

namespace stowage {
namespace {

struct Arguments {
  std::string target;
  bool list = false;
  std::string layers;
  SolveFlags solve;
  PlatformFlags platform;
  std::string format = "text";
};

std::string TargetNames() {
  return absl::StrJoin(AllTargets(), " ", [](std::string* text, const Target& target) {
    absl::StrAppend(text, target.name);
  });
}

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

nlohmann::ordered_json ToJson(const ComparedSchedule& compared) {
  return {{"name", compared.name},
          {"makespan_seconds", compared.prediction.makespan_seconds},
          {"overhead", compared.prediction.overhead},
          {"peak_memory_bytes", absl::StrCat(compared.prediction.peak_memory_bytes)},
          {"fits", compared.fits}};
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
  std::string text =
      absl::StrCat("infeasible: ", request.target->framework, " can express no plan within ",
                   FormatBytes(request.platform.memory_bytes), "\n");
  if (result.minimum_memory_bytes.has_value()) {
    absl::StrAppend(&text, "  least memory  ", FormatBytes(*result.minimum_memory_bytes),
                    ": --memory ", *result.minimum_memory_bytes, "\n");
  }
  for (const std::string& line : ComparisonLines(*request.target, result)) {
    absl::StrAppend(&text, "  ", line, "\n");
  }
  return text;
}

absl::StatusOr<ExportRequest> ReadArguments(const Arguments& arguments) {
  ExportRequest request;
  request.target = FindTarget(arguments.target);
  if (request.target == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(arguments.target.empty() ? "--for is required" : "--for: no such target",
                     "; one of ", TargetNames(), "; see stowage export --list"));
  }
  if (arguments.solve.chain.empty()) return absl::InvalidArgumentError("--chain is required");
  ASSIGN_OR_RETURN(const ChainFile file, ReadChain(arguments.solve.chain));
  ASSIGN_OR_RETURN(
      const SolveRequest solve,
      ReadRequest<SolveRequest>(arguments.solve, arguments.platform, file, MemoryFlag::kRequired));
  RETURN_IF_ERROR(CheckRequest(RequestViolations(solve)));
  request.chain = solve.chain;
  request.platform = solve.platform;
  ASSIGN_OR_RETURN(
      request.stages,
      Prefixed("--layers", ParseStages(*request.target, arguments.layers, request.chain)));
  return request;
}

absl::StatusOr<int> Run(const Arguments& arguments) {
  const bool json = arguments.format == "json";
  if (arguments.list) {
    std::fputs((json ? ListJson() : ListText()).c_str(), stdout);
    return kExitOk;
  }
  ASSIGN_OR_RETURN(const ExportRequest request, ReadArguments(arguments));
  ASSIGN_OR_RETURN(const Export result, MakeExport(request, LocalOptions()));
  const bool feasible = result.exported.has_value();
  const std::string text = json       ? ExportJson(request, result)
                           : feasible ? result.text
                                      : InfeasibleText(request, result);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return feasible ? kExitOk : kExitInfeasible;
}

}  // namespace

void AddExportCommand(CLI::App& app, Subcommand* chosen) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App& command = *app.add_subcommand(
      "export", "print the best plan that a framework can express, as its own settings");
  command.add_option("--for", arguments->target, absl::StrCat("one of ", TargetNames()))
      ->type_name("NAME");
  command.add_flag("--list", arguments->list, "say what each can express, and what is lost");
  AddChainFlag(command, &arguments->solve);
  command.get_option("--chain")->required(false);
  command
      .add_option("--layers", arguments->layers,
                  "the stages that are the framework's layers, as in 2:25; the others are saved; "
                  "default: all. Of a fusion group one layer is made, but for pytorch and jax")
      ->type_name("FIRST:LAST");
  AddPlatform(command, MemoryFlag::kRequired, &arguments->platform);
  AddFormat(command, &arguments->format);
  command.callback([arguments, chosen] {
    arguments->solve.local = true;
    *chosen = [arguments] { return Run(*arguments); };
  });
}

}  // namespace stowage
