#include "client/lib/planner.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "solver/base/status_macros.h"
#ifdef STOWAGE_GRPC
#include "client/lib/remote_scheduler.h"
#include "client/lib/saved_plan/plan_file.h"
#endif

namespace stowage {

#ifdef STOWAGE_GRPC

namespace {

absl::StatusOr<SolveResult> SolveRemotely(const PlannerOptions& options,
                                          const SolveRequest& request) {
  constexpr double kLong = 1e7;  // four months; more would overflow some clocks
  const double patience = std::clamp(options.patience_seconds, 0.0, kLong);
  RemoteScheduler scheduler({.servers = options.servers,
                             .timeout_seconds = patience,
                             .patience_seconds = patience,
                             .credentials = options.credentials});
  return scheduler.Solve(request, {});
}

// Tries the sources in the order of FindPlan(). A source that fails leaves a note, unless it is a
// missing plan file, and the next one is tried. An invalid request ends the search: no source could
// solve it.
class Search {
 public:
  Search(const PlannerOptions& options, const SolveRequest& request)
      : options_(options), request_(request) {}

  absl::StatusOr<PlannedAnswer> Run() {
    LoadSaved();
    // A server may have a better answer than a plan that was solved locally.
    if (saved_.has_value() && (!saved_->solved_locally || options_.servers.empty())) {
      return FromSaved();
    }
    if (!options_.servers.empty()) {
      absl::StatusOr<SolveResult> remote = SolveRemotely(options_, request_);
      if (remote.ok()) return Save(*std::move(remote), PlanSource::kServer);
      if (absl::IsInvalidArgument(remote.status())) return remote.status();
      AddNote(remote.status());
    }
    if (saved_.has_value()) return FromSaved();
    absl::StatusOr<SolveResult> local = LocalScheduler(options_.local).Solve(request_, {});
    if (local.ok()) return Save(*std::move(local), PlanSource::kLocal);
    if (absl::IsInvalidArgument(local.status()) || notes_.empty()) return local.status();
    return absl::Status(
        local.status().code(),
        absl::StrCat(absl::StrJoin(notes_, "; "), "; solving here: ", local.status().message()));
  }

 private:
  void AddNote(const absl::Status& failure) { notes_.emplace_back(failure.message()); }

  void LoadSaved() {
    if (options_.plan_cache.empty()) return;
    absl::StatusOr<SavedPlan> saved = LoadPlan(options_.plan_cache, request_);
    if (saved.ok()) {
      saved_ = *std::move(saved);
    } else if (!absl::IsNotFound(saved.status())) {  // expected on a job's first run
      AddNote(saved.status());
    }
  }

  PlannedAnswer FromSaved() {
    return {std::move(saved_->result), PlanSource::kPlanFile, std::move(notes_)};
  }

  // The answer, saved for the next run.
  PlannedAnswer Save(SolveResult result, PlanSource source) {
    if (!options_.plan_cache.empty() && result.answer->outcome != Outcome::kInfeasible) {
      const SavedPlan plan{result, /*solved_locally=*/source == PlanSource::kLocal};
      const absl::Status status = SavePlan(options_.plan_cache, request_, plan);
      if (!status.ok()) AddNote(status);
    }
    return {std::move(result), source, std::move(notes_)};
  }

  const PlannerOptions& options_;
  const SolveRequest& request_;
  std::optional<SavedPlan> saved_;
  std::vector<std::string> notes_;
};

}  // namespace

absl::StatusOr<PlannedAnswer> FindPlan(const PlannerOptions& options, const SolveRequest& request) {
  if (std::isnan(options.patience_seconds)) {
    return absl::InvalidArgumentError("patience_seconds: is not a number; 0 calls the server once");
  }
  return Search(options, request).Run();
}

absl::Status ReportExecution(const PlannerOptions& options, const ExecutionReport& report) {
  constexpr double kSeconds = 2;  // a report is not worth a longer delay at the end of a job
  return RemoteScheduler({.servers = options.servers,
                          .timeout_seconds = kSeconds,
                          .credentials = options.credentials})
      .ReportExecution(report);
}

#else

absl::StatusOr<PlannedAnswer> FindPlan(const PlannerOptions& options, const SolveRequest& request) {
  PlannedAnswer planned;
  planned.source = PlanSource::kLocal;
  if (!options.servers.empty()) {
    planned.notes.push_back(absl::StrCat(absl::StrJoin(options.servers, ", "),
                                         ": not asked, since this program was built without gRPC"));
  }
  ASSIGN_OR_RETURN(planned.result, LocalScheduler(options.local).Solve(request, {}));
  return planned;
}

absl::Status ReportExecution(const PlannerOptions& /*options*/, const ExecutionReport& /*report*/) {
  return absl::UnimplementedError("this program was built without gRPC");
}

#endif

}  // namespace stowage
