// stowage solvers: the list of solvers, of this program or of a server.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/arguments.h"
#include "client/cli/commands.h"
#include "client/lib/rpc/failover_client.h"
#include "client/text/table.h"
#include "proto/convert/answer_message.h"
#include "proto/convert/json.h"
#include "solver/base/status_macros.h"
#include "solver/solve/catalog.h"

namespace stowage {
namespace {

struct SolversArguments {
  ServerFlags server;
  std::string format = "text";
};

// In messages: a SolverDescription points to constants of this program, which a server may not
// share.
absl::StatusOr<v1::ListSolversResponse> List(const SolversArguments& arguments) {
  if (!arguments.server.servers.empty()) {
    ASSIGN_OR_RETURN(const RemoteOptions options, ReadServer(arguments.server));
    return FailoverClient(options).ListSolvers();
  }
  v1::ListSolversResponse response;
  for (const SolverInfo& info : AllSolvers()) *response.add_solvers() = ToMessage(info.description);
  return response;
}

std::string Uses(const v1::SolverDescription& solver) {
  std::vector<std::string> uses;
  if (solver.recomputes()) uses.push_back("recomputes");
  if (solver.offloads()) uses.push_back("offloads");
  if (solver.mixes_modes()) uses.push_back("mixes modes");
  return uses.empty() ? "nothing" : absl::StrJoin(uses, ", ");
}

absl::StatusOr<int> RunSolvers(const SolversArguments& arguments) {
  ASSIGN_OR_RETURN(const v1::ListSolversResponse response, List(arguments));
  if (arguments.format == "json") {
    std::fputs(ToJson(response).c_str(), stdout);
    return kExitOk;
  }
  Table table({Table::Align::kLeft, Table::Align::kLeft});
  for (const v1::SolverDescription& solver : response.solvers()) {
    const std::string options =
        solver.options().empty() ? "none" : absl::StrJoin(solver.options(), ", ");
    table.Add({solver.name(), solver.summary()});
    table.Add({"", absl::StrCat("guarantee: ", solver.guarantee())});
    table.Add({"", absl::StrCat("uses: ", Uses(solver), "; costs: ", solver.complexity())});
    table.Add({"", absl::StrCat("options: ", options)});
  }
  std::fputs(table.ToString(0).c_str(), stdout);
  return kExitOk;
}

}  // namespace

void AddSolversCommand(CLI::App& app, Subcommand* chosen) {
  auto arguments = std::make_shared<SolversArguments>();
  CLI::App& command = *app.add_subcommand("solvers", "list the solvers and what they promise");
  AddServer(command, "none, list this program's own", &arguments->server);
  AddFormat(command, &arguments->format);
  command.callback(
      [arguments, chosen] { *chosen = [arguments] { return RunSolvers(*arguments); }; });
}

}  // namespace stowage
