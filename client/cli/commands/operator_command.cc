// stowage operator: what a server is doing, and interventions. Needs a token of the server's
// --operator-token-file.
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/arguments.h"
#include "client/cli/commands.h"
#include "client/lib/operator_client.h"
#include "client/text/table.h"
#include "proto/convert/json.h"
#include "solver/base/quote.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"

namespace stowage {
namespace {

using Align = Table::Align;

struct OperatorArguments {
  ServerFlags server;
  std::string target;  // a fingerprint or a log level
  std::string format = "text";
};

// Runs with a client of the server that the flags name.
using Act = absl::Status (*)(OperatorClient& client, const OperatorArguments& arguments);

absl::StatusOr<int> RunOperator(Act act, const OperatorArguments& arguments) {
  ASSIGN_OR_RETURN(const RemoteOptions options, ReadServer(arguments.server, kDefaultServer));
  if (options.servers.size() > 1) {
    return absl::InvalidArgumentError("--server: operators talk to one server at a time");
  }
  OperatorClient client(options.servers.front(), options.credentials, options.timeout_seconds);
  const absl::Status status = act(client, arguments);
  if (absl::IsUnauthenticated(status)) {
    return absl::UnauthenticatedError(
        absl::StrCat(status.message(), "; an operator's token is needed, not a job's"));
  }
  RETURN_IF_ERROR(status);
  return kExitOk;
}

std::string StateText(const v1::SolveInFlight& solve) {
  if (solve.running_seconds() == 0) return "waits";
  return absl::StrFormat("%.0f %%%s", 100 * solve.fraction(),
                         solve.has_schedule() ? ", has a schedule" : "");
}

std::string SolvesText(const v1::ListSolvesResponse& response) {
  if (response.solves().empty()) return "no solves in flight\n";
  Table table({Align::kLeft, Align::kLeft, Align::kRight, Align::kRight, Align::kRight,
               Align::kRight, Align::kLeft, Align::kLeft});
  table.Add({"fingerprint", "solver", "stages", "budget", "waited", "ran", "state", "clients"});
  for (const v1::SolveInFlight& solve : response.solves()) {
    const char* const kind = solve.is_frontier() ? ", frontier" : "";
    table.Add({Printable(solve.fingerprint()), absl::StrCat(Printable(solve.solver()), kind),
               absl::StrCat(solve.stages()), FormatBytes(solve.memory_bytes()),
               FormatSeconds(solve.waiting_seconds()), FormatSeconds(solve.running_seconds()),
               StateText(solve), Printable(absl::StrJoin(solve.clients(), ", "))});
  }
  return table.ToString(0);
}

absl::Status ListSolves(OperatorClient& client, const OperatorArguments& arguments) {
  ASSIGN_OR_RETURN(const v1::ListSolvesResponse response, client.ListSolves());
  const std::string text = arguments.format == "json" ? ToJson(response) : SolvesText(response);
  std::fputs(text.c_str(), stdout);
  return absl::OkStatus();
}

absl::Status CancelSolve(OperatorClient& client, const OperatorArguments& arguments) {
  ASSIGN_OR_RETURN(const v1::CancelSolveResponse response, client.CancelSolve(arguments.target));
  absl::PrintF("solves stopped: %d; callers that got ABORTED: %d\n", response.solves(),
               response.callers());
  return absl::OkStatus();
}

absl::Status DropAnswer(OperatorClient& client, const OperatorArguments& arguments) {
  RETURN_IF_ERROR(client.DropAnswer(arguments.target));
  std::puts("dropped from memory and from disk");
  return absl::OkStatus();
}

absl::Status SetLogLevel(OperatorClient& client, const OperatorArguments& arguments) {
  RETURN_IF_ERROR(client.SetLogLevel(arguments.target));
  absl::PrintF("the server logs from level %s on\n", arguments.target);
  return absl::OkStatus();
}

absl::Status Drain(OperatorClient& client, const OperatorArguments& /*arguments*/) {
  RETURN_IF_ERROR(client.Drain());
  std::puts("the server drains, and exits when its calls have ended");
  return absl::OkStatus();
}

// Declares `stowage operator NAME`, and returns where its arguments go.
std::shared_ptr<OperatorArguments> AddAction(CLI::App& parent, const char* name, const char* help,
                                             Act act, Subcommand* chosen, CLI::App** command) {
  auto arguments = std::make_shared<OperatorArguments>();
  *command = parent.add_subcommand(name, help);
  AddServer(**command, kDefaultServer, &arguments->server);
  (*command)
      ->get_option("--server")
      ->description(
          absl::StrCat("host:port or unix:PATH of the server; default: ", kDefaultServer));
  (*command)->callback([arguments, act, chosen] {
    *chosen = [arguments, act] { return RunOperator(act, *arguments); };
  });
  return arguments;
}

void AddFingerprint(CLI::App& command, const char* help, std::string* fingerprint) {
  command.add_option("fingerprint", *fingerprint, help)
      ->required()
      ->check(Utf8Problem)
      ->type_name("FINGERPRINT");
}

}  // namespace

void AddOperatorCommand(CLI::App& app, Subcommand* chosen) {
  CLI::App& parent = *app.add_subcommand(
      "operator", "see and stop what a server does; needs a token of its --operator-token-file");
  parent.callback([&parent, chosen] {
    if (!parent.get_subcommands().empty()) return;
    *chosen = []() -> absl::StatusOr<int> {
      return absl::InvalidArgumentError(
          "operator: what to do is required: solves, cancel, drop, log-level or drain; see stowage "
          "operator --help");
    };
  });
  CLI::App* command = nullptr;

  auto arguments =
      AddAction(parent, "solves", "list the solves that run or wait", ListSolves, chosen, &command);
  AddFormat(*command, &arguments->format);

  arguments = AddAction(parent, "cancel", "stop a solve; its callers get the error ABORTED",
                        CancelSolve, chosen, &command);
  AddFingerprint(*command, "as `stowage operator solves` lists it", &arguments->target);

  arguments =
      AddAction(parent, "drop", "remove a cached answer or frontier from memory and from disk",
                DropAnswer, chosen, &command);
  AddFingerprint(*command, "origin.fingerprint of the answer or frontier", &arguments->target);

  arguments = AddAction(parent, "log-level",
                        "set the log level, until a restart or a reload that changes it",
                        SetLogLevel, chosen, &command);
  command->add_option("level", arguments->target, "the least level that is logged")
      ->required()
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->type_name("LEVEL");

  AddAction(parent, "drain", "let running calls end, refuse new ones, then exit, as SIGTERM does",
            Drain, chosen, &command);
}

}  // namespace stowage
