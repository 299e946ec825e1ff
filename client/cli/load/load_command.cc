// stowage load: a load generator that checks every answer.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/arguments.h"
#include "client/cli/commands.h"
#include "client/cli/load/load_run.h"
#include "client/cli/solve_flags.h"
#include "client/text/table.h"
#include "nlohmann/json.hpp"
#include "proto/convert/chain_message.h"
#include "solver/base/quantile.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"

namespace stowage {
namespace {

using Align = Table::Align;

struct LoadArguments {
  std::vector<std::string> chains;
  SolveFlags solve;
  PlatformFlags platform;
  int concurrency = 8;
  double rate = 0;
  std::string duration = "10s";
  std::string mix = "90,5,5";
  bool repeats = false;
  std::string format = "text";
};

// "90,5,5": shares by kind, of any sum. The limit of each keeps their sum within an int.
absl::StatusOr<std::array<int, 3>> ParseMix(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  std::array<int, 3> mix{};
  int sum = 0;
  bool sound = parts.size() == mix.size();
  for (size_t i = 0; sound && i < mix.size(); ++i) {
    sound = absl::SimpleAtoi(parts[i], &mix[i]) && mix[i] >= 0 && mix[i] <= 1'000'000;
    sum += sound ? mix[i] : 0;
  }
  if (sound && sum > 0) return mix;
  return absl::InvalidArgumentError(absl::StrCat(
      "--mix: '", text, "' is not three shares of hits, misses and duplicates, as in 90,5,5"));
}

// `chain`: the first one; a budget is not read here, since every request sets its own.
absl::StatusOr<LoadOptions> ReadOptions(const LoadArguments& arguments, const Chain& chain) {
  LoadOptions options;
  ASSIGN_OR_RETURN(options.mix, ParseMix(arguments.mix));
  ASSIGN_OR_RETURN(options.seconds, Prefixed("--duration", ParseSeconds(arguments.duration)));
  ASSIGN_OR_RETURN(const Platform platform,
                   ReadPlatform(arguments.platform, chain, MemoryFlag::kAbsent));
  RETURN_IF_ERROR(CheckLinkFlags(arguments.platform, platform));
  options.platform = platform;
  ASSIGN_OR_RETURN(options.solve, ReadSolveOptions(arguments.solve));
  ASSIGN_OR_RETURN(options.remote, ReadServer(arguments.solve.server, kDefaultServer));
  options.concurrency = arguments.concurrency;
  options.repeats = arguments.repeats;
  options.rate = arguments.rate;
  options.solver = arguments.solve.solver;
  return options;
}

// The percentiles of a row; 1 is the maximum.
constexpr double kShares[] = {0.5, 0.9, 0.99, 0.999, 1};

std::string LatencyTable(const LoadResult& result) {
  Table table({Align::kLeft, Align::kRight, Align::kRight, Align::kRight, Align::kRight,
               Align::kRight, Align::kRight});
  table.Add({"", "answers", "p50", "p90", "p99", "p99.9", "most"});
  for (size_t kind = 0; kind < kLoadKindNames.size(); ++kind) {
    const std::vector<double>& latencies = result.latencies[kind];
    if (latencies.empty()) continue;
    std::vector<std::string> cells = {kLoadKindNames[kind], absl::StrCat(latencies.size())};
    for (const double share : kShares) {
      cells.push_back(FormatSeconds(QuantileOf(latencies, share)));
    }
    table.Add(cells);
  }
  return table.ToString(2);
}

// All latencies, a bar for each doubling: the first to kFirst, bar i from kFirst * 2^(i-1) to twice
// that.
std::string Histogram(const LoadResult& result) {
  constexpr double kFirst = 125e-6;  // upper end of the first bar, seconds
  constexpr int kBars = 40;
  std::vector<int64_t> counts;
  for (const std::vector<double>& latencies : result.latencies) {
    for (const double latency : latencies) {
      const auto bucket =
          static_cast<size_t>(std::max(0.0, std::ceil(std::log2(latency / kFirst))));
      if (bucket >= counts.size()) counts.resize(bucket + 1);
      ++counts[bucket];
    }
  }
  if (counts.empty()) return "";
  const auto most = static_cast<double>(*std::max_element(counts.begin(), counts.end()));
  Table table({Table::Align::kRight, Table::Align::kRight, Table::Align::kLeft});
  for (size_t i = 0; i < counts.size(); ++i) {
    const auto bars = static_cast<size_t>(std::ceil(kBars * static_cast<double>(counts[i]) / most));
    table.Add({absl::StrCat("to ", FormatSeconds(kFirst * std::exp2(i))), absl::StrCat(counts[i]),
               std::string(bars, '#')});
  }
  return absl::StrCat("\n", table.ToString(2));
}

std::string CountsText(const std::map<std::string, int64_t>& counts) {
  std::string text;
  for (const auto& [name, count] : counts) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", count, " ", name);
  }
  return text;
}

std::string Text(const LoadResult& result) {
  std::string text =
      absl::StrFormat("%d answers in %s, %.0f a second; every one simulated, %d wrong\n",
                      result.answers, FormatSeconds(result.seconds),
                      static_cast<double>(result.answers) / result.seconds, result.wrong_answers);
  if (!result.errors.empty()) absl::StrAppend(&text, "errors: ", CountsText(result.errors), "\n");
  absl::StrAppend(&text, "from: ", CountsText(result.sources), "\n\n", LatencyTable(result),
                  Histogram(result));
  for (const std::string& wrong : result.wrong) absl::StrAppend(&text, "wrong: ", wrong, "\n");
  return text;
}

std::string Json(const LoadResult& result) {
  nlohmann::ordered_json json = {{"seconds", result.seconds},
                                 {"answers", result.answers},
                                 {"wrong_answers", result.wrong_answers},
                                 {"errors", result.errors},
                                 {"sources", result.sources}};
  for (size_t kind = 0; kind < kLoadKindNames.size(); ++kind) {
    const std::vector<double>& latencies = result.latencies[kind];
    nlohmann::ordered_json& out = json[kLoadKindNames[kind]];
    out["answers"] = latencies.size();
    if (latencies.empty()) continue;
    for (const double share : kShares) {
      out["seconds"].push_back({{"share", share}, {"within", QuantileOf(latencies, share)}});
    }
  }
  return json.dump(1) + "\n";
}

absl::StatusOr<int> RunLoadCommand(const LoadArguments& arguments) {
  std::vector<Chain> chains;
  for (const std::string& path : arguments.chains) {
    ASSIGN_OR_RETURN(ChainFile file, ReadChain(path));
    chains.push_back(FromMessage(file.message));
  }
  ASSIGN_OR_RETURN(const LoadOptions options, ReadOptions(arguments, chains.front()));
  const LoadResult result = RunLoad(options, chains);
  const std::string text = arguments.format == "json" ? Json(result) : Text(result);
  std::fwrite(text.data(), 1, text.size(), stdout);
  // The figures are printed even when the run failed: they show where.
  if (result.wrong_answers > 0) {
    return absl::InternalError(absl::StrCat(result.wrong_answers, " answers are wrong"));
  }
  if (result.answers == 0) {
    return absl::UnavailableError(
        absl::StrCat("no answer from ", absl::StrJoin(options.remote.servers, " or ")));
  }
  return kExitOk;
}

}  // namespace

