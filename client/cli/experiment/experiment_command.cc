// stowage experiment: the papers' comparisons of solvers, on any profiles.
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/cli/arguments.h"
#include "client/cli/commands.h"
#include "client/cli/experiment/experiment_view.h"
#include "client/cli/experiment/experimenter.h"
#include "client/cli/experiment/measurement.h"
#include "client/cli/experiment/summary.h"
#include "client/cli/experiment/sweep.h"
#include "client/cli/html_page.h"
#include "client/cli/solve_flags.h"
#include "client/lib/local_scheduler.h"
#include "solver/base/file.h"
#include "solver/base/quote.h"
#include "solver/base/status_macros.h"
#include "solver/model/validate.h"
#include "solver/solve/request_violations.h"

namespace stowage {
namespace {

struct ExperimentArguments {
  std::vector<std::string> chains;
  SweepFlags sweep;
  PlatformFlags platform;
  SolveFlags solve;  // slots, memory limit and timeout of a solve
  std::string output;
  std::string html;
  bool quiet = false;
};

// Named after the file: two profiles of one network may have the same chain name.
std::string NetworkName(const std::string& path) {
  return path == "-" ? "standard input" : Printable(std::filesystem::path(path).stem().string());
}

absl::StatusOr<std::vector<NetworkProfile>> ReadNetworks(const ExperimentArguments& arguments) {
  std::vector<NetworkProfile> networks;
  std::map<std::string, std::string> paths;  // by name
  for (const std::string& path : arguments.chains) {
    NetworkProfile network{.name = NetworkName(path), .chain = {}, .platform = {}};
    const auto [earlier, is_new] = paths.emplace(network.name, path);
    if (!is_new) {
      return absl::InvalidArgumentError(absl::StrCat("chains: ", earlier->second, " and ", path,
                                                     " are both called ", network.name,
                                                     "; rename one of the files"));
    }
    ASSIGN_OR_RETURN(ChainFile file, ReadChain(path));
    network.chain = std::move(file.chain);
    ASSIGN_OR_RETURN(network.platform,
                     ReadPlatform(arguments.platform, network.chain, MemoryFlag::kAbsent));
    networks.push_back(std::move(network));
  }
  return networks;
}

// Reports an error that every solve of the sweep would have, before it starts. The chains are
// valid.
absl::Status CheckSweep(const Sweep& sweep, const NetworkProfile& network, int64_t slots) {
  for (const double bandwidth : sweep.bandwidths) {
    ASSIGN_OR_RETURN(const SolveRequest request,
                     RequestFor({&network, 1, 0, bandwidth, sweep.solvers.front()}, slots));
    RETURN_IF_ERROR(CheckRequest(RequestViolations(request)));
  }
  return absl::OkStatus();
}

// A CSV file that is written row by row. Until Finish() it is named *.partial.csv, so that an
// interrupted sweep keeps its rows and does not replace the file of an earlier sweep.
class RowFile {
 public:
  // Errors: UNAVAILABLE with the path and the reason.
  static absl::StatusOr<RowFile> Open(const std::string& stem) {
    RowFile file(stem);
    file.file_.reset(std::fopen(file.partial_.c_str(), "wb"));
    RETURN_IF_ERROR(file.Write(CsvHeader()));
    return file;
  }

  // Flushes: the rows survive the end of this process.
  absl::Status Write(const std::string& text) {
    if (file_ != nullptr && std::fputs(text.c_str(), file_.get()) >= 0 &&
        std::fflush(file_.get()) == 0) {
      return absl::OkStatus();
    }
    return absl::UnavailableError(
        absl::StrCat("cannot write ", partial_, ": ", std::strerror(errno)));
  }

