// stowage solve: a chain and a memory budget in, a schedule out.
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/cli/arguments.h"
#include "client/cli/commands.h"
#include "client/cli/figures.h"
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

constexpr const char* kDefaultServer = "127.0.0.1:50051";

struct Arguments {
  std::string chain;
  PlatformFlags platform;
  std::string solver;
  int64_t slots = 0;
  int segments = 0;
  std::optional<double> time_precision;
  bool local = false;
  std::string solve_memory = "4GiB";
  ServerFlags server;
  std::string output;
  std::string format = "text";
};

absl::StatusOr<v1::SolveRequest> MakeRequest(const Arguments& arguments, const ChainFile& file) {
  ASSIGN_OR_RETURN(const Platform platform, ReadPlatform(arguments.platform, file.chain));
  v1::SolveRequest request;
  *request.mutable_chain() = file.message;
  *request.mutable_platform() = ToMessage(platform);
  request.set_solver(arguments.solver);
  request.mutable_options()->set_memory_slots(arguments.slots);
  request.mutable_options()->set_segments(arguments.segments);
  if (arguments.time_precision.has_value()) {
    request.mutable_options()->set_time_precision(*arguments.time_precision);
  }
  return request;
}

// Sets `stop` after the timeout, unless it is destroyed before.
class Timer {
 public:
  Timer(std::optional<double> timeout_seconds, const std::stop_source& stop) {
    if (!timeout_seconds.has_value()) return;
    thread_ = std::jthread([timeout_seconds, stop](const std::stop_token& destroyed) {
      std::mutex mutex;
      std::condition_variable_any never;
      std::unique_lock<std::mutex> lock(mutex);
      never.wait_for(lock, destroyed, std::chrono::duration<double>(*timeout_seconds),
                     [] { return false; });
      if (!destroyed.stop_requested()) stop.request_stop();
    });
  }

 private:
  std::jthread thread_;
};

absl::StatusOr<v1::SolveResponse> SolveHere(const Arguments& arguments, v1::SolveRequest message) {
  // Nobody shares the answer, so nothing is gained by rounding times.
  if (!arguments.time_precision.has_value()) message.mutable_options()->set_time_precision(0);
  std::vector<FieldViolation> violations;
  const SolveRequest request = FromMessage(message, &violations);
  for (FieldViolation& violation : RequestViolations(request)) {
    violations.push_back(std::move(violation));
  }
  RETURN_IF_ERROR(ViolationsStatus(violations));
  const absl::StatusOr<int64_t> bytes = ParseBytes(arguments.solve_memory);
  if (!bytes.ok()) return Prefixed("--solve-memory", bytes.status());
  ASSIGN_OR_RETURN(const ClientOptions options, ReadServer(arguments.server));
  std::stop_source stop;
  SolveContext context;
  context.stop = stop.get_token();
  context.working_bytes = *bytes;
  const Timer timer(options.timeout_seconds, stop);
  const auto begin = std::chrono::steady_clock::now();
  const absl::StatusOr<Answer> answer = AnswerRequest(request, context);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  if (absl::IsCancelled(answer.status())) {
    return absl::DeadlineExceededError(absl::StrCat("no answer within ", *options.timeout_seconds,
                                                    " s; raise --timeout, or ask for "
                                                    "a coarser answer with --slots"));
  }
  RETURN_IF_ERROR(answer.status());
  return ToMessage(*answer, {.queue_seconds = 0, .solve_seconds = elapsed.count()});
}

absl::StatusOr<v1::SolveResponse> AskServer(const Arguments& arguments,
                                            const v1::SolveRequest& request) {
  ASSIGN_OR_RETURN(const ClientOptions options, ReadServer(arguments.server, kDefaultServer));
  absl::StatusOr<v1::SolveResponse> response = Client(options).Solve(request);
  if (absl::IsUnavailable(response.status())) {
    return absl::UnavailableError(
        absl::StrCat(response.status().message(), ", or solve here with --local"));
  }
  return response;
}

