#include "proto/convert/solve_message.h"

#include <cstdint>
#include <string>

#include "proto/convert/chain_message.h"
#include "proto/convert/schedule_message.h"

namespace stowage {
namespace {

v1::Holding::Kind ToMessage(Holding::Kind kind) {
  switch (kind) {
    case Holding::Kind::kOutput:
      return v1::Holding::OUTPUT;
    case Holding::Kind::kSaved:
      return v1::Holding::SAVED;
    case Holding::Kind::kGradient:
      return v1::Holding::GRADIENT;
    case Holding::Kind::kOverhead:
      return v1::Holding::OVERHEAD;
  }
  return v1::Holding::KIND_UNSPECIFIED;
}

v1::StageFate::FirstSweep ToMessage(StageFate::FirstSweep sweep) {
  switch (sweep) {
    case StageFate::FirstSweep::kSaved:
      return v1::StageFate::KEEPS_SAVED;
    case StageFate::FirstSweep::kOutput:
      return v1::StageFate::KEEPS_OUTPUT;
    case StageFate::FirstSweep::kNothing:
      return v1::StageFate::KEEPS_NOTHING;
  }
  return v1::StageFate::FIRST_SWEEP_UNSPECIFIED;
}

v1::Prediction ToMessage(const Prediction& prediction) {
  v1::Prediction message;
  message.set_makespan_seconds(prediction.makespan_seconds);
  message.set_compute_seconds(prediction.compute_seconds);
  message.set_recompute_seconds(prediction.recompute_seconds);
  message.set_idle_seconds(prediction.idle_seconds);
  message.set_peak_memory_bytes(prediction.peak_memory_bytes);
  message.set_peak_host_bytes(prediction.peak_host_bytes);
  message.set_overhead(prediction.overhead);
  message.set_lower_bound_seconds(prediction.lower_bound_seconds);
  message.set_gap(prediction.gap);
  return message;
}

// Where the message lies, so that nothing is copied to an arena.
void Fill(const Explanation& explanation, v1::Explanation* to) {
  v1::Explanation& message = *to;
  message.mutable_stages()->Reserve(static_cast<int>(explanation.stages.size()));
  for (const Peak& peak : explanation.peaks) {
    v1::Peak& out = *message.add_peaks();
    out.set_operation(static_cast<int64_t>(peak.operation));
    out.set_memory_bytes(peak.memory_bytes);
    out.set_other_bytes(peak.other_bytes);
    for (const Holding& holding : peak.holdings) {
      v1::Holding& held = *out.add_holdings();
      held.set_kind(ToMessage(holding.kind));
      held.set_stage(holding.stage);
      held.set_bytes(holding.bytes);
    }
  }
  for (const Idle& idle : explanation.idles) {
    v1::Idle& out = *message.add_idles();
    out.set_operation(static_cast<int64_t>(idle.operation));
    out.set_seconds(idle.seconds);
    if (idle.waits_for.has_value()) out.set_waits_for(static_cast<int64_t>(*idle.waits_for));
  }
  for (const std::string& note : explanation.notes) message.add_notes(note);
  for (const StageFate& fate : explanation.stages) {
    v1::StageFate& out = *message.add_stages();
    out.set_stage(fate.stage);
    out.set_first_sweep(ToMessage(fate.first_sweep));
    out.set_recomputed(fate.recomputed);
    out.set_offloaded(fate.offloaded);
    if (fate.mode == Mode::kGraph) out.set_mode(v1::Operation::GRAPH);
    if (fate.fused_into != 0) out.set_fused_into(fate.fused_into);
  }
}

SolveOptions FromMessage(const v1::SolveOptions& message) {
  SolveOptions options;
  options.memory_slots = message.memory_slots();
  options.segments = message.segments();
  options.time_precision =
      message.has_time_precision() ? message.time_precision() : kDefaultTimePrecision;
  options.report_rounding_loss = message.report_rounding_loss();
  options.use_cache = !message.has_use_cache() || message.use_cache();
  options.time_budget_seconds = message.time_budget_seconds();
  return options;
}

v1::Origin OriginOf(const std::string& solver, const AnswerTiming& timing) {
  v1::Origin origin;
  origin.set_solver(solver);
  origin.set_source(timing.source);
  origin.set_fingerprint(timing.fingerprint);
  origin.set_queue_seconds(timing.queue_seconds);
  origin.set_solve_seconds(timing.solve_seconds);
  return origin;
}

}  // namespace

v1::Outcome ToMessage(Outcome outcome) {
  switch (outcome) {
    case Outcome::kOptimal:
      return v1::OPTIMAL;
    case Outcome::kFeasible:
      return v1::FEASIBLE;
    case Outcome::kInfeasible:
      return v1::INFEASIBLE;
  }
  return v1::OUTCOME_UNSPECIFIED;
}

v1::Limit ToMessage(Limit limit) {
  switch (limit) {
    case Limit::kNone:
      return v1::LIMIT_NONE;
    case Limit::kHeuristic:
      return v1::HEURISTIC;
    case Limit::kRounding:
      return v1::ROUNDING;
    case Limit::kTime:
      return v1::TIME;
  }
  return v1::LIMIT_NONE;
}

SolveRequest FromMessage(const v1::SolveRequest& message, std::vector<FieldViolation>* violations) {
  *violations = MissingFields(message.platform());
  SolveRequest request;
  request.chain = FromMessage(message.chain());
  request.platform = FromMessage(message.platform());
  request.solver = message.solver();
  request.options = FromMessage(message.options());
  return request;
}

FrontierRequest FromMessage(const v1::FrontierRequest& message) {
  FrontierRequest request;
  request.chain = FromMessage(message.chain());
  request.platform = FromMessage(message.platform());
  request.solver = message.solver();
  request.options = FromMessage(message.options());
  request.points = message.points();
  request.budgets.assign(message.memory_bytes().begin(), message.memory_bytes().end());
  return request;
}

void Fill(const Answer& answer, const AnswerTiming& timing, v1::SolveResponse* to) {
  v1::SolveResponse& message = *to;
  message.set_outcome(ToMessage(answer.outcome));
  message.set_limit(ToMessage(answer.limit));
  *message.mutable_platform() = ToMessage(answer.platform);
  if (answer.minimum_memory_bytes.has_value()) {
    message.set_minimum_memory_bytes(*answer.minimum_memory_bytes);
  }
  message.set_memory_floor_bytes(answer.memory_floor_bytes);
  *message.mutable_memory_floor_operation() = ToMessage(answer.memory_floor_operation);
  *message.mutable_origin() = OriginOf(answer.solver, timing);
  if (answer.outcome == Outcome::kInfeasible) return;
  Fill(answer.schedule, message.mutable_schedule());
  *message.mutable_prediction() = ToMessage(answer.prediction);
  Fill(answer.explanation, message.mutable_explanation());
  if (answer.rounding_loss.has_value()) {
    v1::RoundingLoss& loss = *message.mutable_rounding_loss();
    loss.set_finer_slots(answer.rounding_loss->finer_slots);
    loss.set_finer_makespan_seconds(answer.rounding_loss->finer_seconds);
    loss.set_loss(answer.rounding_loss->loss);
  }
}

v1::SolveResponse ToMessage(const Answer& answer, const AnswerTiming& timing) {
  v1::SolveResponse message;
  Fill(answer, timing, &message);
  return message;
}

v1::FrontierResponse ToMessage(const Frontier& frontier, const AnswerTiming& timing) {
  v1::FrontierResponse message;
  for (const FrontierPoint& point : frontier.points) {
    v1::FrontierPoint& out = *message.add_points();
    out.set_memory_bytes(point.memory_bytes);
    out.set_outcome(ToMessage(point.outcome));
    out.set_limit(ToMessage(point.limit));
    out.set_solver(point.solver);
    if (point.outcome != Outcome::kInfeasible) {
      *out.mutable_prediction() = ToMessage(point.prediction);
    }
  }
  if (frontier.knee.has_value()) message.set_knee(static_cast<int>(*frontier.knee));
  if (frontier.minimum_memory_bytes.has_value()) {
    message.set_minimum_memory_bytes(*frontier.minimum_memory_bytes);
  }
  message.set_memory_floor_bytes(frontier.memory_floor_bytes);
  message.set_most_memory_bytes(frontier.most_memory_bytes);
  message.set_solves(frontier.solves);
  *message.mutable_origin() = OriginOf(frontier.solver, timing);
  for (const std::string& note : frontier.notes) message.add_notes(note);
  return message;
}

v1::SimulateResponse ToMessage(const Simulation& simulation,
                               const std::vector<TimelineEntry>& timeline,
                               const Explanation& explanation) {
  v1::SimulateResponse message;
  message.set_feasible(simulation.feasible());
  if (simulation.first_over_limit.has_value()) {
    message.set_first_over_limit(static_cast<int64_t>(*simulation.first_over_limit));
  }
  *message.mutable_prediction() = ToMessage(simulation.prediction);
  message.mutable_timeline()->Reserve(static_cast<int>(timeline.size()));
  for (const TimelineEntry& entry : timeline) {
    v1::TimelineEntry& out = *message.add_timeline();
    out.set_start_seconds(entry.start_seconds);
    out.set_end_seconds(entry.end_seconds);
    out.set_memory_bytes(entry.memory_bytes);
    out.set_host_bytes(entry.host_bytes);
  }
  Fill(explanation, message.mutable_explanation());
  return message;
}

v1::SolverDescription ToMessage(const SolverDescription& description) {
  v1::SolverDescription message;
  message.set_name(description.name);
  message.set_summary(description.summary);
  message.set_guarantee(description.guarantee);
  message.set_complexity(description.complexity);
  message.set_version(description.version);
  message.set_recomputes(description.recomputes);
  message.set_offloads(description.offloads);
  message.set_mixes_modes(description.mixes_modes);
  for (const char* option : description.options) message.add_options(option);
  return message;
}

}  // namespace stowage
