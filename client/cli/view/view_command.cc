// stowage view: a chain and its schedules in a browser, with budgets that are solved as one moves
// a slider.
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/arguments.h"
#include "client/cli/commands.h"
#include "client/cli/html_page.h"
#include "client/cli/solve_flags.h"
#include "client/cli/view/measured_step.h"
#include "client/cli/view/newest_run.h"
#include "client/cli/view/page_port.h"
#include "client/lib/local_scheduler.h"
#include "proto/convert/answer_message.h"
#include "proto/convert/chain_message.h"
#include "proto/convert/json.h"
#include "proto/convert/schedule_message.h"
#include "proto/service/results.h"
#include "server/web/page.h"
#include "solver/base/status_macros.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/validate.h"
#include "solver/solve/request_violations.h"

namespace stowage {
namespace {

struct ViewArguments {
  std::vector<std::string> files;  // the chain, then schedules
  PlatformFlags platform;
  SolveFlags solve;
  int port = 0;
  std::string html;  // where to write the page, instead of serving it
};

// Solves for the page, one request at a time: the slider's newest.
class Desk {
 public:
  Desk(SolveRequest request, const LocalOptions& options)
      : request_(std::move(request)), options_(options) {}

  absl::StatusOr<v1::ViewedSchedule> Solve(int64_t memory_bytes) {
    SolveRequest request = request_;
    request.platform.memory_bytes = memory_bytes;
    LocalOptions options = options_;
    options.stop = newest_.Begin();
    ASSIGN_OR_RETURN(const SolveResult result, LocalScheduler(options).Solve(request, {}));
    // The best so far is of no use any more.
    if (options.stop.stop_requested()) return absl::CancelledError("stopped for a later request");
    return ViewedAnswer(request.chain, request.platform, result);
  }

  absl::StatusOr<v1::ViewedFrontier> FindFrontier() {
    FrontierRequest request;
    request.chain = request_.chain;
    request.platform = request_.platform;
    request.solver = request_.solver;
    request.options = request_.options;
    LocalOptions options = options_;
    options.stop = newest_.Begin();
    ASSIGN_OR_RETURN(const FrontierResult result, LocalScheduler(options).FindFrontier(request));
    v1::ViewedFrontier viewed;
    *viewed.mutable_platform() = ToMessage(request.platform);
    *viewed.mutable_frontier() = ToMessage(result);
    return viewed;
  }

 private:
  const SolveRequest request_;
  const LocalOptions options_;
  NewestRun newest_;
};

template <typename Message>
absl::StatusOr<std::string> JsonOf(const absl::StatusOr<Message>& message) {
  if (!message.ok()) return message.status();
  return ToHtmlJson(*message);
}

// "answer.json" of "runs/answer.json".
std::string FileName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// A schedule or an answer of solve, replayed on the platform that it names.
absl::StatusOr<v1::ViewedSchedule> ReadSchedule(const std::string& path, const std::string& json,
                                                const Chain& chain, const Platform& otherwise) {
  ASSIGN_OR_RETURN(const ScheduleFile file, Prefixed(path, ScheduleFromJson(json)));
  SimulateRequest request;
  request.chain = chain;
  request.platform = file.platform.has_memory_bytes() ? FromMessage(file.platform) : otherwise;
  std::vector<FieldViolation> violations;
  request.schedule = FromMessage(file.schedule, &violations);
  if (violations.empty()) violations = Violations(request.schedule);
  Append(Violations(request.platform), &violations);
  RETURN_IF_ERROR(Prefixed(path, ViolationsStatus(violations)));
  return Prefixed(path, ViewedSimulation(request));
}

// Budgets, as `stowage frontier --format json` prints them.
absl::StatusOr<v1::ViewedFrontier> ReadFrontier(const std::string& path, const std::string& json,
                                                const Chain& chain) {
  v1::ViewedFrontier viewed;
  RETURN_IF_ERROR(Prefixed(path, FromJson(json, "frontier", viewed.mutable_frontier())));
  if (viewed.frontier().most_memory_bytes() != StoreAllPeakBytes(chain)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": has budgets of another chain"));
  }
  for (const v1::FrontierPoint& point : viewed.frontier().points()) {
    if (point.has_prediction() == (point.outcome() == v1::INFEASIBLE)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": a point without a prediction has to be INFEASIBLE"));
    }
  }
  return viewed;
}

