#include "server/rpc/scheduler_service.h"

#include <utility>

#include "proto/convert/answer.h"
#include "server/rpc/read.h"
#include "server/rpc/solve_call.h"
#include "solver/algorithms/catalog.h"

namespace stowage {

grpc::ServerUnaryReactor* SchedulerService::Solve(grpc::CallbackServerContext* context,
                                                  const grpc::ByteBuffer* request,
                                                  grpc::ByteBuffer* response) {
  return StartSolve(engine_, environment_, replies_, *context, *request, response);
}

grpc::ServerWriteReactor<v1::SolveEvent>* SchedulerService::SolveStream(
    grpc::CallbackServerContext* context, const v1::SolveRequest* request) {
  return StartSolveStream(engine_, environment_, *context, *request);
}

grpc::ServerUnaryReactor* SchedulerService::Frontier(grpc::CallbackServerContext* context,
                                                     const v1::FrontierRequest* request,
                                                     v1::FrontierResponse* response) {
  auto* const call = new Call("Frontier", *context, environment_);
  RecordQuestion(request->solver(), request->chain(), call->record());
  FrontierRequest question;
  if (!ReadOrEnd(*request, &question, call)) return call;
  engine_.FindFrontier(
      std::move(question), call->caller(), [call, response](absl::StatusOr<TimedFrontier> timed) {
        if (!timed.ok()) return call->End(timed.status());
        call->End(WithMemory([&] {
          *response = ToMessage(timed->result, {timed->queue_seconds, timed->solve_seconds});
          CallRecord& record = call->record();
          record.queue_seconds = timed->queue_seconds;
          record.solve_seconds = timed->solve_seconds;
          record.origin = timed->result.solver;
          record.rejected = timed->result.rejected;
        }));
      });
  return call;
}

grpc::ServerUnaryReactor* SchedulerService::Simulate(grpc::CallbackServerContext* context,
                                                     const v1::SimulateRequest* request,
                                                     v1::SimulateResponse* response) {
  auto* const call = new Call("Simulate", *context, environment_);
  call->record().stages = request->chain().stages_size();
  SimulateRequest question;
  if (!ReadOrEnd(*request, &question, call)) return call;
  engine_.Simulate(std::move(question), call->caller(),
                   [call, response](absl::StatusOr<ExplainedSimulation> result) {
                     if (!result.ok()) return call->End(result.status());
                     call->End(WithMemory([&] {
                       *response =
                           ToMessage(result->simulation, result->timeline, result->explanation);
                     }));
                   });
  return call;
}

grpc::ServerUnaryReactor* SchedulerService::ListSolvers(grpc::CallbackServerContext* context,
                                                        const v1::ListSolversRequest*,
                                                        v1::ListSolversResponse* response) {
  auto* const call = new Call("ListSolvers", *context, environment_);
  if (!call->admission().ok()) {
    call->End(call->admission());
    return call;
  }
  for (const SolverInfo& info : AllSolvers()) {
    *response->add_solvers() = ToMessage(info.description);
  }
  call->End(absl::OkStatus());
  return call;
}

grpc::ServerUnaryReactor* SchedulerService::ReportExecution(
    grpc::CallbackServerContext* context, const v1::ReportExecutionRequest* request,
    v1::ReportExecutionResponse* /*response*/) {
  auto* const call = new Call("ReportExecution", *context, environment_);
  ExecutionReport report;
  if (!ReadOrEnd(*request, &report, call)) return call;
  report.id = call->record().id;
  environment_.observer.ExecutionReported(report);
  call->End(absl::OkStatus());
  return call;
}

}  // namespace stowage
