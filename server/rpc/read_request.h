// Requests from the wire, checked whole before they cost anything.
#ifndef STOWAGE_SERVER_RPC_READ_REQUEST_H_
#define STOWAGE_SERVER_RPC_READ_REQUEST_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "server/engine/engine.h"
#include "server/observe/observer.h"
#include "server/rpc/call.h"
#include "solver/model/request.h"
#include "solver/model/validate.h"
#include "stowage/v1/scheduler.pb.h"

namespace stowage {

// Runs `convert`; RESOURCE_EXHAUSTED when a message is too large for the memory that is left.
absl::Status WithMemory(absl::FunctionRef<void()> convert);

// Each fills `question` unless there are violations, which it returns.
std::vector<FieldViolation> Read(const v1::SolveRequest& message, SolveRequest* question);
std::vector<FieldViolation> Read(const v1::FrontierRequest& message, FrontierRequest* question);
std::vector<FieldViolation> Read(const v1::SimulateRequest& message, SimulateRequest* question);
std::vector<FieldViolation> Read(const v1::ReportExecutionRequest& message,
                                 ExecutionReport* report);

// How large a question is, before anything of it is converted.
inline QuestionLimits SizeOf(const v1::SolveRequest& message) {
  return {message.chain().stages_size(), message.options().memory_slots()};
}
inline QuestionLimits SizeOf(const v1::FrontierRequest& message) {
  return {message.chain().stages_size(), message.options().memory_slots()};
}
inline QuestionLimits SizeOf(const v1::SimulateRequest& message) {
  return {message.chain().stages_size(), 0};
}
inline QuestionLimits SizeOf(const v1::ReportExecutionRequest& /*message*/) { return {0, 0}; }

// What of it is more than this server takes.
std::vector<FieldViolation> OverLimits(const QuestionLimits& size, const QuestionLimits& limits);

// Reads a request; ends the call and returns false when that fails, or the caller may not ask.
template <typename Message, typename Question>
bool ReadOrEnd(const Message& message, Question* question, Call* call) {
  if (!call->admission().ok()) {
    call->End(call->admission());
    return false;
  }
  std::vector<FieldViolation> violations = OverLimits(SizeOf(message), call->limits());
  if (!violations.empty()) {
    call->EndWithViolations(violations);
    return false;
  }
  const absl::Status read = WithMemory([&] { violations = Read(message, question); });
  if (read.ok() && violations.empty()) return true;
  read.ok() ? call->EndWithViolations(violations) : call->End(read);
  return false;
}

// What the log says of a question. Only known solvers reach it: what else a caller writes may be
// long, or worse.
void RecordQuestion(const std::string& solver, const v1::Chain& chain, CallRecord& record);

}  // namespace stowage

#endif  // STOWAGE_SERVER_RPC_READ_REQUEST_H_
