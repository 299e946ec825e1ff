// stowage frontier: the makespan for each of many memory budgets.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/arguments.h"
#include "client/cli/commands.h"
#include "client/cli/html_page.h"
#include "client/cli/schedule_text.h"
#include "client/cli/solve_flags.h"
#include "client/lib/memory_budget.h"
#include "client/lib/scheduler.h"
#include "client/text/table.h"
#include "proto/convert/answer_message.h"
#include "proto/convert/chain_message.h"
#include "proto/convert/json.h"
#include "proto/service/results.h"
#include "solver/base/quote.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"
#include "solver/bounds/memory_range.h"
#include "solver/solve/request_violations.h"

namespace stowage {
namespace {

using Align = Table::Align;

struct FrontierArguments {
  SolveFlags solve;
  PlatformFlags platform;
  int points = 0;
  std::string budgets;
  std::string html;
  std::string format = "text";
};

absl::StatusOr<FrontierRequest> MakeRequest(const FrontierArguments& arguments,
                                            const ChainFile& file) {
  ASSIGN_OR_RETURN(
      FrontierRequest request,
      ReadRequest<FrontierRequest>(arguments.solve, arguments.platform, file, MemoryFlag::kAbsent));
  request.points = arguments.points;
  for (const absl::string_view budget :
       absl::StrSplit(arguments.budgets, ',', absl::SkipWhitespace())) {
    ASSIGN_OR_RETURN(const int64_t bytes, Prefixed("--budgets", ParseBudget(budget, file.chain)));
    request.budgets.push_back(bytes);
  }
  return request;
}

// How many budgets have a schedule: 0 makes the command exit with kExitInfeasible.
size_t FeasiblePoints(const Frontier& frontier) {
  size_t feasible = 0;
  for (const FrontierPoint& point : frontier.points) {
    if (point.outcome != Outcome::kInfeasible) ++feasible;
  }
  return feasible;
}

// A budget as a share of the range from M_low to M_high, as `solve --memory 40%` takes it.
std::string RangeCell(const Chain& chain, int64_t memory_bytes) {
  if (memory_bytes < FloorOfMemory(chain).bytes) return "< 0 %";
  if (memory_bytes > StoreAllPeakBytes(chain)) return "> 100 %";
  return RangeShare(chain, memory_bytes);
}

// What the table says about a point beside its figures.
std::string Remark(const Chain& chain, const Frontier& frontier, size_t index) {
  const FrontierPoint& point = frontier.points[index];
  std::vector<std::string> remarks;
  if (frontier.knee == index) remarks.emplace_back("<- knee");
  if (point.memory_bytes == frontier.minimum_memory_bytes) {
    remarks.push_back(absl::StrCat("least for ", frontier.solver));
  }
  if (point.memory_bytes == frontier.most_memory_bytes) remarks.push_back(StoreAllName(chain));
  return absl::StrJoin(remarks, ", ");
}

// One row a budget. An infeasible one has neither a prediction nor a solver: those cells are empty.
std::string PointTable(const Chain& chain, const Frontier& frontier) {
  Table table({Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kRight,
               Align::kLeft, Align::kLeft, Align::kLeft});
  table.Add({"budget", "range", "makespan", "overhead", "peak", "outcome", "solver", ""});
  for (size_t i = 0; i < frontier.points.size(); ++i) {
    const FrontierPoint& point = frontier.points[i];
    std::vector<std::string> cells = {FormatBytes(point.memory_bytes),
                                      RangeCell(chain, point.memory_bytes)};
    const std::string outcome(OutcomeName(point.outcome));
    if (point.outcome == Outcome::kInfeasible) {
      cells.insert(cells.end(), {"", "", "", outcome, "", Remark(chain, frontier, i)});
    } else {
      const Prediction& prediction = point.prediction;
      cells.insert(cells.end(), {FormatSeconds(prediction.makespan_seconds),
                                 absl::StrFormat("%+.1f %%", prediction.overhead * 100),
                                 FormatBytes(prediction.peak_memory_bytes), outcome, point.solver,
                                 Remark(chain, frontier, i)});
    }
    table.Add(std::move(cells));
  }
  return table.ToString(2);
}

std::string FrontierText(const Chain& chain, const FrontierResult& result) {
  const Frontier& frontier = result.frontier;
  std::string text = absl::StrCat(frontier.solver, ": ", frontier.points.size(), " budgets from ",
                                  frontier.solves, frontier.solves == 1 ? " solve" : " solves",
                                  ", solved in ", FormatSeconds(result.origin.solve_seconds), "\n");
  for (const std::string& note : frontier.notes) {
    absl::StrAppend(&text, "  note: ", Printable(note), "\n");
  }
  absl::StrAppend(&text, PointTable(chain, frontier));
  // Only where a budget was too small: name the least one that works, as a flag to copy.
  if (FeasiblePoints(frontier) < frontier.points.size() &&
      frontier.minimum_memory_bytes.has_value()) {
    absl::StrAppend(&text, "  least memory: ", FormatBytes(*frontier.minimum_memory_bytes),
                    ", with which ", frontier.solver, " works: --memory ",
                    *frontier.minimum_memory_bytes, "\n");
  }
  return text;
}

// The page of a frontier, with a schedule for each budget: a point has none, so each is solved.
absl::StatusOr<v1::View> FrontierView(const ChainFile& file, const FrontierRequest& request,
                                      const FrontierResult& result, Scheduler& scheduler) {
  v1::View view = ViewOf(file.message, request.chain);
  v1::ViewedFrontier& viewed = *view.add_frontiers();
  *viewed.mutable_platform() = ToMessage(request.platform);
  *viewed.mutable_frontier() = ToMessage(result);
  SolveRequest solve{request.chain, request.platform, request.solver, request.options};
  for (const FrontierPoint& point : result.frontier.points) {
    if (point.outcome == Outcome::kInfeasible) continue;
    solve.platform.memory_bytes = point.memory_bytes;
    ASSIGN_OR_RETURN(const SolveResult solved, scheduler.Solve(solve, {}));
    ASSIGN_OR_RETURN(*view.add_schedules(), ViewedAnswer(request.chain, solve.platform, solved));
  }
  return view;
}

absl::StatusOr<int> RunFrontier(const FrontierArguments& arguments) {
  if (arguments.solve.chain == "-" && arguments.platform.file == "-") {
    return absl::InvalidArgumentError("--platform: standard input is already read by --chain");
  }
  ASSIGN_OR_RETURN(const ChainFile file, ReadChain(arguments.solve.chain));
  ASSIGN_OR_RETURN(const FrontierRequest request, MakeRequest(arguments, file));
  if (arguments.solve.local) RETURN_IF_ERROR(CheckRequest(RequestViolations(request)));
  ASSIGN_OR_RETURN(const std::unique_ptr<Scheduler> scheduler, MakeScheduler(arguments.solve));
  const absl::StatusOr<FrontierResult> result = scheduler->FindFrontier(request);
  if (!result.ok()) return InFlags(result.status(), SolverOf(arguments.solve));
  if (!arguments.html.empty()) {
    const absl::StatusOr<v1::View> view = FrontierView(file, request, *result, *scheduler);
    if (!view.ok()) return InFlags(view.status(), SolverOf(arguments.solve));
    RETURN_IF_ERROR(WriteHtml(arguments.html, *view));
  }
  const std::string text = arguments.format == "json"
                               ? ToJson(ToMessage(*result))
                               : ChainLine(file.chain) + FrontierText(file.chain, *result);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return FeasiblePoints(result->frontier) > 0 ? kExitOk : kExitInfeasible;
}

}  // namespace

void AddFrontierCommand(CLI::App& app, Subcommand* chosen) {
  auto arguments = std::make_shared<FrontierArguments>();
  CLI::App& command =
      *app.add_subcommand("frontier", "compute the makespan for each of many memory budgets");
  AddChainFlag(command, &arguments->solve);
  CLI::Option* const points =
      command
          .add_option("--points", arguments->points,
                      "number of budgets, spaced geometrically from the least memory to storing "
                      "everything; default: 20")
          ->check(CLI::Range(2, kMaxFrontierPoints))
          ->type_name("N")
          ->group("Budgets");
  command
      .add_option(
          "--budgets", arguments->budgets,
          "budgets instead of --points, separated by commas: 4GiB,6GiB,50% (as --memory of solve)")
      ->type_name("SIZES")
      ->group("Budgets")
      ->excludes(points);
  AddPlatform(command, MemoryFlag::kAbsent, &arguments->platform);
  AddSolveFlags(command, &arguments->solve);
  AddHtml(command, &arguments->html);
  AddFormat(command, &arguments->format);
  command.callback(
      [arguments, chosen] { *chosen = [arguments] { return RunFrontier(*arguments); }; });
}

}  // namespace stowage
