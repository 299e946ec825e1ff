#include "solver/export/export.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "solver/base/quote.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"
#include "solver/export/named_setting.h"
#include "solver/export/settings.h"
#include "solver/simulator/simulator.h"

namespace stowage {
namespace {

absl::StatusOr<ComparedSchedule> Compared(const ExportRequest& request, std::string name,
                                          Schedule schedule) {
  ASSIGN_OR_RETURN(const Simulation simulation,
                   Simulate(request.chain, request.platform, schedule));
  return ComparedSchedule{std::move(name), std::move(schedule), simulation.prediction,
                          simulation.feasible()};
}

// Whether a plan is faster, or as fast with a lower peak.
bool IsBetter(const Prediction& one, const Prediction& other) {
  const double seconds = one.makespan_seconds - other.makespan_seconds;
  if (std::abs(seconds) > kSummationError * other.makespan_seconds) return seconds < 0;
  return one.peak_memory_bytes < other.peak_memory_bytes;
}

// The solver of the catalog that finds the best plan of a class; empty: there is none.
absl::string_view SolverOf(PlanClass plans) {
  switch (plans) {
    case PlanClass::kFlat:
      return "flat";
    case PlanClass::kPerLayer:
      return "per_layer";
    case PlanClass::kUniform:
    case PlanClass::kUniformOrBlock:
      break;
  }
  return "";
}

Layers LayersOf(const ExportRequest& request) {
  return LayersOf(*request.target, request.chain, request.stages);
}

// What FindSetting() tries.
std::vector<Setting> SettingsOf(const Target& target, const Layers& layers) {
  std::vector<Setting> settings = AllSettings(layers.count());
  if (target.plans == PlanClass::kUniform) {
    std::erase_if(settings, [](const Setting& s) { return s.method == Method::kBlock; });
  }
  for (std::string& way : layers.CommonWays()) {
    settings.push_back({.method = Method::kWay, .way = std::move(way)});
  }
  return settings;
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
  const auto& [first, last, ends] = request.stages;
  if (first != 1 || last != request.chain.length()) {
    absl::StrAppend(&text, ", of the chain's stages ", first, " to ", last,
                    "; the others are saved");
  }
  return text;
}

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
  for (const std::string& line : result.comparison) remarks.push_back("  " + line);
  if (result.time_ran_out) remarks.emplace_back("Time ran out: a faster plan may exist.");
  int left_out = 0;
  for (int l = 1; l <= request.chain.length(); ++l) {
    const bool had = !request.chain.stage(l).save_options.empty();
    left_out += had && layers.chain().stage(l).save_options.empty();
  }
  if (left_out > 0) {
    remarks.push_back(
        absl::StrCat("Left out: the ways to save ", left_out, " of the stages in part."));
  }
  return remarks;
}

}  // namespace

std::optional<SolveRequest> PlanSolve(const ExportRequest& request, const SolveOptions& options) {
  const absl::string_view solver = SolverOf(request.target->plans);
  if (solver.empty()) return std::nullopt;
  SolveRequest solve{LayersOf(request).chain(), request.platform, std::string(solver), options};
  if (!request.target->offloads) {
    solve.platform.offload_bytes_per_second = 0;
    solve.platform.prefetch_bytes_per_second.reset();
  }
  return solve;
}

absl::StatusOr<TargetPlan> PlanFrom(const ExportRequest& request, const Answer& answer) {
  TargetPlan plan{.name = std::string(SolverOf(request.target->plans)),
                  .minimum_memory_bytes = answer.minimum_memory_bytes,
                  .time_ran_out = answer.guarantee == Guarantee::kTimeRanOut};
  if (answer.outcome == Outcome::kInfeasible) return plan;
  // A solve whose time ran out may answer with a schedule of another class.
  if (answer.solver != plan.name) {
    plan.time_ran_out = true;
    return plan;
  }
  const Layers layers = LayersOf(request);
  Schedule computations = answer.schedule;
  std::erase_if(computations.operations,
                [](const Operation& operation) { return !IsCompute(operation.kind); });
  ASSIGN_OR_RETURN(const std::vector<Piece> pieces, PiecesOf(layers.chain(), computations));
  plan.pieces = layers.FromStages(pieces);
  if (computations == answer.schedule) return plan;
  plan.schedule = answer.schedule;
  // What a layer leaves ends with the value of its last stage, which nobody else leaves.
  std::vector<bool> values(static_cast<size_t>(request.chain.length()) + 1);
  for (const Operation& operation : answer.schedule.operations) {
    if (operation.kind != OperationKind::kOffload) continue;
    values[static_cast<size_t>(operation.stage)] = true;
  }
  for (int layer = 1; layer <= layers.count(); ++layer) {
    plan.offloaded.push_back(values[static_cast<size_t>(layers.stages(layer).last)]);
  }
  return plan;
}

absl::StatusOr<TargetPlan> FindSetting(const ExportRequest& request, const std::stop_token& stop) {
  const Layers layers = LayersOf(request);
  TargetPlan best;
  Prediction of_best;
  for (const Setting& setting : SettingsOf(*request.target, layers)) {
    std::vector<Piece> pieces = PiecesOf(setting, layers);
    const std::vector<Piece> of_stages = layers.ToStages(pieces);
    if (ForbiddenStage(request.chain, of_stages).has_value()) continue;
    const absl::StatusOr<Simulation> simulation = Simulate(
        request.chain, request.platform, FlatSchedule(request.chain, of_stages), nullptr, stop);
    if (absl::IsCancelled(simulation.status())) {
      best.time_ran_out = true;
      break;
    }
    RETURN_IF_ERROR(simulation.status());
    const Prediction& prediction = simulation->prediction;
    best.minimum_memory_bytes =
        std::min(best.minimum_memory_bytes.value_or(prediction.peak_memory_bytes),
                 prediction.peak_memory_bytes);
    if (!simulation->feasible()) continue;
    if (best.pieces.has_value() && !IsBetter(prediction, of_best)) continue;
    best.pieces = std::move(pieces);
    best.name = SettingText(setting);
    of_best = prediction;
  }
  return best;
}

int64_t SettingsToTry(const ExportRequest& request) {
  return static_cast<int64_t>(SettingsOf(*request.target, LayersOf(request)).size());
}

ComparedSchedule FullSchedule(const Answer& answer) {
  return {absl::StrCat("full schedule (", answer.solver, ")"), answer.schedule, answer.prediction,
          /*fits=*/true};
}

absl::StatusOr<Export> ExportOf(const ExportRequest& request, const TargetPlan& plan,
                                const Answer& full) {
  const Layers layers = LayersOf(request);
  Export result;
  result.minimum_memory_bytes = plan.minimum_memory_bytes;
  result.time_ran_out = plan.time_ran_out;
  if (full.outcome != Outcome::kInfeasible) result.full = FullSchedule(full);
  RETURN_IF_ERROR(SetUsual(request, &result));
  if (plan.pieces.has_value()) {
    Schedule schedule = plan.offloaded.empty()
                            ? FlatSchedule(request.chain, layers.ToStages(*plan.pieces))
                            : plan.schedule;
    ASSIGN_OR_RETURN(
        result.exported,
        Compared(request, absl::StrCat("this export (", plan.name, ")"), std::move(schedule)));
  }
  result.comparison = ComparisonLines(*request.target, result);
  if (!plan.pieces.has_value()) return result;
  const ExportedPlan written{&layers, *plan.pieces, Remarks(request, layers, result),
                             plan.offloaded};
  ASSIGN_OR_RETURN(result.text, request.target->write(written));
  return result;
}

}  // namespace stowage
