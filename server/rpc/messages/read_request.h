// The one path from the bytes of a request to a checked request in domain types.
#ifndef STOWAGE_SERVER_RPC_MESSAGES_READ_REQUEST_H_
#define STOWAGE_SERVER_RPC_MESSAGES_READ_REQUEST_H_

#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"
#include "proto/service/execution_report.h"
#include "server/events/observer.h"
#include "server/rpc/messages/message_limits.h"
#include "server/rpc/messages/status.h"
#include "solver/base/status_macros.h"
#include "solver/export/export.h"
#include "solver/model/request.h"
#include "solver/model/validate.h"
#include "stowage/v1/scheduler.pb.h"

namespace stowage {

// Runs `allocate`; RESOURCE_EXHAUSTED where it runs out of memory.
absl::Status WithMemory(absl::FunctionRef<void()> allocate);

// Parses `bytes` into `message`. Errors: INVALID_ARGUMENT for bytes that are no such message or
// that exceed CountFields(); RESOURCE_EXHAUSTED without enough memory.
absl::Status ParseMessage(absl::string_view bytes, google::protobuf::Message* message);

// A Solve, and the plan that its answer is to have beside the schedule.
struct SolveOrExport {
  SolveRequest solve;
  std::shared_ptr<const ExportRequest> exported;  // null: the schedule alone
};

// Fill `request` unless there are violations, which they return.
std::vector<FieldViolation> Convert(const v1::SolveRequest& message, SolveOrExport* request);
std::vector<FieldViolation> Convert(const v1::FrontierRequest& message, FrontierRequest* request);
std::vector<FieldViolation> Convert(const v1::SimulateRequest& message, SimulateRequest* request);
std::vector<FieldViolation> Convert(const v1::AdmitRequest& message, AdmitRequest* request);
std::vector<FieldViolation> Convert(const v1::ReportExecutionRequest& message,
                                    ExecutionReport* report);

// What of a message exceeds the limits of this server.
std::vector<FieldViolation> OverLimits(const v1::SolveRequest& message,
                                       const RequestLimits& limits);
std::vector<FieldViolation> OverLimits(const v1::FrontierRequest& message,
                                       const RequestLimits& limits);
std::vector<FieldViolation> OverLimits(const v1::SimulateRequest& message,
                                       const RequestLimits& limits);
std::vector<FieldViolation> OverLimits(const v1::AdmitRequest& message,
                                       const RequestLimits& limits);
std::vector<FieldViolation> OverLimits(const v1::ReportExecutionRequest& message,
                                       const RequestLimits& limits);

// Records what log and metrics need of a request, even of an invalid one.
void Record(const v1::SolveRequest& message, CallRecord* record);
void Record(const v1::FrontierRequest& message, CallRecord* record);
void Record(const v1::SimulateRequest& message, CallRecord* record);
void Record(const v1::AdmitRequest& message, CallRecord* record);
void Record(const v1::ReportExecutionRequest& message, CallRecord* record);

// Parses, limits, converts and validates. `message` may lie in an arena.
template <typename Message, typename Request>
absl::Status ReadRequest(absl::string_view bytes, const RequestLimits& limits, CallRecord* record,
                         Message* message, Request* request) {
  RETURN_IF_ERROR(ParseMessage(bytes, message));
  Record(*message, record);
  RETURN_IF_ERROR(InvalidRequest(OverLimits(*message, limits)));
  std::vector<FieldViolation> violations;
  RETURN_IF_ERROR(WithMemory([&] { violations = Convert(*message, request); }));
  return InvalidRequest(violations);
}

}  // namespace stowage

#endif  // STOWAGE_SERVER_RPC_MESSAGES_READ_REQUEST_H_
