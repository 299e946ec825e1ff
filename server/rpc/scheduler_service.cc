#include "server/rpc/scheduler_service.h"

#include <string>
#include <utility>
#include <vector>

#include "proto/convert/answer.h"
#include "proto/convert/chain.h"
#include "proto/convert/schedule.h"
#include "server/rpc/call.h"
#include "solver/algorithms/catalog.h"
#include "solver/model/validate.h"

namespace stowage {
namespace {

void Append(std::vector<FieldViolation> more, std::vector<FieldViolation>* violations) {
  for (FieldViolation& violation : more) violations->push_back(std::move(violation));
}

void Record(const TimedAnswer& timed, const v1::SolveResponse& response, CallRecord& record) {
  record.queue_seconds = timed.queue_seconds;
  record.solve_seconds = timed.solve_seconds;
  record.origin = timed.answer.solver;
  record.outcome = v1::Outcome_Name(response.outcome());
  record.rejected = timed.answer.rejected;
}

}  // namespace

grpc::ServerUnaryReactor* SchedulerService::Solve(grpc::CallbackServerContext* context,
                                                  const v1::SolveRequest* request,
                                                  v1::SolveResponse* response) {
  auto* const call = new Call("Solve", *context, observer_);
  std::vector<FieldViolation> violations;
  SolveRequest question = FromMessage(*request, &violations);
  Append(RequestViolations(question), &violations);
  call->record().stages = question.chain.length();
  call->record().solver = question.solver.empty() ? "auto" : question.solver;
  if (!violations.empty()) {
    call->EndWithViolations(violations);
    return call;
  }
  engine_.Solve(
      std::move(question), call->stop_token(), [call, response](absl::StatusOr<TimedAnswer> timed) {
        if (timed.ok()) {
          *response = ToMessage(timed->answer, {timed->queue_seconds, timed->solve_seconds});
          Record(*timed, *response, call->record());
        }
        call->End(timed.status());
      });
  return call;
}

grpc::ServerUnaryReactor* SchedulerService::Simulate(grpc::CallbackServerContext* context,
                                                     const v1::SimulateRequest* request,
                                                     v1::SimulateResponse* response) {
  auto* const call = new Call("Simulate", *context, observer_);
  std::vector<FieldViolation> violations = MissingFields(request->platform());
  SimulateRequest question{FromMessage(request->chain()), FromMessage(request->platform()),
                           FromMessage(request->schedule(), &violations)};
  Append(Violations(question.chain), &violations);
  Append(Violations(question.platform), &violations);
  Append(Violations(question.schedule), &violations);
  call->record().stages = question.chain.length();
  if (!violations.empty()) {
    call->EndWithViolations(violations);
    return call;
  }
  engine_.Simulate(std::move(question), call->stop_token(),
                   [call, response](absl::StatusOr<ExplainedSimulation> result) {
                     if (result.ok()) {
                       *response =
                           ToMessage(result->simulation, result->timeline, result->explanation);
                     }
                     call->End(result.status());
                   });
  return call;
}

grpc::ServerUnaryReactor* SchedulerService::ListSolvers(grpc::CallbackServerContext* context,
                                                        const v1::ListSolversRequest*,
                                                        v1::ListSolversResponse* response) {
  auto* const call = new Call("ListSolvers", *context, observer_);
  for (const SolverInfo& info : AllSolvers())
    *response->add_solvers() = ToMessage(info.description);
  call->End(absl::OkStatus());
  return call;
}

}  // namespace stowage
