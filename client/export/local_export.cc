#include "client/export/local_export.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "proto/service/results.h"
#include "solver/base/status_macros.h"
#include "solver/base/time/stop.h"
#include "solver/base/time/timers.h"
#include "solver/base/units.h"
#include "solver/model/request.h"

namespace stowage {
namespace {

absl::StatusOr<TargetPlan> FindPlan(const ExportRequest& request, const LocalOptions& options) {
  const std::optional<SolveRequest> solve = PlanSolve(request, {});
  if (!solve.has_value()) {
    if (!options.timeout_seconds.has_value()) return FindSetting(request, options.stop);
    Timers timers;
    const TimedStop timeout(*options.timeout_seconds, options.stop, &timers);
    return FindSetting(request, timeout.token());
  }
  ASSIGN_OR_RETURN(const SolveResult result, LocalScheduler(options).Solve(*solve, {}));
  return PlanFrom(request, *result.answer);
}

}  // namespace

absl::StatusOr<Export> MakeExport(const ExportRequest& request, const LocalOptions& options) {
  ASSIGN_OR_RETURN(const TargetPlan plan, FindPlan(request, options));
  const SolveRequest solve{request.chain, request.platform, "auto", {}};
  ASSIGN_OR_RETURN(const SolveResult full, LocalScheduler(options).Solve(solve, {}));
  return ExportOf(request, plan, *full.answer);
}

absl::Status KnownInTime(const ExportRequest& request, const Export& result) {
  if (result.exported.has_value() || !result.time_ran_out) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat("time ran out before a plan of ", request.target->framework, " within ",
                   FormatBytes(request.platform.memory_bytes), " was found; allow more"));
}

}  // namespace stowage
