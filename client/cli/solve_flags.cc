#include "client/cli/solve_flags.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/lib/remote_scheduler.h"
#include "client/lib/rpc/failure.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"
#include "solver/model/request.h"
#include "solver/solve/catalog.h"

namespace stowage {
namespace {

std::string SolverHelp() {
  std::string help = "one of";
  for (const SolverInfo& info : AllSolvers()) absl::StrAppend(&help, " ", info.description.name);
  return help + "; see stowage solvers; default auto";
}

// Validation names the fields of the API.
std::vector<FieldViolation> InFlags(std::vector<FieldViolation> violations) {
  static constexpr std::pair<absl::string_view, const char*> kFlags[] = {
      {"options.memory_slots", "--slots"},
      {"options.segments", "--segments"},
      {"options.time_precision", "--time-precision"},
      {"options.time_budget_seconds", "--time-budget"},
      {"memory_bytes", "--budgets"},
  };
  for (FieldViolation& violation : violations) {
    for (const auto& [field, flag] : kFlags) {
      if (violation.field != field) continue;
      violation.field = flag;
      break;
    }
  }
  return violations;
}

// Limits of a solve in this process. Errors name the flag.
absl::StatusOr<LocalOptions> ReadLocalOptions(const SolveFlags& flags) {
  LocalOptions options;
  ASSIGN_OR_RETURN(options.working_bytes,
                   Prefixed("--solve-memory", ParseBytes(flags.solve_memory)));
  // --timeout limits a local solve, too.
  ASSIGN_OR_RETURN(const RemoteOptions server, ReadServer(flags.server));
  options.timeout_seconds = server.timeout_seconds;
  return options;
}

}  // namespace

void AddChainFlag(CLI::App& command, SolveFlags* flags) {
  command
      .add_option("--chain", flags->chain, "profile of the network, JSON; - reads standard input")
      ->required()
      ->type_name("FILE");
}

void AddSolverFlag(CLI::App& command, SolveFlags* flags) {
  command.add_option("--solver", flags->solver, SolverHelp())
      ->check(Utf8Problem)
      ->type_name("NAME")
      ->group("Solver");
}

void AddSolveFlags(CLI::App& command, SolveFlags* flags) {
  AddSolverFlag(command, flags);
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
  ASSIGN_OR_RETURN(options.time_budget_seconds,
                   Prefixed("--time-budget", ParseSeconds(flags.time_budget)));
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

absl::Status CheckRequest(const std::vector<FieldViolation>& violations) {
  return ViolationsStatus(InFlags(violations));
}

absl::Status InFlags(const absl::Status& status, SolvedBy solver) {
  const auto extended = [&status](absl::string_view advice) {
    return absl::Status(status.code(), absl::StrCat(status.message(), advice));
  };
  const bool here = solver == SolvedBy::kThisProcess;
  if (here ? absl::IsResourceExhausted(status) : ReasonOf(status) == "SOLVE_MEMORY") {
    return extended(here ? "; --slots sets options.memory_slots, --solve-memory what a solve may "
                           "take"
                         : "; --slots sets options.memory_slots");
  }
  if (here && absl::IsDeadlineExceeded(status)) {
    return extended("; raise --timeout, or ask for a coarser answer with --slots");
  }
  if (absl::IsUnavailable(status)) return extended(", or solve here with --local");
  const std::vector<FieldViolation> violations = ViolationsOf(status);
  if (violations.empty()) return status;
  return WithMessage(status, CheckRequest(violations).message());
}

}  // namespace stowage
