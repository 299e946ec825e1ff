#include "client/lib/planner.h"

#include <algorithm>
#include <chrono>
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

absl::StatusOr<v1::SolveResponse> AskUntil(Clock::time_point end, const std::string& server,
                                           const v1::SolveRequest& request) {
  Client client({.server = server, .timeout_seconds = std::nullopt});
  Backoff backoff(std::random_device{}());
  while (true) {
    absl::StatusOr<v1::SolveResponse> response =
        client.Solve(request, std::max(0.0, SecondsUntil(end)));
    if (response.ok() || !IsRetryable(response.status())) return response;
    const double pause = backoff.NextSeconds(response.status());
    if (pause >= SecondsUntil(end)) return response;
    std::this_thread::sleep_for(std::chrono::duration<double>(pause));
  }
}

}  // namespace

absl::StatusOr<PlannedAnswer> FindPlan(const PlannerOptions& options,
                                       const v1::SolveRequest& request) {
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(options.patience_seconds));
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
  if (!options.plan_cache.empty()) {
    absl::StatusOr<v1::SolveResponse> saved = LoadPlan(options.plan_cache, request);
    // That there is none yet is no news.
    if (!absl::IsNotFound(saved.status()) && take(std::move(saved), PlanSource::kPlanFile)) {
      return answer;
    }
  }
  bool found = false;
  if (!options.server.empty()) {
    absl::StatusOr<v1::SolveResponse> response = AskUntil(end, options.server, request);
    if (absl::IsInvalidArgument(response.status())) return response.status();
    found = take(std::move(response), PlanSource::kServer);
  }
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
    const absl::Status saved = SavePlan(options.plan_cache, request, answer.response);
    if (!saved.ok()) answer.notes.emplace_back(saved.message());
  }
  return answer;
}

}  // namespace stowage
