// stowage simulate: the cost of a schedule, or its first invalid operation.
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/arguments.h"
#include "client/cli/commands.h"
#include "client/cli/export_flags.h"
#include "client/cli/html_page.h"
#include "client/cli/schedule_text.h"
#include "client/lib/local_scheduler.h"
#include "client/lib/remote_scheduler.h"
#include "proto/convert/answer_message.h"
#include "proto/convert/chain_message.h"
#include "proto/convert/json.h"
#include "proto/convert/schedule_message.h"
#include "solver/base/quote.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"
#include "solver/export/named_setting.h"
#include "solver/model/validate.h"

namespace stowage {
namespace {

struct SimulateArguments {
  std::string chain;
  std::string schedule;
  std::string setting;  // in the place of the schedule
  std::string layers;
  PlatformFlags platform;
  ServerFlags server;
  std::string html;
  std::string format = "text";
};

struct Input {
  v1::Chain message;  // as in the file
  Chain chain;        // as in the request, with printable names
  SimulateRequest request;
};

// The schedule of --as.
absl::StatusOr<Schedule> ReadSetting(const SimulateArguments& arguments, const Chain& chain) {
  ASSIGN_OR_RETURN(const NamedSetting named,
                   Prefixed("--as", ParseNamedSetting(arguments.setting)));
  ASSIGN_OR_RETURN(const LayerStages stages,
                   Prefixed("--layers", ParseStages(*named.target, arguments.layers, chain)));
  RETURN_IF_ERROR(Prefixed(absl::StrCat("--as: ", Quoted(arguments.setting)),
                           CheckLayers(named, chain, stages)));
  if (const std::optional<int> stage = ForbiddenStage(named, chain, stages)) {
    return absl::InvalidArgumentError(absl::StrCat("--as: ", Quoted(arguments.setting), " is ",
                                                   ForbiddenText(*stage), ", and ",
                                                   named.target->framework, " would run it twice"));
  }
  return ScheduleOf(named, chain, stages);
}

// Reads the schedule of `request`, which has its chain. Returns the platform that an answer of
// `solve` contains.
absl::StatusOr<v1::Platform> ReadSchedule(const SimulateArguments& arguments,
                                          SimulateRequest* request) {
  if (arguments.schedule.empty()) {
    ASSIGN_OR_RETURN(request->schedule, ReadSetting(arguments, request->chain));
    return v1::Platform();
  }
  ASSIGN_OR_RETURN(const std::string json, ReadInput(arguments.schedule));
  ASSIGN_OR_RETURN(ScheduleFile file, Prefixed(arguments.schedule, ScheduleFromJson(json)));
  std::vector<FieldViolation> violations;
  request->schedule = FromMessage(file.schedule, &violations);
  if (violations.empty()) violations = Violations(request->schedule);
  RETURN_IF_ERROR(Prefixed(arguments.schedule, ViolationsStatus(violations)));
  return std::move(file.platform);
}

// The platform is read after the chain and the schedule: a budget in percent needs the chain, and
// an answer of `solve` contains the default platform.
absl::StatusOr<Input> ReadInputs(const SimulateArguments& arguments) {
  if (arguments.schedule.empty() && arguments.setting.empty()) {
    return absl::InvalidArgumentError("--schedule or --as is required");
  }
  int from_stdin = 0;
  for (const std::string* path :
       {&arguments.chain, &arguments.schedule, &arguments.platform.file}) {
    from_stdin += *path == "-" ? 1 : 0;
  }
  if (from_stdin > 1) {
    return absl::InvalidArgumentError("only one of --chain, --schedule and --platform can be -");
  }
  Input input;
  ASSIGN_OR_RETURN(ChainFile file, ReadChain(arguments.chain));
  input.chain = std::move(file.chain);
  input.request.chain = FromMessage(file.message);
  input.message = std::move(file.message);
  ASSIGN_OR_RETURN(v1::Platform platform, ReadSchedule(arguments, &input.request));
  ASSIGN_OR_RETURN(
      input.request.platform,
      ReadPlatform(arguments.platform, input.chain, MemoryFlag::kRequired, std::move(platform)));
  RETURN_IF_ERROR(CheckLinkFlags(arguments.platform, input.request.platform));
  return input;
}

// Whether the schedule fits, and otherwise the first operation over a limit: of the device, or of
// the host where the device's limit holds there.
std::string VerdictText(const SimulateRequest& request, const ExplainedSimulation& result) {
  const std::string count =
      absl::StrCat(request.schedule.operations.size(), " operations, valid; ");
  if (result.simulation.feasible()) return count + "within every limit\n";
  const size_t index = *result.simulation.first_over_limit;
  const TimelineEntry& entry = result.timeline[index];
  const bool device = entry.memory_bytes > request.platform.memory_bytes;
  return absl::StrCat(
      count, "over a limit: ", OperationPath(request.schedule, index, request.chain.length()),
      " needs ", FormatBytes(device ? entry.memory_bytes : entry.host_bytes), " of ",
      FormatBytes(device ? request.platform.memory_bytes : request.platform.host_memory_bytes),
      device ? " device memory\n" : " host memory\n");
}

void Print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

absl::StatusOr<int> RunSimulate(const SimulateArguments& arguments) {
  ASSIGN_OR_RETURN(const Input input, ReadInputs(arguments));
  const SimulateRequest& request = input.request;
  // The local simulation runs even with a server: it fills in the text and cross-checks the
  // verdict.
  const std::vector<std::string>& servers = arguments.server.servers;
  std::optional<ExplainedSimulation> remote;
  if (!servers.empty()) {
    ASSIGN_OR_RETURN(const RemoteOptions options, ReadServer(arguments.server));
    ASSIGN_OR_RETURN(remote, RemoteScheduler(options).Simulate(request));
  }
  ASSIGN_OR_RETURN(const ExplainedSimulation local, LocalScheduler({}).Simulate(request));
  const ExplainedSimulation& result = remote.has_value() ? *remote : local;
  const bool feasible = result.simulation.feasible();
  if (!arguments.html.empty()) {
    v1::View view = ViewOf(input.message, request.chain);
    ASSIGN_OR_RETURN(*view.add_schedules(), ViewedSimulation(request));
    RETURN_IF_ERROR(WriteHtml(arguments.html, view));
  }
  if (arguments.format == "json") {
    Print(ToJson(ToMessage(result)));
  } else if (feasible == local.simulation.feasible()) {
    // The text needs what a response does not carry, such as what each operation waits for.
    Print(absl::StrCat(ChainLine(input.chain), VerdictText(request, local),
                       FiguresText(input.chain, request.platform, request.schedule, local)));
  } else {
    return absl::InternalError(
        absl::StrCat("the server at ", absl::StrJoin(servers, " or "),
                     " and this program disagree on whether the schedule fits; see --format json"));
  }
  return feasible ? kExitOk : kExitInfeasible;
}

}  // namespace

void AddSimulateCommand(CLI::App& app, Subcommand* chosen) {
  auto arguments = std::make_shared<SimulateArguments>();
  CLI::App& command =
      *app.add_subcommand("simulate", "say what a schedule costs and whether it fits");
  command
      .add_option("--chain", arguments->chain,
                  "profile of the network, JSON; - reads standard input")
      ->required()
      ->type_name("FILE");
  CLI::Option* const schedule = command.add_option(
      "--schedule", arguments->schedule,
      "a schedule or an answer of solve, whose platform then is the default of the flags "
      "below; JSON; - reads standard input");
  schedule->type_name("FILE");
  CLI::Option* const setting = command.add_option(
      "--as", arguments->setting,
      "or a framework's setting: pytorch:all, pytorch:none, megatron:uniform:4, "
      "torchtitan:every:2, or a list as an export has it: torchtitan:0,2,4, pytorch:2-3,5");
  setting->type_name("SETTING")->excludes(schedule);
  AddLayers(command, &arguments->layers)->needs(setting);
  AddPlatform(command, MemoryFlag::kRequired, &arguments->platform);
  AddServer(command, "none, simulate in this process", &arguments->server);
  AddHtml(command, &arguments->html);
  AddFormat(command, &arguments->format);
  command.callback(
      [arguments, chosen] { *chosen = [arguments] { return RunSimulate(*arguments); }; });
}

}  // namespace stowage
