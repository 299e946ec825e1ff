#include "client/lib/planner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/lib/plan_file.h"
#include "client/lib/remote_scheduler.h"
#include "client/lib/retry.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsUntil(Clock::time_point moment) {
  return std::chrono::duration<double>(moment - Clock::now()).count();
}

// Calls the server until it answers, fails in a way that a retry does not help, or `deadline`.
absl::StatusOr<SolveResult> SolveRemotely(const PlannerOptions& options,
                                          const SolveRequest& request, Clock::time_point deadline) {
  // With less time than this an attempt could only replace the error by a misleading one.
  constexpr double kLeastAttemptSeconds = 0.02;
  RemoteScheduler scheduler({.server = options.server,
                             .timeout_seconds = std::nullopt,
                             .credentials = options.credentials});
  Backoff backoff(std::random_device{}());
  while (true) {
    SolveCall call;
    call.timeout_seconds = std::max(0.0, SecondsUntil(deadline));
    absl::StatusOr<SolveResult> result = scheduler.Solve(request, call);
    if (result.ok() || !IsRetryable(result.status())) return result;
    const double pause = backoff.NextSeconds(result.status());
    if (pause + kLeastAttemptSeconds >= SecondsUntil(deadline)) return result;
    std::this_thread::sleep_for(std::chrono::duration<double>(pause));
  }
}

Clock::time_point After(double seconds) {
  constexpr double kLong = 1e7;  // four months; more would overflow some clocks
  const std::chrono::duration<double> patience(std::clamp(seconds, 0.0, kLong));
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(patience);
}

// Tries the sources in the order of FindPlan(). A source that fails leaves a note, unless it is a
// missing plan file, and the next one is tried. An invalid request ends the search: no source could
// solve it.
class Search {
 public:
  Search(const PlannerOptions& options, const SolveRequest& request)
      : options_(options), request_(request), deadline_(After(options.patience_seconds)) {}

  absl::StatusOr<PlannedAnswer> Run() {
    LoadSaved();
    // A server may have a better answer than a plan that was solved locally.
    if (saved_.has_value() && (!saved_->solved_locally || options_.server.empty())) {
      return FromSaved();
    }
    if (!options_.server.empty()) {
      absl::StatusOr<SolveResult> remote = SolveRemotely(options_, request_, deadline_);
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
  const Clock::time_point deadline_;  // of all attempts at the server
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

}  // namespace stowage