  // Renames it; returns the path.
  absl::StatusOr<std::string> Finish() {
    file_.reset();
    std::error_code error;
    std::filesystem::rename(partial_, path_, error);
    if (!error) return path_;
    return absl::UnavailableError(absl::StrCat("cannot write ", path_, ": ", error.message()));
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  explicit RowFile(const std::string& stem)
      : partial_(stem + ".partial.csv"), path_(stem + ".csv") {}

  std::string partial_;
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

absl::Status MakeFolder(const std::string& path) {
  if (path.empty()) return absl::InvalidArgumentError("is empty; give a folder, as in results");
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot create ", path, ": ", error.message()));
}

void PrintProgress(const std::string& line) {
  std::fprintf(stderr, "%s\n", Printable(line).c_str());
}

struct Results {
  std::vector<Measurement> rows;
  std::string path;      // of the CSV file
  absl::Status failure;  // see Experimenter::Failure()
};

// Runs the whole sweep; writes the CSV file.
absl::StatusOr<Results> Measure(const ExperimentArguments& arguments, const Sweep& sweep,
                                const LocalOptions& local,
                                const std::vector<NetworkProfile>& networks) {
  RETURN_IF_ERROR(MakeFolder(arguments.output));
  const std::string name = NameOf(ExperimentOf(arguments.sweep.figure));
  const std::string stem = (std::filesystem::path(arguments.output) / name).string();
  ASSIGN_OR_RETURN(RowFile file, RowFile::Open(stem));
  Experimenter::Settings settings;
  settings.local = local;
  settings.slots = arguments.solve.slots;
  settings.record = [&file](const Measurement& row) { return file.Write(CsvRow(row)); };
  if (!arguments.quiet) settings.progress = PrintProgress;
  Experimenter experimenter(sweep, settings, networks.size());
  for (const NetworkProfile& network : networks)
    RETURN_IF_ERROR(experimenter.SolveNetwork(network));
  ASSIGN_OR_RETURN(std::string path, file.Finish());
  return Results{experimenter.rows(), std::move(path), experimenter.Failure()};
}

// The page of all rows, which --html writes.
v1::View ViewOf(const ExperimentArguments& arguments, const LocalOptions& local,
                const std::vector<NetworkProfile>& networks, const std::vector<Measurement>& rows,
                const Summary& summary) {
  v1::View view;
  v1::Experiment& experiment = *view.mutable_experiment();
  experiment.set_name(NameOf(ExperimentOf(arguments.sweep.figure)));
  experiment.set_version(STOWAGE_VERSION);
  experiment.set_memory_slots(arguments.solve.slots);
  experiment.set_timeout_seconds(local.timeout_seconds.value_or(0));
  experiment.set_solve_memory_bytes(local.working_bytes);
  Fill(networks, rows, summary, &experiment);
  return view;
}

std::string Counted(size_t count, const std::string& thing) {
  return absl::StrCat(count, " ", thing, count == 1 ? "" : "s");
}

absl::StatusOr<int> RunExperiment(const ExperimentArguments& arguments) {
  ASSIGN_OR_RETURN(const Sweep sweep, ReadSweep(arguments.sweep));
  ASSIGN_OR_RETURN(const LocalOptions local, ReadLocalOptions(arguments.solve));
  ASSIGN_OR_RETURN(const std::vector<NetworkProfile> networks, ReadNetworks(arguments));
  RETURN_IF_ERROR(CheckSweep(sweep, networks.front(), arguments.solve.slots));
  const absl::StatusOr<Results> results = Measure(arguments, sweep, local, networks);
  if (!results.ok()) return Prefixed("--output", results.status());
  const Summary summary = SummaryOf(results->rows);
  absl::Status page;
  std::string paths = results->path;
  if (!arguments.html.empty()) {
    page = WriteHtml(arguments.html, ViewOf(arguments, local, networks, results->rows, summary));
    if (page.ok()) absl::StrAppend(&paths, ", ", arguments.html);
  }
  const std::string text = absl::StrCat(
      NameOf(ExperimentOf(arguments.sweep.figure)), ": ", Counted(networks.size(), "network"), ", ",
      Counted(sweep.budgets(), "budget"), ", ", Counted(sweep.bandwidths.size(), "bandwidth"), ", ",
      Counted(sweep.solvers.size(), "solver"), "\n", SummaryText(summary), "  written: ", paths,
      "\n");
  std::fwrite(text.data(), 1, text.size(), stdout);
  // The CSV file and the summary are complete before the error of the page, or of a failed solve,
  // which has a row as well.
  RETURN_IF_ERROR(page);
  RETURN_IF_ERROR(results->failure);
  const bool feasible =
      std::any_of(results->rows.begin(), results->rows.end(),
                  [](const Measurement& row) { return row.prediction.has_value(); });
  return feasible ? kExitOk : kExitInfeasible;
}

constexpr const char* kSweepGroup = "Sweep";
constexpr const char* kSolverGroup = "Solver";
constexpr const char* kOutputGroup = "Output";

void AddSweep(CLI::App& command, SweepFlags* flags) {
  command
      .add_option("--figure", flags->figure,
                  "preset of a paper: 2 is POFO's overhead by memory, 3 its overhead by bandwidth, "
                  "ratio the offloading paper's ratio to the lower bound; the flags below override "
                  "it; default: none of them")
      ->check(CLI::IsMember({"2", "3", "ratio"}))
      ->type_name("NAME")
      ->group(kSweepGroup);
  command
      .add_option("--alphas", flags->alphas,
                  "budgets, as shares of the range from the memory floor (0) to "
                  "storing everything (1): 0.2,0.5 or first:last:step; default 0:1:0.05, "
                  "for figure 3 0.2")
      ->type_name("LIST")
      ->group(kSweepGroup);
  command
      .add_option("--reductions", flags->reductions,
                  "budgets, as what storing everything takes divided by these: 4 for a quarter of "
                  "it, 2,4 or first:last:step; default none, and without --alphas no others")
      ->type_name("LIST")
      ->group(kSweepGroup);
  command
      .add_option("--bandwidths", flags->bandwidths,
                  "device to host, in GB/s: 12,24 or first:last:step; default 12, for figure 3 "
                  "12:36:2, for ratio 12.2")
      ->type_name("LIST")
      ->group(kSweepGroup);
  command
      .add_option("--solvers", flags->solvers,
                  "names with commas between them, see stowage solvers; default: the paper's, or "
                  "all that recompute or offload")
      ->type_name("NAMES")
      ->group(kSweepGroup);
}

void AddLimits(CLI::App& command, SolveFlags* flags) {
  command
      .add_option("--slots", flags->slots,
                  "memory slots of a dynamic program; default: the solver's own")
      ->type_name("N")
      ->group(kSolverGroup);
  command
      .add_option("--timeout", flags->server.timeout,
                  "time limit of one solve: 30s, 500ms; default: none")
      ->type_name("DURATION")
      ->group(kSolverGroup);
  command
      .add_option("--solve-memory", flags->solve_memory, "memory limit of one solve, as in 4GiB")
      ->capture_default_str()
      ->type_name("SIZE")
      ->group(kSolverGroup);
}

void AddOutput(CLI::App& command, ExperimentArguments* arguments) {
  command
      .add_option(
          "--output", arguments->output,
          "folder for a CSV file, which gets a row as soon as a solve ends; created if necessary")
      ->required()
      ->type_name("DIR")
      ->group(kOutputGroup);
  AddHtml(command, &arguments->html);
  command.add_flag("--quiet", arguments->quiet, "no progress on standard error")
      ->group(kOutputGroup);
}

}  // namespace

void AddExperimentCommand(CLI::App& app, Subcommand* chosen) {
  auto arguments = std::make_shared<ExperimentArguments>();
  CLI::App& command = *app.add_subcommand(
      "experiment", "compare solvers over budgets and bandwidths, as the papers do");
  command
      .add_option("chains", arguments->chains,
                  "profiles of the networks, JSON, named by their files")
      ->required()
      ->type_name("FILE");
  AddSweep(command, &arguments->sweep);
  AddLink(command,
          "host to device: 12GB/s, bytes a second without a unit; default: as --bandwidths",
          &arguments->platform);
  AddLimits(command, &arguments->solve);
  AddOutput(command, arguments.get());
  command.callback(
      [arguments, chosen] { *chosen = [arguments] { return RunExperiment(*arguments); }; });
}

}  // namespace stowage
