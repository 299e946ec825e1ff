#include <cstdint>
#include <utility>

#include "client/lib/local_scheduler.h"
#include "client/train/schedule_service.h"
#include "proto/service/execution_report.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

absl::Status NeedsGrpc() { return absl::UnimplementedError("this program was built without gRPC"); }

}  // namespace

absl::Status CheckServers(const std::vector<std::string>& /*servers*/) { return absl::OkStatus(); }

absl::StatusOr<PlannedAnswer> FindSchedule(const ServiceOptions& /*options*/, const Chain& chain,
                                           const Platform& platform, const std::string& solver) {
  // No limit on working memory: nothing else solves in this process.
  LocalScheduler scheduler({.working_bytes = INT64_MAX, .timeout_seconds = {}});
  PlannedAnswer answer;
  answer.source = PlanSource::kLocal;
  ASSIGN_OR_RETURN(answer.result, scheduler.Solve({chain, platform, solver, {}}, {}));
  return answer;
}

absl::Status ReportExecution(const ServiceOptions& /*options*/, const ExecutionReport& /*report*/) {
  return NeedsGrpc();
}

absl::Status WriteChain(const std::string& /*path*/, const Chain& /*chain*/) { return NeedsGrpc(); }

absl::Status WritePlatform(const std::string& /*path*/, const Platform& /*platform*/) {
  return NeedsGrpc();
}

}  // namespace stowage
