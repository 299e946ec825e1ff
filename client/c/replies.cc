#include "client/c/replies.h"

#include <new>
#include <system_error>

#include "client/c/named_origin.h"
#include "solver/base/quote.h"

namespace stowage {

template <typename Visitor, MessageOf<FieldViolation> Message>
void VisitFields(Visitor& visitor, Message& violation) {
  visitor.Field("field", violation.field);
  visitor.Field("problem", violation.problem);
}

template <typename Visitor, MessageOf<ComparedSchedule> Message>
void VisitFields(Visitor& visitor, Message& compared) {
  visitor.Field("name", compared.name);
  visitor.Field("schedule", compared.schedule);
  visitor.Field("prediction", compared.prediction);
  visitor.Field("fits", compared.fits);
}

namespace {

// In one line; names that are no UTF-8 are those of nobody, since requests were read from JSON.
std::string Line(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace

std::string EventOf(const char* kind, const OrderedJson& value) {
  JsonObject event;
  event.Field(kind, value);
  return Line(event.Take());
}

std::string ErrorEvent(const absl::Status& status, const std::vector<FieldViolation>& violations) {
  JsonObject error;
  error.Field("code", static_cast<int>(status.code()));
  error.Field("message", status.message());
  error.Unless("violations", violations, {});
  return EventOf("error", error.Take());
}

absl::Status ErrorOf(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return absl::ResourceExhaustedError("this machine has too little free memory");
  }
  if (dynamic_cast<const std::system_error*>(&error) != nullptr) {
    return absl::ResourceExhaustedError(
        "this process may start no further thread; raise its limit of threads");
  }
  return absl::InternalError(ValidUtf8(error.what()));
}

// As proto/convert/answer_message.cc: an infeasible answer has no schedule to describe.
OrderedJson ReplyOf(const SolveResult& result, const Platform& platform) {
  const Answer& answer = *result.answer;
  const bool is_feasible = answer.outcome != Outcome::kInfeasible;
  JsonObject to;
  to.Field("outcome", answer.outcome);
  to.Field("limit", answer.guarantee);
  if (is_feasible) {
    to.Field("schedule", answer.schedule);
    to.Field("prediction", answer.prediction);
  }
  to.Field("platform", platform);
  to.Field("memory_floor_bytes", answer.memory_floor_bytes);
  to.Field("memory_floor_operation", answer.memory_floor_operation);
  to.Field("origin", NamedOrigin{answer.solver, result.origin});
  if (is_feasible) {
    to.Field("explanation", answer.explanation);
    to.Field("rounding_loss", answer.rounding_loss);
  }
  to.Unless("warnings", result.warnings, {});
  to.Field("minimum_memory_bytes", answer.minimum_memory_bytes);
  return to.Take();
}

OrderedJson ReplyOf(const FrontierResult& result) {
  const Frontier& frontier = result.frontier;
  JsonObject to;
  to.Field("points", frontier.points);
  to.Field("memory_floor_bytes", frontier.memory_floor_bytes);
  to.Field("most_memory_bytes", frontier.most_memory_bytes);
  to.Field("solves", frontier.solves);
  to.Field("origin", NamedOrigin{frontier.solver, result.origin});
  to.Field("notes", frontier.notes);
  if (frontier.knee.has_value()) to.Field("knee", static_cast<int>(*frontier.knee));  // an int32
  to.Field("minimum_memory_bytes", frontier.minimum_memory_bytes);
  return to.Take();
}

OrderedJson ReplyOf(const ExplainedSimulation& result) {
  JsonObject to;
  to.Field("feasible", result.simulation.feasible());
  to.Field("prediction", result.simulation.prediction);
  to.Field("timeline", result.timeline);
  to.Field("explanation", result.explanation);
  to.Field("first_over_limit", result.simulation.first_over_limit);
  return to.Take();
}

OrderedJson ReplyOf(const Export& exported) {
  JsonObject to;
  to.Field("text", exported.text);
  to.Field("comparison", exported.comparison);
  to.Field("plan", exported.exported);
  to.Field("usual", exported.usual);
  to.Field("time_ran_out", exported.time_ran_out);
  to.Field("forbidden_stage", exported.forbidden_stage);
  to.Field("minimum_memory_bytes", exported.minimum_memory_bytes);
  to.Field("full", exported.full);
  return to.Take();
}

OrderedJson ReplyOf(const std::vector<KeptChoice>& ways) {
  OrderedJson list = OrderedJson::array();
  for (const KeptChoice& way : ways) {
    JsonObject to;
    to.Field("name", way.name);
    to.Field("operators", OrderedJson(way.operators));
    to.Field("rerun_seconds", way.rerun_seconds);
    list.push_back(to.Take());
  }
  JsonObject reply;
  reply.Field("ways", list);
  return reply.Take();
}

OrderedJson ReplyOf(const SolverDescription& description) {
  std::vector<std::string> options;
  for (const SolveOption option : description.options) options.push_back(SolveOptionName(option));
  JsonObject to;
  to.Field("name", description.name);
  to.Field("summary", description.summary);
  to.Field("guarantee", description.guarantee);
  to.Field("complexity", description.complexity);
  to.Field("version", description.version);
  to.Field("recomputes", description.recomputes);
  to.Field("offloads", description.offloads);
  to.Field("options", options);
  to.Field("mixes_modes", description.mixes_modes);
  return to.Take();
}

OrderedJson ReplyOf(const Target& target) {
  JsonObject to;
  to.Field("name", target.name);
  to.Field("framework", target.framework);
  to.Field("setting", target.setting);
  to.Field("expresses", target.expresses);
  to.Field("loses", target.loses);
  to.Field("usual", target.usual);
  to.Field("tried", target.tried);
  return to.Take();
}

}  // namespace stowage
