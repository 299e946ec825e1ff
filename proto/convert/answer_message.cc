#include "proto/convert/answer_message.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "proto/convert/chain_message.h"
#include "proto/convert/enumerators.h"
#include "proto/convert/explanation_message.h"
#include "proto/convert/schedule_message.h"
#include "solver/base/status_macros.h"

namespace stowage {

void Fill(const Prediction& prediction, v1::Prediction* message) {
  message->set_makespan_seconds(prediction.makespan_seconds);
  message->set_compute_seconds(prediction.compute_seconds);
  message->set_recompute_seconds(prediction.recompute_seconds);
  message->set_idle_seconds(prediction.idle_seconds);
  message->set_peak_memory_bytes(prediction.peak_memory_bytes);
  message->set_peak_host_bytes(prediction.peak_host_bytes);
  message->set_overhead(prediction.overhead);
  message->set_lower_bound_seconds(prediction.lower_bound_seconds);
  message->set_gap(prediction.gap);
}

namespace {

constexpr Enumerators<Outcome, v1::Outcome> kOutcomes[] = {
    {Outcome::kOptimal, v1::OPTIMAL},
    {Outcome::kFeasible, v1::FEASIBLE},
    {Outcome::kInfeasible, v1::INFEASIBLE},
};
constexpr Enumerators<Guarantee, v1::Limit> kGuarantees[] = {
    {Guarantee::kOptimal, v1::LIMIT_NONE},    {Guarantee::kHeuristic, v1::HEURISTIC},
    {Guarantee::kUpToRounding, v1::ROUNDING}, {Guarantee::kTimeRanOut, v1::TIME},
    {Guarantee::kBestOfClass, v1::CLASS},
};
constexpr Enumerators<Origin::Source, v1::Origin::Source> kSources[] = {
    {Origin::Source::kSolved, v1::Origin::SOLVED},
    {Origin::Source::kMemoryCache, v1::Origin::MEMORY_CACHE},
    {Origin::Source::kDiskCache, v1::Origin::DISK_CACHE},
    {Origin::Source::kSharedCache, v1::Origin::SHARED_CACHE},
    {Origin::Source::kCoalesced, v1::Origin::COALESCED},
};
Prediction FromMessage(const v1::Prediction& message) {
  Prediction prediction;
  prediction.makespan_seconds = message.makespan_seconds();
  prediction.compute_seconds = message.compute_seconds();
  prediction.recompute_seconds = message.recompute_seconds();
  prediction.idle_seconds = message.idle_seconds();
  prediction.peak_memory_bytes = message.peak_memory_bytes();
  prediction.peak_host_bytes = message.peak_host_bytes();
  prediction.overhead = message.overhead();
  prediction.lower_bound_seconds = message.lower_bound_seconds();
  prediction.gap = message.gap();
  return prediction;
}

absl::StatusOr<Origin> FromMessage(const v1::Origin& message) {
  Origin origin;
  RETURN_IF_ERROR(FromEnumerator(kSources, message.source(), "origin.source", &origin.source));
  origin.queue_seconds = message.queue_seconds();
  origin.solve_seconds = message.solve_seconds();
  origin.fingerprint = message.fingerprint();
  return origin;
}

// Sets `schedule`; DATA_LOSS for an operation of a kind that this version does not have, or for too
// many operations. A job executes the schedule, so no operation may be skipped.
absl::Status FromMessage(const v1::Schedule& message, Schedule* schedule) {
  std::vector<FieldViolation> violations;
  *schedule = stowage::FromMessage(message, &violations);
  for (const FieldViolation& violation : Violations(*schedule)) violations.push_back(violation);
  if (violations.empty()) return absl::OkStatus();
  return absl::DataLossError(ViolationsStatus(violations).message());
}

// The operation converts as part of a schedule; a default one where the message has none.
Operation FloorOperationOf(const v1::SolveResponse& message) {
  v1::Schedule one;
  *one.add_operations() = message.memory_floor_operation();
  std::vector<FieldViolation> ignored;  // unset where the answer comes from a store
  const Schedule schedule = stowage::FromMessage(one, &ignored);
  return schedule.operations.empty() ? Operation{} : schedule.operations.front();
}

void Fill(const ComparedSchedule& compared, v1::ComparedSchedule* message) {
  message->set_name(compared.name);
  Fill(compared.schedule, message->mutable_schedule());
  Fill(compared.prediction, message->mutable_prediction());
  message->set_fits(compared.fits);
}

absl::StatusOr<ComparedSchedule> FromMessage(const v1::ComparedSchedule& message) {
  ComparedSchedule compared{.name = message.name(),
                            .prediction = FromMessage(message.prediction()),
                            .fits = message.fits()};
  RETURN_IF_ERROR(FromMessage(message.schedule(), &compared.schedule));
  return compared;
}

absl::StatusOr<Export> FromMessage(const v1::ExportedPlan& message, const Answer& answer) {
  Export exported{.time_ran_out = message.time_ran_out(),
                  .comparison = {message.comparison().begin(), message.comparison().end()},
                  .text = message.text()};
  if (answer.outcome != Outcome::kInfeasible) exported.full = FullSchedule(answer);
  if (message.has_plan()) {
    ASSIGN_OR_RETURN(exported.exported, FromMessage(message.plan()));
  }
  if (message.has_usual()) {
    ASSIGN_OR_RETURN(exported.usual, FromMessage(message.usual()));
  }
  if (message.has_forbidden_stage()) exported.forbidden_stage = message.forbidden_stage();
  if (message.has_minimum_memory_bytes()) {
    exported.minimum_memory_bytes = message.minimum_memory_bytes();
  }
  return exported;
}

absl::StatusOr<FrontierPoint> FromMessage(const v1::FrontierPoint& message) {
  FrontierPoint point;
  point.memory_bytes = message.memory_bytes();
  RETURN_IF_ERROR(FromEnumerator(kOutcomes, message.outcome(), "points.outcome", &point.outcome));
  RETURN_IF_ERROR(FromEnumerator(kGuarantees, message.limit(), "points.limit", &point.guarantee));
  point.solver = message.solver();
  point.prediction = FromMessage(message.prediction());
  return point;
}

}  // namespace

void Fill(const std::string& solver, const Origin& origin, v1::Origin* message) {
  message->set_solver(solver);
  message->set_source(ToEnumerator(kSources, origin.source));
  message->set_fingerprint(origin.fingerprint);
  message->set_queue_seconds(origin.queue_seconds);
  message->set_solve_seconds(origin.solve_seconds);
}

void Fill(const Answer& answer, const Origin& origin, v1::SolveResponse* message) {
  message->set_outcome(ToEnumerator(kOutcomes, answer.outcome));
  message->set_limit(ToEnumerator(kGuarantees, answer.guarantee));
  if (answer.minimum_memory_bytes.has_value()) {
    message->set_minimum_memory_bytes(*answer.minimum_memory_bytes);
  }
  message->set_memory_floor_bytes(answer.memory_floor_bytes);
  *message->mutable_memory_floor_operation() = ToMessage(answer.memory_floor_operation);
  Fill(answer.solver, origin, message->mutable_origin());
  if (answer.outcome == Outcome::kInfeasible) return;  // there is no schedule to describe
  Fill(answer.schedule, message->mutable_schedule());
  Fill(answer.prediction, message->mutable_prediction());
  Fill(answer.explanation, message->mutable_explanation());
  if (answer.rounding_loss.has_value()) {
    v1::RoundingLoss& loss = *message->mutable_rounding_loss();
    loss.set_finer_slots(answer.rounding_loss->finer_slots);
    loss.set_finer_makespan_seconds(answer.rounding_loss->finer_seconds);
    loss.set_loss(answer.rounding_loss->loss);
  }
}

void Fill(const std::vector<ChainWarning>& warnings, v1::SolveResponse* message) {
  for (const ChainWarning& warning : warnings) {
    v1::ChainWarning& out = *message->add_warnings();
    out.set_field(warning.field);
    out.set_reason(warning.reason);
    out.set_problem(warning.problem);
  }
}

void Fill(const Export& exported, v1::ExportedPlan* message) {
  message->set_text(exported.text);
  for (const std::string& line : exported.comparison) message->add_comparison(line);
  if (exported.exported.has_value()) Fill(*exported.exported, message->mutable_plan());
  if (exported.usual.has_value()) Fill(*exported.usual, message->mutable_usual());
  if (exported.forbidden_stage.has_value()) {
    message->set_forbidden_stage(*exported.forbidden_stage);
  }
  if (exported.minimum_memory_bytes.has_value()) {
    message->set_minimum_memory_bytes(*exported.minimum_memory_bytes);
  }
  message->set_time_ran_out(exported.time_ran_out);
}

v1::SolveResponse ToMessage(const SolveResult& result, const Platform& platform) {
  v1::SolveResponse message;
  Fill(*result.answer, result.origin, &message);
  Fill(result.warnings, &message);
  if (result.exported != nullptr) Fill(*result.exported, message.mutable_exported());
  *message.mutable_platform() = ToMessage(platform);
  return message;
}

v1::FrontierResponse ToMessage(const FrontierResult& result) {
  const Frontier& frontier = result.frontier;
  v1::FrontierResponse message;
  for (const FrontierPoint& point : frontier.points) {
    v1::FrontierPoint& out = *message.add_points();
    out.set_memory_bytes(point.memory_bytes);
    out.set_outcome(ToEnumerator(kOutcomes, point.outcome));
    out.set_limit(ToEnumerator(kGuarantees, point.guarantee));
    out.set_solver(point.solver);
    if (point.outcome != Outcome::kInfeasible) Fill(point.prediction, out.mutable_prediction());
  }
  if (frontier.knee.has_value()) message.set_knee(static_cast<int>(*frontier.knee));
  if (frontier.minimum_memory_bytes.has_value()) {
    message.set_minimum_memory_bytes(*frontier.minimum_memory_bytes);
  }
  message.set_memory_floor_bytes(frontier.memory_floor_bytes);
  message.set_most_memory_bytes(frontier.most_memory_bytes);
  message.set_solves(frontier.solves);
  Fill(frontier.solver, result.origin, message.mutable_origin());
  for (const std::string& note : frontier.notes) message.add_notes(note);
  return message;
}

v1::SimulateResponse ToMessage(const ExplainedSimulation& result) {
  const Simulation& simulation = result.simulation;
  v1::SimulateResponse message;
  message.set_feasible(simulation.feasible());
  if (simulation.first_over_limit.has_value()) {
    message.set_first_over_limit(static_cast<int64_t>(*simulation.first_over_limit));
  }
  Fill(simulation.prediction, message.mutable_prediction());
  message.mutable_timeline()->Reserve(static_cast<int>(result.timeline.size()));
  for (const TimelineEntry& entry : result.timeline) {
    v1::TimelineEntry& out = *message.add_timeline();
    out.set_start_seconds(entry.start_seconds);
    out.set_end_seconds(entry.end_seconds);
    out.set_memory_bytes(entry.memory_bytes);
    out.set_host_bytes(entry.host_bytes);
  }
  Fill(result.explanation, message.mutable_explanation());
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
  for (const SolveOption option : description.options) {
    message.add_options(SolveOptionName(option));
  }
  return message;
}

// Also reads stored answers, which lack prediction and most of the explanation: what is unset keeps
// its default.
absl::StatusOr<Answer> AnswerFromMessage(const v1::SolveResponse& message) {
  Answer answer;
  RETURN_IF_ERROR(FromEnumerator(kOutcomes, message.outcome(), "outcome", &answer.outcome));
  RETURN_IF_ERROR(FromEnumerator(kGuarantees, message.limit(), "limit", &answer.guarantee));
  RETURN_IF_ERROR(FromMessage(message.schedule(), &answer.schedule));
  answer.prediction = FromMessage(message.prediction());
  ASSIGN_OR_RETURN(answer.explanation, FromMessage(message.explanation()));
  if (message.has_minimum_memory_bytes()) {
    answer.minimum_memory_bytes = message.minimum_memory_bytes();
  }
  answer.memory_floor_bytes = message.memory_floor_bytes();
  answer.memory_floor_operation = FloorOperationOf(message);
  if (message.has_rounding_loss()) {
    const v1::RoundingLoss& loss = message.rounding_loss();
    answer.rounding_loss = {loss.finer_slots(), loss.finer_makespan_seconds(), loss.loss()};
  }
  answer.solver = message.origin().solver();
  return answer;
}

absl::StatusOr<SolveResult> FromMessage(const v1::SolveResponse& message) {
  SolveResult result;
  ASSIGN_OR_RETURN(Answer answer, AnswerFromMessage(message));
  result.answer = std::make_shared<const Answer>(std::move(answer));
  ASSIGN_OR_RETURN(result.origin, FromMessage(message.origin()));
  for (const v1::ChainWarning& in : message.warnings()) {
    result.warnings.push_back({in.field(), in.reason(), in.problem()});
  }
  if (message.has_exported()) {
    ASSIGN_OR_RETURN(Export exported, FromMessage(message.exported(), *result.answer));
    result.exported = std::make_shared<const Export>(std::move(exported));
  }
  return result;
}

absl::StatusOr<FrontierResult> FromMessage(const v1::FrontierResponse& message) {
  FrontierResult result;
  Frontier& frontier = result.frontier;
  for (const v1::FrontierPoint& in : message.points()) {
    ASSIGN_OR_RETURN(FrontierPoint point, FromMessage(in));
    frontier.points.push_back(std::move(point));
  }
  if (message.has_knee()) frontier.knee = static_cast<size_t>(message.knee());
  if (message.has_minimum_memory_bytes()) {
    frontier.minimum_memory_bytes = message.minimum_memory_bytes();
  }
  frontier.memory_floor_bytes = message.memory_floor_bytes();
  frontier.most_memory_bytes = message.most_memory_bytes();
  frontier.solves = message.solves();
  frontier.notes.assign(message.notes().begin(), message.notes().end());
  frontier.solver = message.origin().solver();
  ASSIGN_OR_RETURN(result.origin, FromMessage(message.origin()));
  return result;
}

absl::StatusOr<ExplainedSimulation> FromMessage(const v1::SimulateResponse& message) {
  ExplainedSimulation result;
  if (message.has_first_over_limit()) {
    result.simulation.first_over_limit = static_cast<size_t>(message.first_over_limit());
  }
  result.simulation.prediction = FromMessage(message.prediction());
  for (const v1::TimelineEntry& entry : message.timeline()) {
    result.timeline.push_back({entry.start_seconds(), entry.end_seconds(), entry.memory_bytes(),
                               entry.host_bytes(), std::nullopt});
  }
  ASSIGN_OR_RETURN(result.explanation, FromMessage(message.explanation()));
  return result;
}

}  // namespace stowage