// Errors speak of the API's fields; here they are flags.
absl::Status InFlags(const absl::Status& status) {
  return {status.code(),
          absl::StrReplaceAll(status.message(), {{"options.memory_slots", "--slots"},
                                                 {"options.segments", "--segments"},
                                                 {"options.time_precision", "--time-precision"},
                                                 {"set aside for one solve",
                                                  "set aside for one solve (--solve-memory)"}})};
}

absl::Status WriteSchedule(const std::string& path, const v1::Schedule& schedule) {
  const std::string json = ToJson(schedule);
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  const bool written =
      file != nullptr && std::fwrite(json.data(), 1, json.size(), file) == json.size();
  const bool closed = file != nullptr && std::fclose(file) == 0;
  if (written && closed) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("--output: cannot write ", path));
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

std::string OutcomeText(const v1::SolveResponse& response) {
  std::string text =
      absl::StrCat(response.origin().solver(), ": ", v1::Outcome_Name(response.outcome()));
  if (response.limit() == v1::HEURISTIC) absl::StrAppend(&text, " (heuristic)");
  if (response.limit() == v1::ROUNDING) absl::StrAppend(&text, " (up to rounding)");
  absl::StrAppend(&text, ", solved in ", FormatSeconds(response.origin().solve_seconds()), "\n");
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
  if (arguments.chain == "-" && arguments.platform.file == "-") {
    return absl::InvalidArgumentError("--platform: standard input is already read by --chain");
  }
  if (arguments.output == "-") {
    return absl::InvalidArgumentError(
        "--output: is a file's path; --format json prints the schedule");
  }
  ASSIGN_OR_RETURN(const ChainFile file, ReadChain(arguments.chain));
  ASSIGN_OR_RETURN(const v1::SolveRequest request, MakeRequest(arguments, file));
  const absl::StatusOr<v1::SolveResponse> answered =
      arguments.local ? SolveHere(arguments, request) : AskServer(arguments, request);
  if (!answered.ok()) return InFlags(answered.status());
  const v1::SolveResponse& response = *answered;
  const bool feasible = response.outcome() != v1::INFEASIBLE;
  if (feasible && !arguments.output.empty()) {
    RETURN_IF_ERROR(WriteSchedule(arguments.output, response.schedule()));
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

std::string SolverHelp() {
  std::string help = "one of";
  for (const SolverInfo& info : AllSolvers()) absl::StrAppend(&help, " ", info.description.name);
  return help + "; see stowage solvers; default auto";
}

}  // namespace

void AddSolveCommand(CLI::App& app, Command* chosen) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App& command = *app.add_subcommand("solve", "find the schedule with the least time lost");
  command
      .add_option("--chain", arguments->chain,
                  "profile of the network, JSON; - reads standard input")
      ->required()
      ->type_name("FILE");
  AddPlatform(command, &arguments->platform);
  command.add_option("--solver", arguments->solver, SolverHelp())
      ->type_name("NAME")
      ->group("Solver");
  command
      .add_option("--slots", arguments->slots,
                  "memory slots of a dynamic program; default: the solver's own (rotor: 500)")
      ->type_name("N")
      ->group("Solver");
  command
      .add_option("--segments", arguments->segments,
                  "segments that periodic cuts; default: the best of all counts")
      ->type_name("N")
      ->group("Solver");
  command
      .add_option(
          "--time-precision", arguments->time_precision,
          "relative grid for times, 0 (exact) to 0.5; default 0.01 at a server, 0 with --local")
      ->type_name("X")
      ->group("Solver");
  AddServer(command, kDefaultServer, &arguments->server);
  CLI::Option* const local =
      command.add_flag("--local", arguments->local, "solve in this process, ask no server")
          ->group("Server");
  local->excludes("--server");
  command
      .add_option("--solve-memory", arguments->solve_memory,
                  "most memory that a --local solve may take; e.g. 4GiB")
      ->capture_default_str()
      ->type_name("SIZE")
      ->group("Server");
  command.add_option("--output", arguments->output, "write the bare schedule there, as JSON")
      ->type_name("FILE")
      ->group("Output");
  AddFormat(command, &arguments->format);
  command.callback([arguments, chosen] { *chosen = [arguments] { return Run(*arguments); }; });
}

}  // namespace stowage
