#include "client/cli/solve_flags.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/lib/remote_scheduler.h"
#include "proto/convert/request_message.h"
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

void AddChainFlag(CLI::App& command, SolveFlags* flags) {
  command
      .add_option("--chain", flags->chain, "profile of the network, JSON; - reads standard input")
      ->required()
      ->type_name("FILE");
}

void AddSolveFlags(CLI::App& command, SolveFlags* flags) {
  command.add_option("--solver", flags->solver, SolverHelp())
      ->check(Utf8Problem)
      ->type_name("NAME")
      ->group("Solver");
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
  // --local excludes --server but not --timeout, which limits a local solve as well.
  CLI::Option* const local =
      command.add_flag("--local", flags->local, "solve in this process, without a server")
          ->group("Server");
  local->excludes("--server");
  command
      .add_option("--solve-memory", flags->solve_memory,
                  "memory limit of a --local solve, as in 4GiB")
      ->capture_default_str()
      ->type_name("SIZE")
      ->group("Server");
}

void AddTimeBudgetFlags(CLI::App& command, SolveFlags* flags) {
  command
      .add_option("--time-budget", flags->time_budget,
                  "stop after this time with the best schedule so far: 2s, 500ms; default: none")
      ->type_name("DURATION")
      ->group("Solver");
  command
      .add_flag("--no-cache", flags->no_cache,
                "have the server solve again, even where its cache has an answer")
      ->group("Server");
}

absl::StatusOr<SolveOptions> ReadSolveOptions(const SolveFlags& flags) {
  SolveOptions options;
  options.memory_slots = flags.slots;
  options.segments = flags.segments;
  options.time_precision = flags.time_precision.value_or(flags.local ? 0 : kDefaultTimePrecision);
  options.use_cache = !flags.no_cache;
  if (flags.time_budget.empty()) return options;
  const absl::StatusOr<double> budget = ParseSeconds(flags.time_budget);
  if (!budget.ok()) return Prefixed("--time-budget", budget.status());
  options.time_budget_seconds = *budget;
  return options;
}

absl::StatusOr<std::unique_ptr<Scheduler>> MakeScheduler(const SolveFlags& flags) {
  std::unique_ptr<Scheduler> scheduler;
  if (flags.local) {
    ASSIGN_OR_RETURN(const LocalOptions options, ReadLocalOptions(flags));
    scheduler = std::make_unique<LocalScheduler>(options);
  } else {
    ASSIGN_OR_RETURN(const RemoteOptions options, ReadServer(flags.server, kDefaultServer));
    scheduler = std::make_unique<RemoteScheduler>(options);
  }
  return scheduler;
}

absl::StatusOr<LocalOptions> ReadLocalOptions(const SolveFlags& flags) {
  LocalOptions options;
  const absl::StatusOr<int64_t> bytes = ParseBytes(flags.solve_memory);
  if (!bytes.ok()) return Prefixed("--solve-memory", bytes.status());
  options.working_bytes = *bytes;
  // --timeout limits a local solve, too.
  ASSIGN_OR_RETURN(const RemoteOptions server, ReadServer(flags.server));
  options.timeout_seconds = server.timeout_seconds;
  return options;
}

// Replaces texts of RunLocally(), RequestViolations() and CheckWorkingBytes(), and must change with
// them.
absl::Status InFlags(const absl::Status& status) {
  if (absl::IsUnavailable(status)) {
    return absl::UnavailableError(absl::StrCat(status.message(), ", or solve here with --local"));
  }
  if (absl::StartsWith(status.message(), "no answer within")) {
    return {status.code(), absl::StrCat(status.message(),
                                        "; raise --timeout, or ask for a coarser answer with "
                                        "--slots")};
  }
  // Validation names the fields of the API.
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
