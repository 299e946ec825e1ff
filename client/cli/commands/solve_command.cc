// stowage solve: a chain and a memory budget in, a schedule out.
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/arguments.h"
#include "client/cli/commands.h"
#include "client/cli/html_page.h"
#include "client/cli/schedule_text.h"
#include "client/cli/solve_flags.h"
#include "client/lib/scheduler.h"
#include "proto/convert/answer_message.h"
#include "proto/convert/chain_message.h"
#include "proto/convert/json.h"
#include "proto/convert/schedule_message.h"
#include "proto/service/results.h"
#include "solver/base/file.h"
#include "solver/base/quote.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"
#include "solver/bounds/lower_bound.h"
#include "solver/solve/checked_answer.h"
#include "solver/solve/request_violations.h"

namespace stowage {
namespace {

struct SolveArguments {
  SolveFlags solve;
  PlatformFlags platform;
  bool rounding_loss = false;
  bool progress = false;
  std::string output;
  std::string html;
  std::string format = "text";
};

absl::StatusOr<SolveRequest> MakeRequest(const SolveArguments& arguments, const ChainFile& file) {
  ASSIGN_OR_RETURN(
      SolveRequest request,
      ReadRequest<SolveRequest>(arguments.solve, arguments.platform, file, MemoryFlag::kRequired));
  request.options.report_rounding_loss = arguments.rounding_loss;
  return request;
}

// Writes to standard error, over the last line on a terminal, as a line of its own elsewhere.
void ShowProgress(const std::string& line) {
  if (isatty(STDERR_FILENO) != 0) {
    absl::FPrintF(stderr, "\r\033[K%s", line);
  } else {
    absl::FPrintF(stderr, "%s\n", line);
  }
}

// A line that stays: the next one is written below it.
void ShowLine(const std::string& line) {
  ShowProgress(line);
  if (isatty(STDERR_FILENO) != 0) absl::FPrintF(stderr, "\n");
}

SolveCall CallWithProgress() {
  SolveCall call;
  call.queued = [](int64_t before) { ShowProgress(absl::StrCat("queued, ", before, " before")); };
  call.running = [](absl::string_view solver, double fraction) {
    ShowProgress(absl::StrFormat("%s: %.0f %%", solver, 100 * fraction));
  };
  call.improved = [](const Answer& best) {
    ShowLine(absl::StrCat("best so far: ", FormatSeconds(best.prediction.makespan_seconds), " by ",
                          best.solver));
  };
  call.repeated = [](const absl::Status& failure) {
    ShowLine(absl::StrCat(Printable(failure.message()), "; asking again"));
  };
  return call;
}

// Callbacks make RemoteScheduler use the streaming RPC, so they are set only for --progress.
absl::StatusOr<SolveResult> Solve(const SolveArguments& arguments, const SolveRequest& request) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Scheduler> scheduler, MakeScheduler(arguments.solve));
  if (!arguments.progress) return scheduler->Solve(request, {});
  absl::StatusOr<SolveResult> result = scheduler->Solve(request, CallWithProgress());
  if (isatty(STDERR_FILENO) != 0) absl::FPrintF(stderr, "\r\033[K");  // erases the last line
  return result;
}

// Tells apart what the solver cannot do (its least memory) from what no schedule can (the floor).
std::string InfeasibleText(const Chain& chain, const Platform& platform, const Answer& answer) {
  std::string text =
      absl::StrCat("infeasible: ", answer.solver, " has no schedule within ",
                   FormatBytes(platform.memory_bytes), " (", platform.memory_bytes, " bytes)\n");
  if (answer.minimum_memory_bytes.has_value()) {
    absl::StrAppend(&text, "  least memory  ", FormatBytes(*answer.minimum_memory_bytes),
                    "  with which ", answer.solver, " works: --memory ",
                    *answer.minimum_memory_bytes, "\n");
  }
  absl::StrAppend(&text, "  memory floor  ", FormatBytes(answer.memory_floor_bytes), "  which ",
                  NamedOperation(chain, answer.memory_floor_operation),
                  " needs by itself: no solver works below\n");
  return text;
}

// `finer_slots` is 0 for a schedule that is optimal already: nothing finer was solved then.
std::string LossText(const RoundingLoss& loss) {
  if (loss.finer_slots == 0) return "  rounding costs nothing: the schedule is optimal\n";
  return absl::StrFormat("  rounding costs %.2f %%: with %d memory slots the makespan is %s\n",
                         loss.loss * 100, loss.finer_slots, FormatSeconds(loss.finer_seconds));
}

std::string OriginText(const Origin& origin) {
  const std::string seconds = FormatSeconds(origin.solve_seconds);
  switch (origin.source) {
    case Origin::Source::kMemoryCache:
      return "from the server's cache";
    case Origin::Source::kDiskCache:
      return "from the server's cache on disk";
    case Origin::Source::kSharedCache:
      return "from the cache that several servers share";
    case Origin::Source::kCoalesced:
      return absl::StrCat("solved in ", seconds, " with an equal request");
    case Origin::Source::kSolved:
      break;
  }
  return absl::StrCat("solved in ", seconds);
}

