// stowage solve: a chain and a memory budget in, a schedule out.
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/arguments.h"
#include "client/cli/commands.h"
#include "client/cli/schedule_text.h"
#include "client/cli/solve_flags.h"
#include "client/lib/client.h"
#include "client/text/write_file.h"
#include "proto/convert/answer_message.h"
#include "proto/convert/chain_message.h"
#include "proto/convert/json.h"
#include "proto/convert/request_message.h"
#include "proto/convert/schedule_message.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"
#include "solver/model/validate.h"
#include "solver/solve/answer_request.h"
#include "solver/solve/catalog.h"

namespace stowage {
namespace {

struct Arguments {
  QuestionFlags question;
  PlatformFlags platform;
  bool rounding_loss = false;
  bool progress = false;
  std::string output;
  std::string format = "text";
};

absl::StatusOr<v1::SolveRequest> MakeRequest(const Arguments& arguments, const ChainFile& file) {
  ASSIGN_OR_RETURN(const Platform platform,
                   ReadPlatform(arguments.platform, file.chain, MemoryFlag::kRequired));
  RETURN_IF_ERROR(CheckLinkFlags(arguments.platform, platform));
  v1::SolveRequest request;
  *request.mutable_chain() = file.message;
  *request.mutable_platform() = ToMessage(platform);
  request.set_solver(arguments.question.solver);
  ASSIGN_OR_RETURN(*request.mutable_options(), OptionsOf(arguments.question));
  request.mutable_options()->set_report_rounding_loss(arguments.rounding_loss);
  return request;
}

// One line of standard error, written over and over.
void ShowProgress(const v1::SolveEvent& event) {
  std::string line;
  if (event.has_queued()) {
    line = absl::StrCat("queued, ", event.queued().before(), " before");
  } else if (event.has_running()) {
    line =
        absl::StrFormat("%s: %.0f %%", event.running().solver(), 100 * event.running().fraction());
  } else if (event.has_improved()) {
    const v1::SolveResponse& best = event.improved();
    line = absl::StrCat("best so far: ", FormatSeconds(best.prediction().makespan_seconds()),
                        " by ", best.origin().solver(), "\n");
  }
  // Over the last one on a terminal, a line of its own elsewhere.
  if (isatty(STDERR_FILENO) != 0) {
    absl::FPrintF(stderr, "\r\033[K%s", line);
  } else {
    absl::FPrintF(stderr, "%s\n", line);
  }
}

absl::StatusOr<v1::SolveResponse> Ask(const QuestionFlags& flags, const v1::SolveRequest& request,
                                      bool progress) {
  if (flags.local) {
    ASSIGN_OR_RETURN(const LocalOptions options, LocalOptionsOf(flags));
    return SolveLocally(options, request);
  }
  ASSIGN_OR_RETURN(Client client, ClientOf(flags));
  if (!progress) return client.Solve(request);
  absl::StatusOr<v1::SolveResponse> response = client.SolveStream(request, ShowProgress);
  if (isatty(STDERR_FILENO) != 0) absl::FPrintF(stderr, "\r\033[K");
  return response;
}

std::string InfeasibleText(const Chain& chain, const v1::SolveResponse& response) {
  const int64_t floor = response.memory_floor_bytes();
  const Operation binding{response.memory_floor_operation().kind() == v1::Operation::BACKWARD
                              ? OperationKind::kBackward
                              : OperationKind::kForwardSave,
                          response.memory_floor_operation().stage()};
  std::string text =
      absl::StrCat("infeasible: ", response.origin().solver(), " has no schedule within ",
                   FormatBytes(response.platform().memory_bytes()), " (",
                   response.platform().memory_bytes(), " bytes)\n");
  if (response.has_minimum_memory_bytes()) {
    absl::StrAppend(&text, "  least that works  ", FormatBytes(response.minimum_memory_bytes()),
                    "  --memory ", response.minimum_memory_bytes(), "\n");
  }
  absl::StrAppend(&text, "  no solver below   ", FormatBytes(floor), "  which ",
                  NamedOperation(chain, binding), " needs by itself\n");
  return text;
}

std::string LossText(const v1::RoundingLoss& loss) {
  if (loss.finer_slots() == 0) return "  rounding costs nothing: the schedule is optimal\n";
  return absl::StrFormat("  rounding costs %.2f %%: with %d memory slots the makespan is %s\n",
                         loss.loss() * 100, loss.finer_slots(),
                         FormatSeconds(loss.finer_makespan_seconds()));
}

std::string HowText(const v1::Origin& origin) {
  const std::string seconds = FormatSeconds(origin.solve_seconds());
  switch (origin.source()) {
    case v1::Origin::MEMORY_CACHE:
      return "known to the server";
    case v1::Origin::DISK_CACHE:
      return "known to the server, on its disk";
    case v1::Origin::COALESCED:
      return absl::StrCat("solved in ", seconds, " with an equal request");
    default:
      return absl::StrCat("solved in ", seconds);
  }
}

std::string OutcomeText(const v1::SolveResponse& response) {
  std::string text =
      absl::StrCat(response.origin().solver(), ": ", v1::Outcome_Name(response.outcome()));
  if (response.limit() == v1::HEURISTIC) absl::StrAppend(&text, " (heuristic)");
  if (response.limit() == v1::ROUNDING) absl::StrAppend(&text, " (up to rounding)");
  if (response.limit() == v1::TIME) absl::StrAppend(&text, " (time ran out)");
  absl::StrAppend(&text, ", ", HowText(response.origin()), "\n");
  if (response.has_rounding_loss()) absl::StrAppend(&text, LossText(response.rounding_loss()));
  for (const std::string& note : response.explanation().notes()) {
    absl::StrAppend(&text, "  note: ", Printable(note), "\n");
  }
  return text;
}

// Simulates once more, here: what is printed is what this chain would do.
absl::StatusOr<std::string> ScheduleText(const Chain& chain, const v1::SolveResponse& response) {
  std::vector<FieldViolation> violations;
  const Schedule schedule = FromMessage(response.schedule(), &violations);
  RETURN_IF_ERROR(ViolationsStatus(violations));
  const Platform platform = FromMessage(response.platform());
  ASSIGN_OR_RETURN(const ExplainedSimulation result, SimulateAndExplain(chain, platform, schedule));
  return absl::StrCat(OutcomeText(response), FiguresText(chain, platform, schedule, result));
}

absl::StatusOr<int> Run(const Arguments& arguments) {
  if (arguments.question.chain == "-" && arguments.platform.file == "-") {
    return absl::InvalidArgumentError("--platform: standard input is already read by --chain");
  }
  if (arguments.output == "-") {
    return absl::InvalidArgumentError(
        "--output: is a file's path; --format json prints the schedule");
  }
  ASSIGN_OR_RETURN(const ChainFile file, ReadChain(arguments.question.chain));
  ASSIGN_OR_RETURN(const v1::SolveRequest request, MakeRequest(arguments, file));
  const absl::StatusOr<v1::SolveResponse> answered =
      Ask(arguments.question, request, arguments.progress);
  if (!answered.ok()) return InFlags(answered.status());
  const v1::SolveResponse& response = *answered;
  const bool feasible = response.outcome() != v1::INFEASIBLE;
  if (feasible && !arguments.output.empty()) {
    const std::string json = ToJson(response.schedule());
    RETURN_IF_ERROR(Prefixed("--output", WriteFile(arguments.output, json)));
  }
  std::string text;
  if (arguments.format == "json") {
    text = ToJson(response);
  } else if (!feasible) {
    text = ChainLine(file.chain) + InfeasibleText(file.chain, response);
  } else {
    ASSIGN_OR_RETURN(text, ScheduleText(file.chain, response));
    text = ChainLine(file.chain) + text;
  }
  std::fwrite(text.data(), 1, text.size(), stdout);
  return feasible ? kExitOk : kExitInfeasible;
}

}  // namespace

void AddSolveCommand(CLI::App& app, Command* chosen) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App& command = *app.add_subcommand("solve", "find the schedule with the least time lost");
  AddChainOption(command, &arguments->question);
  AddPlatform(command, MemoryFlag::kRequired, &arguments->platform);
  AddQuestion(command, &arguments->question);
  command
      .add_flag("--rounding-loss", arguments->rounding_loss,
                "solve again with ten times the slots and say what rounding costs")
      ->group("Solver");
  AddTimeBudget(command, &arguments->question);
  command
      .add_flag("--progress", arguments->progress,
                "show on standard error what the server is doing meanwhile")
      ->excludes("--local")
      ->group("Output");
  command.add_option("--output", arguments->output, "write the bare schedule there, as JSON")
      ->type_name("FILE")
      ->group("Output");
  AddFormat(command, &arguments->format);
  command.callback([arguments, chosen] { *chosen = [arguments] { return Run(*arguments); }; });
}

}  // namespace stowage
