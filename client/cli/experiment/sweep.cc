#include "client/cli/experiment/sweep.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "client/cli/arguments.h"
#include "solver/base/quote.h"
#include "solver/base/status_macros.h"
#include "solver/solve/catalog.h"
#include "solver/solve/request_violations.h"

namespace stowage {
namespace {

constexpr size_t kMaxNumbers = 1000;
constexpr double kMaxGigabytesPerSecond = 1e6;
constexpr double kMaxReduction = 1e6;

// An experiment with the parameters of its paper.
struct Preset {
  Experiment experiment;
  const char* figure;  // of --figure
  const char* name;
  const char* alphas;
  const char* bandwidths;
  const char* solvers;  // ignored where the catalog lacks them; empty: see ReadSweep()
};
constexpr Preset kPresets[] = {
    {Experiment::kFree, "", "sweep", "0:1:0.05", "12", ""},
    {Experiment::kFigure2, "2", "figure2", "0:1:0.05", "12",
     "rotor,offload_dynprog,opportunist,autocapper,pofo,auto"},
    {Experiment::kFigure3, "3", "figure3", "0.2", "12:36:2",
     "rotor,offload_dynprog,opportunist,autocapper,pofo,auto"},
    {Experiment::kRatio, "ratio", "ratio", "0:1:0.05", "12.2",
     "offload_vdnn,offload_greedy,offload_dynprog"},
};

const Preset& PresetOf(Experiment experiment) {
  return *std::find_if(
      std::begin(kPresets), std::end(kPresets),
      [experiment](const Preset& preset) { return preset.experiment == experiment; });
}

// Rounds a sum of steps to 12 digits: 0.3, not 0.30000000000000004.
double Tidy(double value) {
  double tidy = 0;
  return absl::SimpleAtod(absl::StrFormat("%.12g", value), &tidy) ? tidy : value;
}

absl::Status BadNumbers(absl::string_view text, double most) {
  return absl::InvalidArgumentError(
      absl::StrCat(Quoted(text), " is neither a number from 0 to ", most,
                   " nor a range first:last:step; write e.g. ",
                   most == 1 ? "0.2,0.5 or 0:1:0.05" : "12,24 or 12:36:2"));
}

// Appends the numbers of one element of the list: a number or first:last:step.
absl::Status AddNumbers(absl::string_view text, double most, std::vector<double>* numbers) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  std::vector<double> values;
  for (const absl::string_view part : parts) {
    double value = 0;
    // Written so that NaN is refused, too.
    if (!absl::SimpleAtod(part, &value) || !(value >= 0 && value <= most)) {
      return BadNumbers(text, most);
    }
    values.push_back(value);
  }
  if (values.size() == 1) values = {values[0], values[0], 1};  // a range of one number
  if (values.size() != 3 || !(values[2] > 0) || values[1] < values[0]) {
    return BadNumbers(text, most);
  }
  // Includes the last number, even where steps of 0.1 miss it by rounding.
  const double steps = std::floor((values[1] - values[0]) / values[2] + 1e-9);
  if (steps + 1 > static_cast<double>(kMaxNumbers - numbers->size())) {
    return absl::InvalidArgumentError(absl::StrCat(Quoted(text), " makes more than ", kMaxNumbers,
                                                   " numbers; choose a larger step"));
  }
  for (int i = 0; i <= static_cast<int>(steps); ++i) {
    numbers->push_back(Tidy(values[0] + i * values[2]));
  }
  return absl::OkStatus();
}

// Returns the error that a request with this solver would have.
absl::Status CheckSolver(const std::string& name) {
  SolveRequest request;
  request.solver = name;
  for (const FieldViolation& violation : RequestViolations(request)) {
    if (violation.field == "solver") return absl::InvalidArgumentError(violation.problem);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ParseSolvers(const std::string& text) {
  std::vector<std::string> solvers;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::string name(absl::StripAsciiWhitespace(part));
    if (name.empty()) {
      return absl::InvalidArgumentError("has an empty name; write e.g. rotor,auto");
    }
    RETURN_IF_ERROR(CheckSolver(name));
    if (std::find(solvers.begin(), solvers.end(), name) == solvers.end()) solvers.push_back(name);
  }
  return solvers;
}

// Of kFree every solver that trades time for memory and that no other solver covers; of a preset
// the paper's, without those that the catalog lacks.
absl::StatusOr<std::vector<std::string>> DefaultSolvers(const Preset& preset) {
  std::vector<std::string> solvers;
  if (preset.experiment == Experiment::kFree) {
    for (const SolverInfo& info : AllSolvers()) {
      const bool trades = info.description.recomputes || info.description.offloads;
      if (trades && info.inside_of.empty()) solvers.emplace_back(info.description.name);
    }
    return solvers;
  }
  for (const absl::string_view name : absl::StrSplit(preset.solvers, ',')) {
    if (FindSolver(name) != nullptr) solvers.emplace_back(name);
  }
  if (!solvers.empty()) return solvers;
  return absl::UnimplementedError(absl::StrCat("this program has none of the paper's, ",
                                               preset.solvers,
                                               "; name some of those that stowage solvers lists"));
}

absl::StatusOr<std::vector<double>> ParseReductions(const std::string& text) {
  if (text.empty()) return std::vector<double>();
  ASSIGN_OR_RETURN(std::vector<double> reductions, ParseNumbers(text, kMaxReduction));
  if (reductions.front() >= 1) return reductions;
  return absl::InvalidArgumentError(absl::StrCat(
      Quoted(text), " has a number below 1; write e.g. 4 for a quarter of the memory"));
}

}  // namespace

Experiment ExperimentOf(absl::string_view figure) {
  return std::find_if(std::begin(kPresets), std::end(kPresets),
                      [figure](const Preset& preset) { return preset.figure == figure; })
      ->experiment;
}

std::string NameOf(Experiment experiment) { return PresetOf(experiment).name; }

absl::StatusOr<std::vector<double>> ParseNumbers(absl::string_view text, double most) {
  std::vector<double> numbers;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    RETURN_IF_ERROR(AddNumbers(part, most, &numbers));
  }
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

absl::StatusOr<Sweep> ReadSweep(const SweepFlags& flags) {
  const Preset& preset = PresetOf(ExperimentOf(flags.figure));
  Sweep sweep;
  ASSIGN_OR_RETURN(sweep.reductions, Prefixed("--reductions", ParseReductions(flags.reductions)));
  const std::string alphas = flags.alphas.empty() ? preset.alphas : flags.alphas;
  ASSIGN_OR_RETURN(sweep.alphas, Prefixed("--alphas", ParseNumbers(alphas, 1)));
  if (flags.alphas.empty() && !sweep.reductions.empty()) sweep.alphas.clear();
  const std::string bandwidths = flags.bandwidths.empty() ? preset.bandwidths : flags.bandwidths;
  ASSIGN_OR_RETURN(sweep.bandwidths,
                   Prefixed("--bandwidths", ParseNumbers(bandwidths, kMaxGigabytesPerSecond)));
  ASSIGN_OR_RETURN(sweep.solvers,
                   Prefixed("--solvers", flags.solvers.empty() ? DefaultSolvers(preset)
                                                               : ParseSolvers(flags.solvers)));
  return sweep;
}

}  // namespace stowage
