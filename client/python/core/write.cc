#include "client/python/core/write.h"

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace stowage {
namespace {

namespace py = pybind11;

py::str Text(absl::string_view text) { return {text.data(), text.size()}; }

template <typename Value, typename Convert>
py::list ToList(const std::vector<Value>& values, Convert convert) {
  py::list list(values.size());
  size_t i = 0;
  for (const Value& value : values) list[i++] = convert(value);
  return list;
}

const char* HoldingName(Holding::Kind kind) {
  switch (kind) {
    case Holding::Kind::kOutput:
      return "OUTPUT";
    case Holding::Kind::kSaved:
      return "SAVED";
    case Holding::Kind::kGradient:
      return "GRADIENT";
    case Holding::Kind::kOverhead:
      return "OVERHEAD";
  }
  return "";
}

const char* SweepName(StageFate::FirstSweep sweep) {
  switch (sweep) {
    case StageFate::FirstSweep::kSaved:
      return "KEEPS_SAVED";
    case StageFate::FirstSweep::kOutput:
      return "KEEPS_OUTPUT";
    case StageFate::FirstSweep::kNothing:
      return "KEEPS_NOTHING";
  }
  return "";
}

py::dict ToDict(const Prediction& prediction) {
  py::dict to;
  to["makespan_seconds"] = prediction.makespan_seconds;
  to["compute_seconds"] = prediction.compute_seconds;
  to["recompute_seconds"] = prediction.recompute_seconds;
  to["idle_seconds"] = prediction.idle_seconds;
  to["peak_memory_bytes"] = prediction.peak_memory_bytes;
  to["peak_host_bytes"] = prediction.peak_host_bytes;
  to["overhead"] = prediction.overhead;
  to["lower_bound_seconds"] = prediction.lower_bound_seconds;
  to["gap"] = prediction.gap;
  return to;
}

py::dict ToDict(const Platform& platform) {
  py::dict to;
  to["name"] = platform.name;
  to["memory_bytes"] = platform.memory_bytes;
  to["offload_bytes_per_second"] = platform.offload_bytes_per_second;
  if (platform.prefetch_bytes_per_second.has_value()) {
    to["prefetch_bytes_per_second"] = *platform.prefetch_bytes_per_second;
  }
  to["transfer_latency_seconds"] = platform.transfer_latency_seconds;
  to["half_duplex"] = platform.half_duplex;
  to["host_memory_bytes"] = platform.host_memory_bytes;
  return to;
}

py::dict ToDict(const Origin& origin, const std::string& solver) {
  py::dict to;
  to["solver"] = solver;
  to["queue_seconds"] = origin.queue_seconds;
  to["solve_seconds"] = origin.solve_seconds;
  to["source"] = Text(SourceName(origin.source));
  to["fingerprint"] = origin.fingerprint;
  return to;
}

py::dict ToDict(const Holding& holding) {
  py::dict to;
  to["kind"] = HoldingName(holding.kind);
  to["stage"] = holding.stage;
  to["bytes"] = holding.bytes;
  return to;
}

py::dict ToDict(const Peak& peak) {
  py::dict to;
  to["operation"] = peak.operation;
  to["memory_bytes"] = peak.memory_bytes;
  to["holdings"] = ToList(peak.holdings, [](const Holding& holding) { return ToDict(holding); });
  to["other_bytes"] = peak.other_bytes;
  return to;
}

py::dict ToDict(const Idle& idle) {
  py::dict to;
  to["operation"] = idle.operation;
  to["seconds"] = idle.seconds;
  if (idle.waits_for.has_value()) to["waits_for"] = *idle.waits_for;
  return to;
}

py::dict ToDict(const StageFate& fate) {
  py::dict to;
  to["stage"] = fate.stage;
  to["first_sweep"] = SweepName(fate.first_sweep);
  to["recomputed"] = fate.recomputed;
  to["offloaded"] = fate.offloaded;
  if (fate.mode == Mode::kGraph) to["mode"] = "GRAPH";
  if (fate.fused_into != 0) to["fused_into"] = fate.fused_into;
  if (fate.save_option != 0) to["save_option"] = fate.save_option;
  return to;
}

py::dict ToDict(const Explanation& explanation) {
  py::dict to;
  to["peaks"] = ToList(explanation.peaks, [](const Peak& peak) { return ToDict(peak); });
  to["idles"] = ToList(explanation.idles, [](const Idle& idle) { return ToDict(idle); });
  to["stages"] = ToList(explanation.stages, [](const StageFate& fate) { return ToDict(fate); });
  to["notes"] = ToList(explanation.notes, Text);
  return to;
}

py::dict ToDict(const Operation& operation) {
  py::dict to;
  to["kind"] = Text(KindName(operation.kind));
  to["stage"] = operation.stage;
  if (operation.mode == Mode::kGraph) to["mode"] = "GRAPH";
  if (operation.first_stage != 0) to["first_stage"] = operation.first_stage;
  if (operation.save_option != 0) to["save_option"] = operation.save_option;
  return to;
}

py::dict ToDict(const Schedule& schedule) {
  py::dict to;
  to["operations"] =
      ToList(schedule.operations, [](const Operation& operation) { return ToDict(operation); });
  return to;
}

py::dict ToDict(const ComparedSchedule& compared) {
  py::dict to;
  to["name"] = compared.name;
  to["schedule"] = ToDict(compared.schedule);
  to["prediction"] = ToDict(compared.prediction);
  to["fits"] = compared.fits;
  return to;
}

py::dict ToDict(const TimelineEntry& entry) {
  py::dict to;
  to["start_seconds"] = entry.start_seconds;
  to["end_seconds"] = entry.end_seconds;
  to["memory_bytes"] = entry.memory_bytes;
  to["host_bytes"] = entry.host_bytes;
  return to;
}

py::dict ToDict(const RoundingLoss& loss) {
  py::dict to;
  to["finer_slots"] = loss.finer_slots;
  to["finer_makespan_seconds"] = loss.finer_seconds;
  to["loss"] = loss.loss;
  return to;
}

py::dict ToDict(const ChainWarning& warning) {
  py::dict to;
  to["field"] = warning.field;
  to["reason"] = warning.reason;
  to["problem"] = warning.problem;
  return to;
}

py::dict ToDict(const FrontierPoint& point) {
  py::dict to;
  to["memory_bytes"] = point.memory_bytes;
  to["outcome"] = Text(OutcomeName(point.outcome));
  to["limit"] = GuaranteeName(point.guarantee);
  to["solver"] = point.solver;
  if (point.outcome != Outcome::kInfeasible) to["prediction"] = ToDict(point.prediction);
  return to;
}

}  // namespace

const char* GuaranteeName(Guarantee guarantee) {
  switch (guarantee) {
    case Guarantee::kOptimal:
      return "LIMIT_NONE";
    case Guarantee::kHeuristic:
      return "HEURISTIC";
    case Guarantee::kUpToRounding:
      return "ROUNDING";
    case Guarantee::kTimeRanOut:
      return "TIME";
    case Guarantee::kBestOfClass:
      return "CLASS";
  }
  return "";
}

// As proto/convert/answer_message.cc: an infeasible answer has no schedule to describe.
py::dict ToDict(const SolveResult& result, const Platform& platform) {
  const Answer& answer = *result.answer;
  py::dict to;
  to["outcome"] = Text(OutcomeName(answer.outcome));
  to["limit"] = GuaranteeName(answer.guarantee);
  to["platform"] = ToDict(platform);
  if (answer.minimum_memory_bytes.has_value()) {
    to["minimum_memory_bytes"] = *answer.minimum_memory_bytes;
  }
  to["memory_floor_bytes"] = answer.memory_floor_bytes;
  to["memory_floor_operation"] = ToDict(answer.memory_floor_operation);
  to["origin"] = ToDict(result.origin, answer.solver);
  to["warnings"] =
      ToList(result.warnings, [](const ChainWarning& warning) { return ToDict(warning); });
  if (answer.outcome == Outcome::kInfeasible) return to;
  to["schedule"] = ToDict(answer.schedule);
  to["prediction"] = ToDict(answer.prediction);
  to["explanation"] = ToDict(answer.explanation);
  if (answer.rounding_loss.has_value()) to["rounding_loss"] = ToDict(*answer.rounding_loss);
  return to;
}

py::dict ToDict(const FrontierResult& result) {
  const Frontier& frontier = result.frontier;
  py::dict to;
  to["points"] = ToList(frontier.points, [](const FrontierPoint& point) { return ToDict(point); });
  if (frontier.knee.has_value()) to["knee"] = *frontier.knee;
  if (frontier.minimum_memory_bytes.has_value()) {
    to["minimum_memory_bytes"] = *frontier.minimum_memory_bytes;
  }
  to["memory_floor_bytes"] = frontier.memory_floor_bytes;
  to["most_memory_bytes"] = frontier.most_memory_bytes;
  to["solves"] = frontier.solves;
  to["origin"] = ToDict(result.origin, frontier.solver);
  to["notes"] = ToList(frontier.notes, Text);
  return to;
}

py::dict ToDict(const ExplainedSimulation& result) {
  py::dict to;
  to["feasible"] = result.simulation.feasible();
  if (result.simulation.first_over_limit.has_value()) {
    to["first_over_limit"] = *result.simulation.first_over_limit;
  }
  to["prediction"] = ToDict(result.simulation.prediction);
  to["timeline"] =
      ToList(result.timeline, [](const TimelineEntry& entry) { return ToDict(entry); });
  to["explanation"] = ToDict(result.explanation);
  return to;
}

py::dict ToDict(const SolverDescription& description) {
  py::dict to;
  to["name"] = description.name;
  to["summary"] = description.summary;
  to["guarantee"] = description.guarantee;
  to["complexity"] = description.complexity;
  to["version"] = description.version;
  to["recomputes"] = description.recomputes;
  to["offloads"] = description.offloads;
  py::list options;
  for (const SolveOption option : description.options) options.append(SolveOptionName(option));
  to["options"] = options;
  to["mixes_modes"] = description.mixes_modes;
  return to;
}

py::dict ToDict(const Export& exported) {
  py::dict to;
  if (exported.full.has_value()) to["full"] = ToDict(*exported.full);
  if (exported.exported.has_value()) to["exported"] = ToDict(*exported.exported);
  if (exported.usual.has_value()) to["usual"] = ToDict(*exported.usual);
  if (exported.minimum_memory_bytes.has_value()) {
    to["minimum_memory_bytes"] = *exported.minimum_memory_bytes;
  }
  to["text"] = exported.text;
  return to;
}

py::dict ToDict(const Target& target) {
  py::dict to;
  to["name"] = Text(target.name);
  to["framework"] = Text(target.framework);
  to["setting"] = Text(target.setting);
  to["expresses"] = Text(target.expresses);
  to["loses"] = Text(target.loses);
  to["usual"] = Text(target.usual);
  to["tried"] = Text(target.tried);
  return to;
}

}  // namespace stowage
