#include "server/rpc/scheduler_service.h"

#include <utility>

#include "proto/convert/answer_message.h"
#include "proto/convert/request_message.h"
#include "server/rpc/message_limits.h"
#include "server/rpc/read_request.h"
#include "server/rpc/solve_call.h"
#include "solver/solve/catalog.h"

namespace stowage {
namespace {

int IndexOf(const char* method) {
  return v1::SolveRequest::descriptor()
      ->file()
      ->FindServiceByName("Scheduler")
      ->FindMethodByName(method)
      ->index();
}

}  // namespace

// Solve counts by itself.
SchedulerService::SchedulerService(Engine& engine, const CallEnvironment& environment,
                                   int64_t reply_bytes)
    : engine_(engine), environment_(environment), replies_(reply_bytes) {
  BoundStream();
  Bound<v1::FrontierRequest, v1::FrontierResponse>("Frontier", &SchedulerService::Frontier);
  Bound<v1::SimulateRequest, v1::SimulateResponse>("Simulate", &SchedulerService::Simulate);
  Bound<v1::ListSolversRequest, v1::ListSolversResponse>("ListSolvers",
                                                         &SchedulerService::ListSolvers);
  Bound<v1::ReportExecutionRequest, v1::ReportExecutionResponse>(
      "ReportExecution", &SchedulerService::ReportExecution);
}

template <typename Request, typename Response>
void SchedulerService::Bound(const char* name, Method<Request, Response> method) {
  const auto handle = [this, name, method](grpc::CallbackServerContext* context,
                                           const Bounded<Request>* request,
                                           Response* response) -> grpc::ServerUnaryReactor* {
    if (request->violations().empty()) {
      return (this->*method)(context, &request->message(), response);
    }
    auto* const call = new Call(name, *context, environment_);
    call->admission().ok() ? call->EndWithViolations(request->violations())
                           : call->End(call->admission());
    return call;
  };
  MarkMethodCallback(IndexOf(name),
                     new grpc::internal::CallbackUnaryHandler<Bounded<Request>, Response>(handle));
}

void SchedulerService::BoundStream() {
  MarkMethodCallback(
      IndexOf("SolveStream"),
      new grpc::internal::CallbackServerStreamingHandler<Bounded<v1::SolveRequest>, v1::SolveEvent>(
          [this](grpc::CallbackServerContext* context, const Bounded<v1::SolveRequest>* request)
              -> grpc::ServerWriteReactor<v1::SolveEvent>* {
            if (request->violations().empty()) return SolveStream(context, &request->message());
            return RefuseSolveStream(environment_, *context, request->violations());
          }));
}

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
        const absl::Status converted = WithMemory([&] {
          *response = ToMessage(timed->result, {timed->queue_seconds, timed->solve_seconds});
          CallRecord& record = call->record();
          record.queue_seconds = timed->queue_seconds;
          record.solve_seconds = timed->solve_seconds;
          record.origin = timed->result.solver;
          record.rejected = timed->result.rejected;
        });
        call->End(converted, static_cast<int64_t>(response->ByteSizeLong()));
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
                     const absl::Status converted = WithMemory([&] {
                       *response =
                           ToMessage(result->simulation, result->timeline, result->explanation);
                     });
                     call->End(converted, static_cast<int64_t>(response->ByteSizeLong()));
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
