// Requests and answers between messages and solver types. Thread-safe.
#ifndef STOWAGE_PROTO_CONVERT_SOLVE_MESSAGE_H_
#define STOWAGE_PROTO_CONVERT_SOLVE_MESSAGE_H_

#include <string>
#include <vector>

#include "solver/model/answer.h"
#include "solver/model/explanation.h"
#include "solver/model/prediction.h"
#include "solver/model/request.h"
#include "solver/model/solver_description.h"
#include "solver/model/validate.h"
#include "stowage/v1/scheduler.pb.h"

namespace stowage {

// The service's grid for times where the caller sets none.
inline constexpr double kDefaultTimePrecision = 0.01;

// Adds to `violations` what the result cannot express; the rest is for Violations() to check.
SolveRequest FromMessage(const v1::SolveRequest& message, std::vector<FieldViolation>* violations);

FrontierRequest FromMessage(const v1::FrontierRequest& message);

// How an answer was obtained; clocks and caches are not the solvers' business.
struct AnswerTiming {
  double queue_seconds = 0;
  double solve_seconds = 0;
  v1::Origin::Source source = v1::Origin::SOLVED;
  std::string fingerprint = {};
};
v1::SolveResponse ToMessage(const Answer& answer, const AnswerTiming& timing);
// The same into an empty message, wherever that lies.
void Fill(const Answer& answer, const AnswerTiming& timing, v1::SolveResponse* to);

v1::FrontierResponse ToMessage(const Frontier& frontier, const AnswerTiming& timing);

v1::SimulateResponse ToMessage(const Simulation& simulation,
                               const std::vector<TimelineEntry>& timeline,
                               const Explanation& explanation);

v1::SolverDescription ToMessage(const SolverDescription& description);

v1::Outcome ToMessage(Outcome outcome);
v1::Limit ToMessage(Limit limit);

}  // namespace stowage

#endif  // STOWAGE_PROTO_CONVERT_SOLVE_MESSAGE_H_
