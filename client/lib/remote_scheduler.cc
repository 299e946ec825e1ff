#include "client/lib/remote_scheduler.h"

#include <optional>

#include "proto/convert/answer_message.h"
#include "proto/convert/request_message.h"
#include "proto/convert/verdict_message.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

// Passes an event of the stream to the callbacks that the caller has set.
void Notify(const SolveCall& call, const v1::SolveEvent& event) {
  if (event.has_queued() && call.queued) call.queued(event.queued().before());
  if (event.has_running() && call.running) {
    call.running(event.running().solver(), event.running().fraction());
  }
  if (event.has_improved() && call.improved) {
    // Progress is informational: one that this version cannot read does not fail the call.
    const absl::StatusOr<Answer> best = AnswerFromMessage(event.improved());
    if (best.ok()) call.improved(*best);
  }
}

}  // namespace

absl::StatusOr<SolveResult> RemoteScheduler::Solve(const SolveRequest& request,
                                                   const SolveCall& call) {
  const v1::SolveRequest message = ToMessage(request);
  absl::StatusOr<v1::SolveResponse> response =
      call.has_callbacks() ? rpc_.SolveStream(
                                 message, call.timeout_seconds,
                                 [&call](const v1::SolveEvent& event) { Notify(call, event); },
                                 [&call](const absl::Status& failure) {
                                   if (call.repeated) call.repeated(failure);
                                 })
                           : rpc_.Solve(message, call.timeout_seconds);
  RETURN_IF_ERROR(response.status());
  return FromMessage(*response);
}

absl::StatusOr<SolveResult> RemoteScheduler::SolveAndExport(const SolveRequest& request,
                                                            const std::string& target,
                                                            const std::string& layers) {
  v1::SolveRequest message = ToMessage(request);
  message.set_export_for(target);
  if (!layers.empty()) message.set_export_layers(layers);
  ASSIGN_OR_RETURN(const v1::SolveResponse response, rpc_.Solve(message, std::nullopt));
  ASSIGN_OR_RETURN(SolveResult result, FromMessage(response));
  if (result.exported != nullptr) return result;
  return absl::UnimplementedError("the server is older than export_for; ask a newer one");
}

absl::StatusOr<FrontierResult> RemoteScheduler::FindFrontier(const FrontierRequest& request) {
  ASSIGN_OR_RETURN(const v1::FrontierResponse response, rpc_.Frontier(ToMessage(request)));
  return FromMessage(response);
}

absl::StatusOr<ExplainedSimulation> RemoteScheduler::Simulate(const SimulateRequest& request) {
  ASSIGN_OR_RETURN(const v1::SimulateResponse response, rpc_.Simulate(ToMessage(request)));
  return FromMessage(response);
}

absl::StatusOr<std::vector<Verdict>> RemoteScheduler::Admit(const AdmitRequest& request) {
  ASSIGN_OR_RETURN(const v1::AdmitResponse response, rpc_.Admit(ToMessage(request)));
  ASSIGN_OR_RETURN(std::vector<Verdict> verdicts, FromMessage(response));
  for (const Verdict& verdict : verdicts) {
    if (verdict.device < request.devices.size()) continue;
    return absl::DataLossError("verdicts.device: is none of the request's");
  }
  return verdicts;
}

absl::Status RemoteScheduler::ReportExecution(const ExecutionReport& report) {
  v1::ReportExecutionRequest message;
  message.set_fingerprint(report.fingerprint);
  message.set_predicted_step_seconds(report.predicted_step_seconds);
  message.set_measured_step_seconds(report.measured_step_seconds);
  message.set_predicted_peak_bytes(report.predicted_peak_bytes);
  message.set_measured_peak_bytes(report.measured_peak_bytes);
  message.set_agent(report.agent);
  message.set_job(report.job);
  return rpc_.ReportExecution(message);
}

}  // namespace stowage
