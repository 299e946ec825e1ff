// Answers between messages and domain types. Thread-safe.
//
// ToMessage() and FromMessage() are inverse to each other but for what a message does not carry:
// Answer::from_exact_sizes, the lists of rejected solvers, TimelineEntry::waits_for, and prediction
// and explanation of an infeasible answer. Export::full is the answer of the message that has it.
#ifndef STOWAGE_PROTO_CONVERT_ANSWER_MESSAGE_H_
#define STOWAGE_PROTO_CONVERT_ANSWER_MESSAGE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/service/results.h"
#include "solver/export/export.h"
#include "solver/model/answer.h"
#include "solver/model/chain_warnings.h"
#include "solver/model/explanation.h"
#include "solver/model/platform.h"
#include "solver/model/prediction.h"
#include "solver/model/solver_description.h"
#include "stowage/v1/scheduler.pb.h"

namespace stowage {

// Fills an empty message, wherever it lies, so that a message in an arena is built in place. Leaves
// `platform` unset: a cached answer was made for the platform of another caller.
void Fill(const Answer& answer, const Origin& origin, v1::SolveResponse* message);
// Of that solver's schedule.
void Fill(const std::string& solver, const Origin& origin, v1::Origin* message);
void Fill(const Prediction& prediction, v1::Prediction* message);
// The caller's, which a cached answer has none of either.
void Fill(const std::vector<ChainWarning>& warnings, v1::SolveResponse* message);
void Fill(const Export& exported, v1::ExportedPlan* message);
// The same for `platform`, the caller's.
v1::SolveResponse ToMessage(const SolveResult& result, const Platform& platform);
v1::FrontierResponse ToMessage(const FrontierResult& result);
v1::SimulateResponse ToMessage(const ExplainedSimulation& simulation);
v1::SolverDescription ToMessage(const SolverDescription& description);

// Errors: DATA_LOSS naming the field for a value that no answer of this version has.
absl::StatusOr<Answer> AnswerFromMessage(const v1::SolveResponse& message);
absl::StatusOr<SolveResult> FromMessage(const v1::SolveResponse& message);
absl::StatusOr<FrontierResult> FromMessage(const v1::FrontierResponse& message);
absl::StatusOr<ExplainedSimulation> FromMessage(const v1::SimulateResponse& message);

}  // namespace stowage

#endif  // STOWAGE_PROTO_CONVERT_ANSWER_MESSAGE_H_