void AddLoadCommand(CLI::App& app, Subcommand* chosen) {
  auto arguments = std::make_shared<LoadArguments>();
  CLI::App& command = *app.add_subcommand("load", "put load on a server and check every answer");
  command
      .add_option("chains", arguments->chains,
                  "profiles to request schedules for; - reads standard input")
      ->required()
      ->type_name("FILE");
  const auto add = [&command](const char* name, auto& value, const char* type, const char* help) {
    return command.add_option(name, value, help)
        ->capture_default_str()
        ->type_name(type)
        ->group("Load");
  };
  add("--concurrency", arguments->concurrency, "N", "callers, each with one request in flight")
      ->check(CLI::Range(1, 10'000));
  add("--rate", arguments->rate, "PER_SECOND",
      "requests a second of all callers together; 0: as fast as answers arrive")
      ->check(CLI::Range(0.0, 1e6));
  add("--duration", arguments->duration, "DURATION", "how long to send requests: 10s, 500ms");
  add("--mix", arguments->mix, "H,M,D",
      "shares of requests that hit the server's cache, that miss it, and that ten callers send "
      "at once");
  command
      .add_flag("--repeat", arguments->repeats,
                "repeat calls, at all servers, as jobs do: errors are those that a job would see")
      ->group("Load");
  command.add_option("--solver", arguments->solve.solver, "see stowage solvers; default auto")
      ->check(Utf8Problem)
      ->type_name("NAME")
      ->group("Solver");
  AddTimeBudgetFlags(command, &arguments->solve);
  AddPlatform(command, MemoryFlag::kAbsent, &arguments->platform);
  AddServer(command, kDefaultServer, &arguments->solve.server);
  command.get_option("--server")
      ->description(absl::StrCat("host:port or unix:PATH of a server, or of several, separated by "
                                 "commas, which get an equal number of callers each; default: ",
                                 kDefaultServer));
  AddFormat(command, &arguments->format);
  command.callback(
      [arguments, chosen] { *chosen = [arguments] { return RunLoadCommand(*arguments); }; });
}

}  // namespace stowage
