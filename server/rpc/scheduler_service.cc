#include "server/rpc/scheduler_service.h"

#include <utility>
#include <vector>

#include "proto/convert/answer_message.h"
#include "proto/convert/verdict_message.h"
#include "proto/service/execution_report.h"
#include "server/engine/admit_job.h"
#include "server/rpc/calls/frontier_call.h"
#include "server/rpc/calls/solve_call.h"
#include "solver/solve/catalog.h"
#include "stowage/v1/scheduler.pb.h"

namespace stowage {
namespace {

// Ends the call with the message that `convert` makes.
template <typename Convert>
void EndConverted(Call* call, Convert convert) {
  decltype(convert()) response;
  const absl::Status converted = WithMemory([&] { response = convert(); });
  converted.ok() ? call->EndWith(response) : call->End(converted);
}

}  // namespace

grpc::ServerUnaryReactor* SchedulerService::Solve(grpc::CallbackServerContext* context,
                                                  const grpc::ByteBuffer* request,
                                                  grpc::ByteBuffer* response) {
  return StartSolve(engine_, cache_, calls_, environment_, *context, *request, response);
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* SchedulerService::SolveStream(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) {
  return StartSolveStream(engine_, environment_, *context, *request);
}

grpc::ServerUnaryReactor* SchedulerService::Frontier(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* bytes,
                                                     grpc::ByteBuffer* response) {
  return StartFrontier(engine_, cache_, environment_, *context, *bytes, response);
}

// Every unary method below creates a Call, which deletes itself after its end, and ends it exactly
// once: in the method itself or, once the engine has the request, in the engine's callback. The
// request is converted before the method returns; the message is not needed afterwards.
grpc::ServerUnaryReactor* SchedulerService::Simulate(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* bytes,
                                                     grpc::ByteBuffer* response) {
  auto* const call = new Call("Simulate", *context, *bytes, environment_, response);
  v1::SimulateRequest message;
  SimulateRequest request;
  if (!call->ReadOrEnd(*bytes, &message, &request)) return call;
  if (const absl::Status held = call->state().HoldMemory(*bytes); !held.ok()) {
    call->End(held);
    return call;
  }
  const size_t operations = request.schedule.operations.size();
  engine_.Simulate(std::move(request), call->state().caller(),
                   [call, operations](absl::StatusOr<ExplainedSimulation> result) {
                     // A simulation that was refused has cost nothing.
                     if (!absl::IsResourceExhausted(result.status())) {
                       call->state().ChargeOperations(operations);
                     }
                     if (!result.ok()) return call->End(result.status());
                     EndConverted(call, [&] { return ToMessage(*result); });
                   });
  return call;
}

grpc::ServerUnaryReactor* SchedulerService::Admit(grpc::CallbackServerContext* context,
                                                  const grpc::ByteBuffer* bytes,
                                                  grpc::ByteBuffer* response) {
  auto* const call = new Call("Admit", *context, *bytes, environment_, response);
  v1::AdmitRequest message;
  AdmitRequest request;
  if (!call->ReadOrEnd(*bytes, &message, &request)) return call;
  if (const absl::Status held = call->state().HoldMemory(*bytes); !held.ok()) {
    call->End(held);
    return call;
  }
  AdmitJob(engine_, std::move(request), call->state().caller(),
           [call](absl::StatusOr<std::vector<Verdict>> verdicts) {
             if (!verdicts.ok()) return call->End(verdicts.status());
             EndConverted(call, [&] { return ToMessage(*verdicts); });
           });
  return call;
}

grpc::ServerUnaryReactor* SchedulerService::ListSolvers(grpc::CallbackServerContext* context,
                                                        const grpc::ByteBuffer* bytes,
                                                        grpc::ByteBuffer* response) {
  auto* const call = new Call("ListSolvers", *context, *bytes, environment_, response);
  v1::ListSolversRequest request;  // has no fields
  if (const absl::Status status = call->state().Parse(*bytes, &request); !status.ok()) {
    call->End(status);
    return call;
  }
  EndConverted(call, [] {
    v1::ListSolversResponse message;
    for (const SolverInfo& info : AllSolvers()) {
      *message.add_solvers() = ToMessage(info.description);
    }
    return message;
  });
  return call;
}

grpc::ServerUnaryReactor* SchedulerService::ReportExecution(grpc::CallbackServerContext* context,
                                                            const grpc::ByteBuffer* bytes,
                                                            grpc::ByteBuffer* response) {
  auto* const call = new Call("ReportExecution", *context, *bytes, environment_, response);
  v1::ReportExecutionRequest message;
  ExecutionReport report;
  if (!call->ReadOrEnd(*bytes, &message, &report)) return call;
  environment_.observer.ExecutionReported(report, call->record());
  call->EndWith(v1::ReportExecutionResponse());
  return call;
}

}  // namespace stowage
