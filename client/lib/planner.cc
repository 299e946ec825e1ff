#include "client/lib/planner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/lib/client.h"
#include "client/lib/plan_file.h"
#include "client/lib/retry.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsUntil(Clock::time_point moment) {
  return std::chrono::duration<double>(moment - Clock::now()).count();
}

absl::StatusOr<v1::SolveResponse> AskUntil(Clock::time_point end, const PlannerOptions& options,
                                           const v1::SolveRequest& request) {
  constexpr double kTooLittle = 0.02;  // for an attempt to be more than a misleading error
  Client client({.server = options.server,
                 .timeout_seconds = std::nullopt,
                 .credentials = options.credentials});
  Backoff backoff(std::random_device{}());
  while (true) {
    absl::StatusOr<v1::SolveResponse> response =
        client.Solve(request, std::max(0.0, SecondsUntil(end)));
    if (response.ok() || !IsRetryable(response.status())) return response;
    const double pause = backoff.NextSeconds(response.status());
    if (pause + kTooLittle >= SecondsUntil(end)) return response;
    std::this_thread::sleep_for(std::chrono::duration<double>(pause));
  }
}

Clock::time_point After(double seconds) {
  constexpr double kLong = 1e7;  // four months; more would overflow some clocks
  const std::chrono::duration<double> patience(std::clamp(seconds, 0.0, kLong));
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(patience);
}

}  // namespace

absl::StatusOr<PlannedAnswer> FindPlan(const PlannerOptions& options,
                                       const v1::SolveRequest& request) {
  if (std::isnan(options.patience_seconds)) {
    return absl::InvalidArgumentError("patience_seconds: is not a number; 0 asks a server once");
  }
  const Clock::time_point end = After(options.patience_seconds);
  PlannedAnswer answer;
  const auto take = [&answer](absl::StatusOr<v1::SolveResponse> response, PlanSource source) {
    if (!response.ok()) {
      answer.notes.emplace_back(response.status().message());
      return false;
    }
    answer.response = *std::move(response);
    answer.source = source;
    return true;
  };
  absl::StatusOr<v1::SavedPlan> saved = absl::NotFoundError("");
  if (!options.plan_cache.empty()) saved = LoadPlan(options.plan_cache, request);
  // That there is none yet is no news.
  if (!saved.ok() && !absl::IsNotFound(saved.status())) {
    answer.notes.emplace_back(saved.status().message());
  }
  const auto take_saved = [&] {
    answer.response = std::move(*saved->mutable_response());
    answer.source = PlanSource::kPlanFile;
    return answer;
  };
  // A server may know better than what was solved without one.
  if (saved.ok() && (!saved->solved_locally() || options.server.empty())) return take_saved();
  bool found = false;
  if (!options.server.empty()) {
    absl::StatusOr<v1::SolveResponse> response = AskUntil(end, options, request);
    if (absl::IsInvalidArgument(response.status())) return response.status();
    found = take(std::move(response), PlanSource::kServer);
  }
  if (!found && saved.ok()) return take_saved();
  if (!found) {
    absl::StatusOr<v1::SolveResponse> response = SolveLocally(options.local, request);
    if (absl::IsInvalidArgument(response.status()) || (!response.ok() && answer.notes.empty())) {
      return response.status();
    }
    if (!response.ok()) {
      return absl::Status(response.status().code(),
                          absl::StrCat(absl::StrJoin(answer.notes, "; "),
                                       "; solving here: ", response.status().message()));
    }
    take(std::move(response), PlanSource::kLocal);
  }
  if (!options.plan_cache.empty() && answer.response.outcome() != v1::INFEASIBLE) {
    v1::SavedPlan plan;
    *plan.mutable_request() = request;
    *plan.mutable_response() = answer.response;
    plan.set_solved_locally(!found);
    const absl::Status status = SavePlan(options.plan_cache, std::move(plan));
    if (!status.ok()) answer.notes.emplace_back(status.message());
  }
  return answer;
}

}  // namespace stowage
