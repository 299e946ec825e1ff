#include "client/lib/remote_scheduler.h"
#include "client/train/schedule_service.h"
#include "proto/convert/chain_message.h"
#include "proto/convert/json.h"
#include "proto/convert/request_message.h"
#include "proto/service/execution_report.h"
#include "solver/base/address.h"
#include "solver/base/file.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

// A report is not worth a longer delay at the end of a job.
constexpr double kReportSeconds = 2;

}  // namespace

absl::Status CheckServers(const std::vector<std::string>& servers) {
  for (const std::string& server : servers) RETURN_IF_ERROR(CheckAddress(server));
  return absl::OkStatus();
}

absl::StatusOr<PlannedAnswer> FindSchedule(const ServiceOptions& options, const Chain& chain,
                                           const Platform& platform, const std::string& solver) {
  SolveRequest request{chain, platform, solver, {}};
  // Measured times are noisy: rounded, those of the next run have the same cached answer.
  request.options.time_precision = kDefaultTimePrecision;
  PlannerOptions planner;
  planner.servers = options.servers;
  ASSIGN_OR_RETURN(planner.credentials, ReadCredentials(options.credentials));
  planner.patience_seconds = options.patience_seconds;
  planner.plan_cache = options.plan_cache;
  return FindPlan(planner, request);
}

absl::Status ReportExecution(const ServiceOptions& options, const ExecutionReport& report) {
  RemoteOptions remote{.servers = options.servers, .timeout_seconds = kReportSeconds};
  ASSIGN_OR_RETURN(remote.credentials, ReadCredentials(options.credentials));
  return RemoteScheduler(remote).ReportExecution(report);
}

absl::Status WriteChain(const std::string& path, const Chain& chain) {
  return WriteFile(path, ToJson(ToMessage(chain)));
}

absl::Status WritePlatform(const std::string& path, const Platform& platform) {
  return WriteFile(path, ToJson(ToMessage(platform)));
}

}  // namespace stowage