absl::string_view GuaranteeText(Guarantee guarantee) {
  switch (guarantee) {
    case Guarantee::kHeuristic:
      return " (heuristic)";
    case Guarantee::kUpToRounding:
      return " (up to rounding)";
    case Guarantee::kTimeRanOut:
      return " (time ran out)";
    case Guarantee::kBestOfClass:
      return " (the best of its class)";
    case Guarantee::kOptimal:
      break;
  }
  return "";
}

std::string OutcomeText(const SolveResult& result) {
  const Answer& answer = *result.answer;
  std::string text =
      absl::StrCat(answer.solver, ": ", OutcomeName(answer.outcome),
                   GuaranteeText(answer.guarantee), ", ", OriginText(result.origin), "\n");
  if (answer.rounding_loss.has_value()) absl::StrAppend(&text, LossText(*answer.rounding_loss));
  for (const std::string& note : answer.explanation.notes) {
    absl::StrAppend(&text, "  note: ", Printable(note), "\n");
  }
  return text;
}

// Simulates the schedule again, in this process: the text needs the timeline, and does not rely on
// a server's figures.
absl::StatusOr<std::string> ScheduleText(const Chain& chain, const SolveRequest& request,
                                         SolvedBy solver, const SolveResult& result) {
  const Platform& platform = request.platform;
  const Answer& answer = *result.answer;
  const Schedule& schedule = answer.schedule;
  ASSIGN_OR_RETURN(ExplainedSimulation simulation,
                   SimulateAndExplain(chain, ChainUnits(chain), platform, schedule));
  if (solver == SolvedBy::kThisProcess) {
    simulation.simulation.prediction = answer.prediction;
  } else {
    Prediction& prediction = simulation.simulation.prediction;
    RaiseBound(chain, platform, &prediction, BoundTime::kLong);
    // But for a tight bound, which would take seconds here, too.
    if (answer.prediction.lower_bound_seconds > prediction.lower_bound_seconds) {
      prediction.lower_bound_seconds = answer.prediction.lower_bound_seconds;
      prediction.gap = answer.prediction.gap;
    }
  }
  return absl::StrCat(OutcomeText(result), FiguresText(chain, platform, schedule, simulation));
}

absl::StatusOr<int> RunSolve(const SolveArguments& arguments) {
  if (arguments.solve.chain == "-" && arguments.platform.file == "-") {
    return absl::InvalidArgumentError("--platform: standard input is already read by --chain");
  }
  if (arguments.output == "-") {
    return absl::InvalidArgumentError(
        "--output: is a file's path; --format json prints the schedule");
  }
  // The request's chain has the names of the file; `file.chain`, with printable ones, is for
  // output.
  ASSIGN_OR_RETURN(const ChainFile file, ReadChain(arguments.solve.chain));
  ASSIGN_OR_RETURN(const SolveRequest request, MakeRequest(arguments, file));
  if (arguments.solve.local) RETURN_IF_ERROR(CheckRequest(RequestViolations(request)));
  const absl::StatusOr<SolveResult> result = Solve(arguments, request);
  if (!result.ok()) return InFlags(result.status(), SolverOf(arguments.solve));
  const Answer& answer = *result->answer;
  const bool feasible = answer.outcome != Outcome::kInfeasible;
  if (feasible && !arguments.output.empty()) {
    const std::string json = ToJson(ToMessage(answer.schedule));
    RETURN_IF_ERROR(Prefixed("--output", WriteFile(arguments.output, json)));
  }
  if (!arguments.html.empty()) {
    v1::View view = ViewOf(file.message, request.chain);
    ASSIGN_OR_RETURN(*view.add_schedules(), ViewedAnswer(request.chain, request.platform, *result));
    RETURN_IF_ERROR(WriteHtml(arguments.html, view));
  }
  std::string text;
  if (arguments.format == "json") {
    text = ToJson(ToMessage(*result, request.platform));
  } else if (!feasible) {
    text = InfeasibleText(file.chain, request.platform, answer);
  } else {
    ASSIGN_OR_RETURN(text, ScheduleText(file.chain, request, SolverOf(arguments.solve), *result));
  }
  if (arguments.format == "text") {
    text = absl::StrCat(ChainLine(file.chain), WarningLines(result->warnings), text);
  }
  std::fwrite(text.data(), 1, text.size(), stdout);
  return feasible ? kExitOk : kExitInfeasible;
}

}  // namespace

void AddSolveCommand(CLI::App& app, Subcommand* chosen) {
  auto arguments = std::make_shared<SolveArguments>();
  CLI::App& command = *app.add_subcommand("solve", "find the schedule with the least time lost");
  AddChainFlag(command, &arguments->solve);
  AddPlatform(command, MemoryFlag::kRequired, &arguments->platform);
  AddSolveFlags(command, &arguments->solve);
  command
      .add_flag("--rounding-loss", arguments->rounding_loss,
                "solve again with ten times the slots and say what rounding costs")
      ->group("Solver");
  AddTimeBudgetFlags(command, &arguments->solve);
  command
      .add_flag("--progress", arguments->progress,
                "report queue, progress and better schedules on standard error")
      ->excludes("--local")
      ->group("Output");
  command.add_option("--output", arguments->output, "file to write the schedule to, as JSON")
      ->type_name("FILE")
      ->group("Output");
  AddHtml(command, &arguments->html);
  AddFormat(command, &arguments->format);
  command.callback([arguments, chosen] { *chosen = [arguments] { return RunSolve(*arguments); }; });
}

}  // namespace stowage
