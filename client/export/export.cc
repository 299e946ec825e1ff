#include "client/export/export.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/service/results.h"
#include "solver/base/quote.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"
#include "solver/export/named_setting.h"
#include "solver/export/settings.h"
#include "solver/model/request.h"
#include "solver/simulator/simulator.h"

namespace stowage {
namespace {

// The best plan of the target's class, if one fits.
struct FoundPlan {
  std::optional<std::vector<Piece>> pieces;  // of the layers
  std::string name;                          // "flat", "uniform, 4 layers"
  std::optional<int64_t> minimum_memory_bytes;
};

absl::StatusOr<ComparedSchedule> Compared(const ExportRequest& request, std::string name,
                                          Schedule schedule) {
  ASSIGN_OR_RETURN(const Simulation simulation,
                   Simulate(request.chain, request.platform, schedule));
  return ComparedSchedule{std::move(name), std::move(schedule), simulation.prediction,
                          simulation.feasible()};
}

// By a solver of the catalog.
absl::StatusOr<FoundPlan> Solved(const ExportRequest& request, const Layers& layers,
                                 absl::string_view solver, const LocalOptions& options) {
  SolveRequest solve{layers.chain(), request.platform, std::string(solver), {}};
  solve.platform.offload_bytes_per_second = 0;  // no target says what is offloaded
  solve.platform.prefetch_bytes_per_second.reset();
  ASSIGN_OR_RETURN(const SolveResult result, LocalScheduler(options).Solve(solve, {}));
  const Answer& answer = *result.answer;
  FoundPlan found;
  found.name = std::string(solver);
  found.minimum_memory_bytes = answer.minimum_memory_bytes;
  if (answer.outcome == Outcome::kInfeasible) return found;
  ASSIGN_OR_RETURN(const std::vector<Piece> pieces, PiecesOf(layers.chain(), answer.schedule));
  found.pieces = layers.FromStages(pieces);
  return found;
}

// Whether a plan is faster, or as fast with a lower peak.
bool IsBetter(const Prediction& one, const Prediction& other) {
  const double seconds = one.makespan_seconds - other.makespan_seconds;
  if (std::abs(seconds) > kSummationError * other.makespan_seconds) return seconds < 0;
  return one.peak_memory_bytes < other.peak_memory_bytes;
}

// By trying all settings, each simulated on the chain itself; of equally fast ones the one with the
// lowest peak.
absl::StatusOr<FoundPlan> Tried(const ExportRequest& request, const Layers& layers,
                                const LocalOptions& options) {
  FoundPlan best;
  Prediction of_best;
  for (const Setting& setting : AllSettings(layers.count())) {
    if (setting.method == Method::kBlock && request.target->plans == PlanClass::kUniform) break;
    std::vector<Piece> pieces = PiecesOf(setting, layers.count());
    const std::vector<Piece> of_stages = layers.ToStages(pieces);
    if (ForbiddenStage(request.chain, of_stages).has_value()) continue;
    ASSIGN_OR_RETURN(const Simulation simulation,
                     Simulate(request.chain, request.platform,
                              FlatSchedule(request.chain, of_stages), nullptr, options.stop));
    const Prediction& prediction = simulation.prediction;
    best.minimum_memory_bytes =
        std::min(best.minimum_memory_bytes.value_or(prediction.peak_memory_bytes),
                 prediction.peak_memory_bytes);
    if (!simulation.feasible()) continue;
    if (best.pieces.has_value() && !IsBetter(prediction, of_best)) continue;
    best.pieces = std::move(pieces);
    best.name = SettingText(setting);
    of_best = prediction;
  }
  return best;
}

absl::StatusOr<FoundPlan> Find(const ExportRequest& request, const Layers& layers,
                               const LocalOptions& options) {
  switch (request.target->plans) {
    case PlanClass::kFlat:
      return Solved(request, layers, "flat", options);
    case PlanClass::kPerLayer:
      return Solved(request, layers, "per_layer", options);
    case PlanClass::kUniform:
    case PlanClass::kUniformOrBlock:
      break;
  }
  return Tried(request, layers, options);
}

absl::StatusOr<std::optional<ComparedSchedule>> Full(const ExportRequest& request,
                                                     const LocalOptions& options) {
  const SolveRequest solve{request.chain, request.platform, "auto", {}};
  ASSIGN_OR_RETURN(const SolveResult result, LocalScheduler(options).Solve(solve, {}));
  const Answer& answer = *result.answer;
  if (answer.outcome == Outcome::kInfeasible) return std::nullopt;
  return ComparedSchedule{absl::StrCat("full schedule (", answer.solver, ")"), answer.schedule,
                          answer.prediction, /*fits=*/true};
}

std::string UsualName(const Target& target) { return absl::StrCat("usual: ", target.usual); }

// Sets the target's default.
absl::Status SetUsual(const ExportRequest& request, Export* result) {
  const NamedSetting every_layer{request.target, {Method::kUniform, 1}};
  result->forbidden_stage = ForbiddenStage(every_layer, request.chain, request.stages);
  if (result->forbidden_stage.has_value()) return absl::OkStatus();
  ASSIGN_OR_RETURN(result->usual, Compared(request, UsualName(*request.target),
                                           ScheduleOf(every_layer, request.chain, request.stages)));
  return absl::OkStatus();
}

std::string ComparisonLine(const ComparedSchedule& compared, int width) {
  return absl::StrFormat(
      "%-*s  %s  %+.1f %%  peak %s%s", width, compared.name,
      FormatSeconds(compared.prediction.makespan_seconds), 100 * compared.prediction.overhead,
      FormatBytes(compared.prediction.peak_memory_bytes), compared.fits ? "" : ", over the budget");
}

std::string LayersText(const ExportRequest& request, const Layers& layers) {
  const bool of_stages = request.target->unit == LayerUnit::kStage;
  std::string text = absl::StrCat(layers.count(), of_stages ? " stages" : " layers");
  if (request.stages != StageSpan{1, request.chain.length()}) {
    absl::StrAppend(&text, ", of the chain's stages ", request.stages.first, " to ",
                    request.stages.last, "; the others are saved");
  }
  return text;
}

std::vector<std::string> Remarks(const ExportRequest& request, const Layers& layers,
                                 const Export& result) {
  const Target& target = *request.target;
  const std::string chain = request.chain.name.empty() ? "" : request.chain.name + ": ";
  std::vector<std::string> remarks = {
      absl::StrCat("By stowage export --for ", target.name, ", for ", target.framework, "."),
      absl::StrCat("Tried: ", target.tried, "."),
      absl::StrCat(Printable(chain), LayersText(request, layers), "."),
      absl::StrCat("Budget for activations: ", FormatBytes(request.platform.memory_bytes), "."),
      "Simulated time and its excess over storing everything, and peak of activations:"};
  for (const std::string& line : ComparisonLines(target, result)) remarks.push_back("  " + line);
  return remarks;
}

}  // namespace

std::vector<std::string> ComparisonLines(const Target& target, const Export& result) {
  const std::string usual = UsualName(target);
  size_t width = usual.size();
  for (const auto* one : {&result.full, &result.exported}) {
    if (one->has_value()) width = std::max(width, (*one)->name.size());
  }
  std::vector<std::string> lines;
  for (const auto* one : {&result.full, &result.exported, &result.usual}) {
    if (one->has_value()) lines.push_back(ComparisonLine(**one, static_cast<int>(width)));
  }
  if (result.forbidden_stage.has_value()) {
    lines.push_back(absl::StrFormat("%-*s  %s", static_cast<int>(width), usual,
                                    ForbiddenText(*result.forbidden_stage)));
  }
  return lines;
}

absl::StatusOr<Export> MakeExport(const ExportRequest& request, const LocalOptions& options) {
  const Layers layers(request.chain, request.stages, request.target->unit);
  Export result;
  ASSIGN_OR_RETURN(result.full, Full(request, options));
  RETURN_IF_ERROR(SetUsual(request, &result));
  ASSIGN_OR_RETURN(FoundPlan found, Find(request, layers, options));
  result.minimum_memory_bytes = found.minimum_memory_bytes;
  if (!found.pieces.has_value()) return result;
  ASSIGN_OR_RETURN(result.exported,
                   Compared(request, absl::StrCat("this export (", found.name, ")"),
                            FlatSchedule(request.chain, layers.ToStages(*found.pieces))));
  const ExportedPlan plan{&layers, *std::move(found.pieces), Remarks(request, layers, result)};
  ASSIGN_OR_RETURN(result.text, request.target->write(plan));
  return result;
}

}  // namespace stowage
