#include "proto/convert/stored_answer.h"

#include <utility>
#include <vector>

#include "proto/convert/chain_message.h"
#include "proto/convert/schedule_message.h"
#include "proto/convert/solve_message.h"
#include "solver/model/validate.h"

namespace stowage {
namespace {

std::optional<Outcome> FromMessage(v1::Outcome outcome) {
  for (const Outcome one : {Outcome::kOptimal, Outcome::kFeasible, Outcome::kInfeasible}) {
    if (ToMessage(one) == outcome) return one;
  }
  return std::nullopt;
}

std::optional<Limit> FromMessage(v1::Limit limit) {
  for (const Limit one : {Limit::kNone, Limit::kHeuristic, Limit::kRounding, Limit::kTime}) {
    if (ToMessage(one) == limit) return one;
  }
  return std::nullopt;
}

}  // namespace

v1::StoredAnswer ToStored(const Answer& answer) {
  v1::StoredAnswer stored;
  v1::SolveResponse& message = *stored.mutable_answer();
  message = ToMessage(answer, {});
  message.clear_prediction();
  message.clear_platform();
  message.clear_explanation();
  for (const std::string& note : answer.explanation.notes) {
    message.mutable_explanation()->add_notes(note);
  }
  stored.set_from_exact_sizes(answer.from_exact_sizes);
  return stored;
}

std::optional<Answer> FromStored(const v1::StoredAnswer& stored) {
  const v1::SolveResponse& message = stored.answer();
  const std::optional<Outcome> outcome = FromMessage(message.outcome());
  const std::optional<Limit> limit = FromMessage(message.limit());
  if (!outcome.has_value() || !limit.has_value()) return std::nullopt;
  Answer answer;
  answer.outcome = *outcome;
  answer.limit = *limit;
  std::vector<FieldViolation> violations;
  answer.schedule = FromMessage(message.schedule(), &violations);
  if (!violations.empty() || !Violations(answer.schedule).empty()) return std::nullopt;
  answer.solver = message.origin().solver();
  answer.explanation.notes.assign(message.explanation().notes().begin(),
                                  message.explanation().notes().end());
  if (message.has_minimum_memory_bytes()) {
    answer.minimum_memory_bytes = message.minimum_memory_bytes();
  }
  if (message.has_rounding_loss()) {
    const v1::RoundingLoss& loss = message.rounding_loss();
    answer.rounding_loss = {loss.finer_slots(), loss.finer_makespan_seconds(), loss.loss()};
  }
  answer.from_exact_sizes = stored.from_exact_sizes();
  return answer;
}

}  // namespace stowage