bool IsFrontier(const std::string& json) {
  return json.find("\"points\"") < json.find("\"operations\"");
}

// The schedules and budgets of files. A trace is a step of the schedule before it.
absl::Status AddFiles(const ViewArguments& arguments, const SolveRequest& request, v1::View* view) {
  for (size_t i = 1; i < arguments.files.size(); ++i) {
    const std::string& path = arguments.files[i];
    ASSIGN_OR_RETURN(const std::string json, ReadInput(path));
    if (IsFrontier(json)) {
      ASSIGN_OR_RETURN(*view->add_frontiers(), ReadFrontier(path, json, request.chain));
      view->mutable_frontiers()->rbegin()->set_name(FileName(path));
      continue;
    }
    v1::ViewedSchedule viewed;
    if (IsTrace(json)) {
      if (view->schedules().empty()) {
        return absl::InvalidArgumentError(
            absl::StrCat(path, ": is a trace; name the schedule that ran before it"));
      }
      ASSIGN_OR_RETURN(viewed, Prefixed(path, MeasuredStep(json, *view->schedules().rbegin(),
                                                           view->store_all_seconds())));
    } else {
      ASSIGN_OR_RETURN(viewed, ReadSchedule(path, json, request.chain, request.platform));
    }
    viewed.set_name(FileName(path));
    *view->add_schedules() = std::move(viewed);
  }
  return absl::OkStatus();
}

absl::StatusOr<int> RunView(ViewArguments arguments) {
  ASSIGN_OR_RETURN(const ChainFile file, ReadChain(arguments.files.front()));
  if (arguments.platform.memory.empty() && arguments.platform.file.empty()) {
    arguments.platform.memory = "50%";
  }
  arguments.solve.local = true;
  ASSIGN_OR_RETURN(
      const SolveRequest request,
      ReadRequest<SolveRequest>(arguments.solve, arguments.platform, file, MemoryFlag::kRequired));
  RETURN_IF_ERROR(CheckRequest(RequestViolations(request)));

  v1::View view = ViewOf(file.message, request.chain);
  view.set_live(arguments.html.empty());
  Desk desk(request, {});
  RETURN_IF_ERROR(AddFiles(arguments, request, &view));
  if (view.schedules().empty() && view.frontiers().empty()) {
    ASSIGN_OR_RETURN(*view.add_schedules(), desk.Solve(request.platform.memory_bytes));
  }
  if (!arguments.html.empty()) {
    RETURN_IF_ERROR(WriteHtml(arguments.html, view));
    return kExitOk;
  }
  ASSIGN_OR_RETURN(
      const std::unique_ptr<PagePort> port,
      PagePort::Listen(arguments.port,
                       {.page = PageOf(ToHtmlJson(view)),
                        .solve = [&desk](int64_t bytes) { return JsonOf(desk.Solve(bytes)); },
                        .frontier = [&desk] { return JsonOf(desk.FindFrontier()); }}));
  std::puts(absl::StrCat("open ", port->url(), " in a browser; Ctrl+C ends").c_str());
  std::fflush(stdout);
  port->Serve();
  return kExitOk;
}

}  // namespace

void AddViewCommand(CLI::App& app, Subcommand* chosen) {
  auto arguments = std::make_shared<ViewArguments>();
  CLI::App& command = *app.add_subcommand(
      "view", "show a chain and its schedules in a browser, and solve as a slider moves");
  command
      .add_option("FILE", arguments->files,
                  "profile of the network, JSON; then schedules or answers of solve to show, two "
                  "of them side by side, traces of steps that the one before ran, and budgets of "
                  "frontier, in one picture; without any the chain is solved")
      ->required()
      ->type_name("");
  AddPlatform(command, MemoryFlag::kRequired, &arguments->platform);
  AddSolverFlag(command, &arguments->solve);
  command
      .add_option("--port", arguments->port,
                  "port of 127.0.0.1, where the page is served to those who have the address with "
                  "its random token; default: a free one")
      ->check(CLI::Range(1, 65535))
      ->type_name("N")
      ->group("Output");
  AddHtml(command, &arguments->html);
  command.callback([arguments, chosen] { *chosen = [arguments] { return RunView(*arguments); }; });
}

}  // namespace stowage
