// stowage simulate: what a schedule costs, or which of its operations is wrong.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/arguments.h"
#include "client/cli/commands.h"
#include "client/cli/schedule_text.h"
#include "client/lib/client.h"
#include "proto/convert/answer_message.h"
#include "proto/convert/chain_message.h"
#include "proto/convert/json.h"
#include "proto/convert/request_message.h"
#include "proto/convert/schedule_message.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"
#include "solver/model/validate.h"
#include "solver/solve/answer_request.h"

namespace stowage {
namespace {

struct Arguments {
  std::string chain;
  std::string schedule;
  PlatformFlags platform;
  ServerFlags server;
  std::string format = "text";
};

struct Question {
  Chain chain;
  Platform platform;
  v1::Schedule message;
  Schedule schedule;
};

absl::StatusOr<Question> Read(const Arguments& arguments) {
  int from_stdin = 0;
  for (const std::string* path :
       {&arguments.chain, &arguments.schedule, &arguments.platform.file}) {
    from_stdin += *path == "-" ? 1 : 0;
  }
  if (from_stdin > 1) {
    return absl::InvalidArgumentError("only one of --chain, --schedule and --platform can be -");
  }
  Question question;
  ASSIGN_OR_RETURN(ChainFile file, ReadChain(arguments.chain));
  question.chain = std::move(file.chain);
  ASSIGN_OR_RETURN(const std::string json, ReadInput(arguments.schedule));
  absl::StatusOr<ScheduleFile> schedule = ScheduleFromJson(json);
  if (!schedule.ok()) return Prefixed(arguments.schedule, schedule.status());
  ASSIGN_OR_RETURN(question.platform,
                   ReadPlatform(arguments.platform, question.chain, MemoryFlag::kRequired,
                                std::move(schedule->platform)));
  RETURN_IF_ERROR(CheckLinkFlags(arguments.platform, question.platform));
  question.message = std::move(schedule->schedule);
  std::vector<FieldViolation> violations;
  question.schedule = FromMessage(question.message, &violations);
  if (violations.empty()) violations = Violations(question.schedule);
  RETURN_IF_ERROR(Prefixed(arguments.schedule, ViolationsStatus(violations)));
  return question;
}

absl::StatusOr<v1::SimulateResponse> AskServer(const Arguments& arguments,
                                               const Question& question) {
  v1::SimulateRequest request;
  *request.mutable_chain() = ToMessage(question.chain);
  *request.mutable_platform() = ToMessage(question.platform);
  *request.mutable_schedule() = question.message;
  ASSIGN_OR_RETURN(const ClientOptions options, ReadServer(arguments.server));
  return Client(options).Simulate(request);
}

std::string VerdictText(const Question& question, const ExplainedSimulation& result) {
  const std::string count =
      absl::StrCat(question.schedule.operations.size(), " operations, valid; ");
  if (result.simulation.feasible()) return count + "within every limit\n";
  const size_t index = *result.simulation.first_over_limit;
  const TimelineEntry& entry = result.timeline[index];
  const bool device = entry.memory_bytes > question.platform.memory_bytes;
  return absl::StrCat(
      count, "over a limit: ", OperationPath(question.schedule, index), " needs ",
      FormatBytes(device ? entry.memory_bytes : entry.host_bytes), " of ",
      FormatBytes(device ? question.platform.memory_bytes : question.platform.host_memory_bytes),
      device ? " device memory\n" : " host memory\n");
}

void Print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

absl::StatusOr<int> Run(const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Question question, Read(arguments));
  v1::SimulateResponse response;
  if (!arguments.server.server.empty()) {
    ASSIGN_OR_RETURN(response, AskServer(arguments, question));
  }
  ASSIGN_OR_RETURN(const ExplainedSimulation result,
                   SimulateAndExplain(question.chain, question.platform, question.schedule));
  if (arguments.server.server.empty()) {
    response = ToMessage(result.simulation, result.timeline, result.explanation);
  }
  if (arguments.format == "json") {
    Print(ToJson(response));
  } else if (response.feasible() == result.simulation.feasible()) {
    Print(absl::StrCat(ChainLine(question.chain), VerdictText(question, result),
                       FiguresText(question.chain, question.platform, question.schedule, result)));
  } else {
    return absl::InternalError(
        absl::StrCat("the server at ", arguments.server.server,
                     " and this program disagree on whether the schedule fits; see --format json"));
  }
  return response.feasible() ? kExitOk : kExitInfeasible;
}

}  // namespace

void AddSimulateCommand(CLI::App& app, Command* chosen) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App& command =
      *app.add_subcommand("simulate", "say what a schedule costs and whether it fits");
  command
      .add_option("--chain", arguments->chain,
                  "profile of the network, JSON; - reads standard input")
      ->required()
      ->type_name("FILE");
  command
      .add_option("--schedule", arguments->schedule,
                  "a schedule, or a whole answer of solve, whose platform then holds where no flag "
                  "says otherwise; JSON; - reads standard input")
      ->required()
      ->type_name("FILE");
  AddPlatform(command, MemoryFlag::kRequired, &arguments->platform);
  AddServer(command, "none, simulate in this process", &arguments->server);
  AddFormat(command, &arguments->format);
  command.callback([arguments, chosen] { *chosen = [arguments] { return Run(*arguments); }; });
}

}  // namespace stowage
