#include <utility>

#include "absl/strings/str_cat.h"
#include "client/lib/client.h"
#include "client/lib/planner.h"
#include "client/text/write_file.h"
#include "client/train/ask.h"
#include "proto/convert/chain_message.h"
#include "proto/convert/json.h"
#include "proto/convert/schedule_message.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"
#include "solver/model/validate.h"

namespace stowage {
namespace {

// A server that does not answer a report in this time is not worth the wait.
constexpr double kReportSeconds = 2;

std::string SourceText(PlanSource source, const std::string& server, double seconds) {
  switch (source) {
    case PlanSource::kPlanFile:
      return "the plan file of the last run";
    case PlanSource::kServer:
      return absl::StrCat(server, ", solved in ", FormatSeconds(seconds));
    case PlanSource::kLocal:
      return absl::StrCat("here, solved in ", FormatSeconds(seconds));
  }
  return "";
}

}  // namespace

absl::StatusOr<Found> FindSchedule(const AskOptions& options, const Chain& chain,
                                   const Platform& platform, const std::string& solver) {
  v1::SolveRequest request;
  *request.mutable_chain() = ToMessage(chain);
  *request.mutable_platform() = ToMessage(platform);
  request.set_solver(solver);
  PlannerOptions planner;
  planner.server = options.server;
  ASSIGN_OR_RETURN(planner.credentials, ReadCredentials(options.credentials));
  planner.patience_seconds = options.patience_seconds;
  planner.plan_cache = options.plan_cache;
  ASSIGN_OR_RETURN(PlannedAnswer answer, FindPlan(planner, request));
  const v1::SolveResponse& response = answer.response;
  Found found;
  found.solver = response.origin().solver();
  found.source = SourceText(answer.source, options.server, response.origin().solve_seconds());
  found.notes = std::move(answer.notes);
  if (response.has_minimum_memory_bytes()) found.least_bytes = response.minimum_memory_bytes();
  if (response.outcome() == v1::INFEASIBLE) return found;
  std::vector<FieldViolation> violations;
  found.schedule = FromMessage(response.schedule(), &violations);
  RETURN_IF_ERROR(ViolationsStatus(violations));
  return found;
}

absl::Status Report(const AskOptions& options, const std::string& job, const MeasuredRun& run) {
  v1::ReportExecutionRequest request;
  request.set_agent("stowage-train " STOWAGE_VERSION);
  request.set_job(job);
  request.set_predicted_step_seconds(run.predicted_seconds);
  request.set_measured_step_seconds(run.measured_seconds);
  request.set_predicted_peak_bytes(run.predicted_peak_bytes);
  request.set_measured_peak_bytes(run.measured_peak_bytes);
  ClientOptions client{.server = options.server, .timeout_seconds = kReportSeconds};
  ASSIGN_OR_RETURN(client.credentials, ReadCredentials(options.credentials));
  return Client(client).ReportExecution(request);
}

absl::Status WriteChain(const std::string& path, const Chain& chain) {
  return WriteFile(path, ToJson(ToMessage(chain)));
}

absl::Status WritePlatform(const std::string& path, const Platform& platform) {
  return WriteFile(path, ToJson(ToMessage(platform)));
}

}  // namespace stowage
