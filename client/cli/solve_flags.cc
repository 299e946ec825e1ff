#include "client/cli/solve_flags.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"
#include "solver/solve/catalog.h"

namespace stowage {
namespace {

std::string SolverHelp() {
  std::string help = "one of";
  for (const SolverInfo& info : AllSolvers()) absl::StrAppend(&help, " ", info.description.name);
  return help + "; see stowage solvers; default auto";
}

}  // namespace

void AddChainOption(CLI::App& command, QuestionFlags* flags) {
  command
      .add_option("--chain", flags->chain, "profile of the network, JSON; - reads standard input")
      ->required()
      ->type_name("FILE");
}

void AddQuestion(CLI::App& command, QuestionFlags* flags) {
  command.add_option("--solver", flags->solver, SolverHelp())->type_name("NAME")->group("Solver");
  command
      .add_option("--slots", flags->slots,
                  "memory slots of a dynamic program; default: the solver's own (rotor: exact for "
                  "short chains, 500 for long ones)")
      ->type_name("N")
      ->group("Solver");
  command
      .add_option("--segments", flags->segments,
                  "segments that periodic cuts; default: the best of all counts")
      ->type_name("N")
      ->group("Solver");
  command
      .add_option(
          "--time-precision", flags->time_precision,
          "relative grid for times, 0 (exact) to 0.5; default 0.01 at a server, 0 with --local")
      ->type_name("X")
      ->group("Solver");
  AddServer(command, kDefaultServer, &flags->server);
  CLI::Option* const local =
      command.add_flag("--local", flags->local, "solve in this process, ask no server")
          ->group("Server");
  local->excludes("--server");
  command
      .add_option("--solve-memory", flags->solve_memory,
                  "most memory that a --local solve may take; e.g. 4GiB")
      ->capture_default_str()
      ->type_name("SIZE")
      ->group("Server");
}

void AddTimeBudget(CLI::App& command, QuestionFlags* flags) {
  command
      .add_option("--time-budget", flags->time_budget,
                  "take the best schedule found after so long: 2s, 500ms; default: none")
      ->type_name("DURATION")
      ->group("Solver");
  command
      .add_flag("--no-cache", flags->no_cache, "have the server solve again what it knows already")
      ->group("Server");
}

absl::StatusOr<v1::SolveOptions> OptionsOf(const QuestionFlags& flags) {
  v1::SolveOptions options;
  options.set_memory_slots(flags.slots);
  options.set_segments(flags.segments);
  if (flags.time_precision.has_value()) {
    options.set_time_precision(*flags.time_precision);
  } else if (flags.local) {
    options.set_time_precision(0);
  }
  if (flags.no_cache) options.set_use_cache(false);
  if (flags.time_budget.empty()) return options;
  const absl::StatusOr<double> budget = ParseSeconds(flags.time_budget);
  if (!budget.ok()) return Prefixed("--time-budget", budget.status());
  options.set_time_budget_seconds(*budget);
  return options;
}

absl::StatusOr<Client> ClientOf(const QuestionFlags& flags) {
  ASSIGN_OR_RETURN(const ClientOptions options, ReadServer(flags.server, kDefaultServer));
  return Client(options);
}

absl::StatusOr<LocalOptions> LocalOptionsOf(const QuestionFlags& flags) {
  LocalOptions options;
  const absl::StatusOr<int64_t> bytes = ParseBytes(flags.solve_memory);
  if (!bytes.ok()) return Prefixed("--solve-memory", bytes.status());
  options.working_bytes = *bytes;
  ASSIGN_OR_RETURN(const ClientOptions server, ReadServer(flags.server));
  options.timeout_seconds = server.timeout_seconds;
  return options;
}

absl::Status InFlags(const absl::Status& status) {
  if (absl::IsUnavailable(status)) {
    return absl::UnavailableError(absl::StrCat(status.message(), ", or solve here with --local"));
  }
  if (absl::StartsWith(status.message(), "no answer within")) {
    return {status.code(), absl::StrCat(status.message(),
                                        "; raise --timeout, or ask for a coarser answer with "
                                        "--slots")};
  }
  return {status.code(),
          absl::StrReplaceAll(status.message(), {{"options.memory_slots", "--slots"},
                                                 {"options.segments", "--segments"},
                                                 {"memory_bytes: lists", "--budgets: lists"},
                                                 {"options.time_precision", "--time-precision"},
                                                 {"options.time_budget_seconds", "--time-budget"},
                                                 {"set aside for one solve",
                                                  "set aside for one solve (--solve-memory)"}})};
}

}  // namespace stowage
