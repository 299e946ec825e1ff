// stowage solve: a chain and a memory budget in, a schedule out.
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/arguments.h"
#include "client/cli/commands.h"
#include "client/cli/figures.h"
#include "client/cli/files.h"
#include "client/cli/question.h"
#include "client/lib/client.h"
#include "proto/convert/answer.h"
#include "proto/convert/chain.h"
#include "proto/convert/json.h"
#include "proto/convert/schedule.h"
#include "solver/algorithms/answer.h"
#include "solver/algorithms/catalog.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"
#include "solver/model/validate.h"

namespace stowage {
namespace {

struct Arguments {
  QuestionFlags question;
  PlatformFlags platform;
  bool rounding_loss = false;
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
  *request.mutable_options() = OptionsOf(arguments.question);
  request.mutable_options()->set_report_rounding_loss(arguments.rounding_loss);
  return request;
}

absl::StatusOr<v1::SolveResponse> Ask(const QuestionFlags& flags, const v1::SolveRequest& request) {
  if (flags.local) {
    ASSIGN_OR_RETURN(const LocalOptions options, LocalOptionsOf(flags));
    return SolveLocally(options, request);
  }
  ASSIGN_OR_RETURN(Client client, ClientOf(flags));
  return client.Solve(request);
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

std::string OutcomeText(const v1::SolveResponse& response) {
  std::string text =
      absl::StrCat(response.origin().solver(), ": ", v1::Outcome_Name(response.outcome()));
  if (response.limit() == v1::HEURISTIC) absl::StrAppend(&text, " (heuristic)");
  if (response.limit() == v1::ROUNDING) absl::StrAppend(&text, " (up to rounding)");
  absl::StrAppend(&text, ", solved in ", FormatSeconds(response.origin().solve_seconds()), "\n");
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
  const absl::StatusOr<v1::SolveResponse> answered = Ask(arguments.question, request);
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
  command.add_option("--output", arguments->output, "write the bare schedule there, as JSON")
      ->type_name("FILE")
      ->group("Output");
  AddFormat(command, &arguments->format);
  command.callback([arguments, chosen] { *chosen = [arguments] { return Run(*arguments); }; });
}

}  // namespace stowage
