// stowage frontier: what memory buys, budget by budget.
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
#include "client/cli/schedule_text.h"
#include "client/cli/solve_flags.h"
#include "client/lib/client.h"
#include "client/lib/memory_budget.h"
#include "client/text/table.h"
#include "proto/convert/answer_message.h"
#include "proto/convert/chain_message.h"
#include "proto/convert/json.h"
#include "proto/convert/request_message.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/validate.h"
#include "solver/solve/catalog.h"
#include "solver/solve/find_frontier.h"

namespace stowage {
namespace {

struct Arguments {
  QuestionFlags question;
  PlatformFlags platform;
  int points = 0;
  std::string budgets;
  std::string format = "text";
};

absl::StatusOr<v1::FrontierRequest> MakeRequest(const Arguments& arguments, const ChainFile& file) {
  ASSIGN_OR_RETURN(const Platform platform,
                   ReadPlatform(arguments.platform, file.chain, MemoryFlag::kAbsent));
  RETURN_IF_ERROR(CheckLinkFlags(arguments.platform, platform));
  v1::FrontierRequest request;
  *request.mutable_chain() = file.message;
  *request.mutable_platform() = ToMessage(platform);
  request.set_solver(arguments.question.solver);
  ASSIGN_OR_RETURN(*request.mutable_options(), OptionsOf(arguments.question));
  request.set_points(arguments.points);
  for (const absl::string_view budget :
       absl::StrSplit(arguments.budgets, ',', absl::SkipWhitespace())) {
    const absl::StatusOr<int64_t> bytes = ParseBudget(budget, file.chain);
    if (!bytes.ok()) return Prefixed("--budgets", bytes.status());
    request.add_memory_bytes(*bytes);
  }
  return request;
}

absl::StatusOr<v1::FrontierResponse> Ask(const QuestionFlags& flags,
                                         const v1::FrontierRequest& request) {
  if (flags.local) {
    ASSIGN_OR_RETURN(const LocalOptions options, LocalOptionsOf(flags));
    return FindFrontierLocally(options, request);
  }
  ASSIGN_OR_RETURN(Client client, ClientOf(flags));
  return client.Frontier(request);
}

int FeasiblePoints(const v1::FrontierResponse& response) {
  int feasible = 0;
  for (const v1::FrontierPoint& point : response.points()) {
    if (point.outcome() != v1::INFEASIBLE) ++feasible;
  }
  return feasible;
}

// Where a budget lies in the range of `solve --memory 40%`.
std::string RangeCell(const Chain& chain, int64_t memory_bytes) {
  if (memory_bytes < FloorOfMemory(chain).bytes) return "< 0 %";
  if (memory_bytes > StoreAllPeakBytes(chain)) return "> 100 %";
  return RangeShare(chain, memory_bytes);
}

// What is special about a point.
std::string Remark(const Chain& chain, const v1::FrontierResponse& response, int index) {
  const v1::FrontierPoint& point = response.points(index);
  std::vector<std::string> remarks;
  if (response.has_knee() && response.knee() == index) remarks.emplace_back("<- knee");
  if (point.memory_bytes() == response.minimum_memory_bytes()) {
    remarks.push_back(absl::StrCat("least for ", response.origin().solver()));
  }
  if (point.memory_bytes() == response.most_memory_bytes()) {
    remarks.push_back(StoreAllName(chain));
  }
  return absl::StrJoin(remarks, ", ");
}

std::string FrontierText(const Chain& chain, const v1::FrontierResponse& response) {
  std::string text =
      absl::StrCat(response.origin().solver(), ": ", response.points_size(), " budgets from ",
                   response.solves(), response.solves() == 1 ? " solve" : " solves", ", solved in ",
                   FormatSeconds(response.origin().solve_seconds()), "\n");
  for (const std::string& note : response.notes()) {
    absl::StrAppend(&text, "  note: ", Printable(note), "\n");
  }
  using Align = Table::Align;
  Table table({Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kRight,
               Align::kLeft, Align::kLeft, Align::kLeft});
  table.Add({"budget", "range", "makespan", "overhead", "peak", "outcome", "solver", ""});
  for (int i = 0; i < response.points_size(); ++i) {
    const v1::FrontierPoint& point = response.points(i);
    std::vector<std::string> cells = {FormatBytes(point.memory_bytes()),
                                      RangeCell(chain, point.memory_bytes())};
    if (point.outcome() == v1::INFEASIBLE) {
      cells.insert(cells.end(), {"", "", "", "INFEASIBLE", "", Remark(chain, response, i)});
    } else {
      const v1::Prediction& prediction = point.prediction();
      cells.insert(cells.end(),
                   {FormatSeconds(prediction.makespan_seconds()),
                    absl::StrFormat("%+.1f %%", prediction.overhead() * 100),
                    FormatBytes(prediction.peak_memory_bytes()), v1::Outcome_Name(point.outcome()),
                    point.solver(), Remark(chain, response, i)});
    }
    table.Add(std::move(cells));
  }
  absl::StrAppend(&text, table.ToString(2));
  if (FeasiblePoints(response) < response.points_size() && response.has_minimum_memory_bytes()) {
    absl::StrAppend(&text, "  least that works: ", FormatBytes(response.minimum_memory_bytes()),
                    ", --memory ", response.minimum_memory_bytes(), "\n");
  }
  return text;
}

absl::StatusOr<int> Run(const Arguments& arguments) {
  if (arguments.question.chain == "-" && arguments.platform.file == "-") {
    return absl::InvalidArgumentError("--platform: standard input is already read by --chain");
  }
  ASSIGN_OR_RETURN(const ChainFile file, ReadChain(arguments.question.chain));
  ASSIGN_OR_RETURN(const v1::FrontierRequest request, MakeRequest(arguments, file));
  const absl::StatusOr<v1::FrontierResponse> answered = Ask(arguments.question, request);
  if (!answered.ok()) return InFlags(answered.status());
  const std::string text = arguments.format == "json"
                               ? ToJson(*answered)
                               : ChainLine(file.chain) + FrontierText(file.chain, *answered);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return FeasiblePoints(*answered) > 0 ? kExitOk : kExitInfeasible;
}

}  // namespace

void AddFrontierCommand(CLI::App& app, Command* chosen) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App& command =
      *app.add_subcommand("frontier", "what memory buys: the makespan budget by budget");
  AddChainOption(command, &arguments->question);
  CLI::Option* const points =
      command
          .add_option("--points", arguments->points,
                      "so many budgets, from the least that works to storing everything, each the "
                      "same factor above the one before; default: 20")
          ->check(CLI::Range(2, kMaxFrontierPoints))
          ->type_name("N")
          ->group("Budgets");
  command
      .add_option("--budgets", arguments->budgets,
                  "or these, with commas between them: 4GiB,6GiB,50% (as --memory of solve)")
      ->type_name("SIZES")
      ->group("Budgets")
      ->excludes(points);
  AddPlatform(command, MemoryFlag::kAbsent, &arguments->platform);
  AddQuestion(command, &arguments->question);
  AddFormat(command, &arguments->format);
  command.callback([arguments, chosen] { *chosen = [arguments] { return Run(*arguments); }; });
}

}  // namespace stowage
