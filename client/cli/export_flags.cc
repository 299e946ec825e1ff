#include "client/cli/export_flags.h"

#include "absl/strings/str_cat.h"
#include "client/cli/arguments.h"
#include "nlohmann/json.hpp"
#include "solver/base/prefixed.h"
#include "solver/base/status_macros.h"
#include "solver/export/targets.h"
#include "solver/solve/request_violations.h"

namespace stowage {

CLI::Option* AddLayers(CLI::App& command, std::string* layers) {
  CLI::Option* const option = command.add_option(
      "--layers", *layers,
      "the stages that are the framework's layers: a range, as in 2:25, or a pattern of their "
      "names, as in layers.{n}, of which each layer has a number; the others are saved; default: "
      "all. In a range a fusion group is one layer. For pytorch and jax each stage is one");
  return option->type_name("FIRST:LAST|PATTERN");
}

void AddExportFlags(CLI::App& command, ExportFlags* flags) {
  command.add_option("--for", flags->target, absl::StrCat("one of ", TargetNames()))
      ->type_name("NAME");
  AddChainFlag(command, &flags->solve);
  command.get_option("--chain")->required(false);
  AddLayers(command, &flags->layers);
  AddPlatform(command, MemoryFlag::kRequired, &flags->platform);
  AddFormat(command, &flags->format);
}

absl::StatusOr<ExportRequest> ReadExportRequest(const ExportFlags& flags) {
  ExportRequest request;
  request.target = FindTarget(flags.target);
  if (request.target == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(flags.target.empty() ? "--for is required" : "--for: no such target",
                     "; one of ", TargetNames(), "; see stowage export --list"));
  }
  if (flags.solve.chain.empty()) return absl::InvalidArgumentError("--chain is required");
  ASSIGN_OR_RETURN(const ChainFile file, ReadChain(flags.solve.chain));
  ASSIGN_OR_RETURN(
      const SolveRequest solve,
      ReadRequest<SolveRequest>(flags.solve, flags.platform, file, MemoryFlag::kRequired));
  RETURN_IF_ERROR(CheckRequest(RequestViolations(solve)));
  request.chain = solve.chain;
  request.platform = solve.platform;
  ASSIGN_OR_RETURN(request.stages,
                   Prefixed("--layers", ParseStages(*request.target, flags.layers, request.chain)));
  return request;
}

nlohmann::ordered_json ToJson(const ComparedSchedule& compared) {
  return {{"name", compared.name},
          {"makespan_seconds", compared.prediction.makespan_seconds},
          {"overhead", compared.prediction.overhead},
          {"peak_memory_bytes", absl::StrCat(compared.prediction.peak_memory_bytes)},
          {"fits", compared.fits}};
}

}  // namespace stowage
