#include "client/cli/experiment/experimenter.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/arguments.h"
#include "client/cli/solve_flags.h"
#include "client/lib/memory_budget.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/modes.h"
#include "solver/solve/answer_request.h"

namespace stowage {
namespace {

std::string PointName(const Point& point) {
  const std::string budget = point.reduction > 0 ? absl::StrFormat("1/%g", point.reduction)
                                                 : absl::StrFormat("alpha %g", point.alpha);
  return absl::StrFormat("%s, %s, %g GB/s, %s", point.network->name, budget, point.bandwidth,
                         point.solver);
}

// The budget as a share of the range from M_low to M_high; below 0 where no schedule exists.
double AlphaOf(const Chain& chain, int64_t memory_bytes) {
  const auto low = static_cast<double>(FloorOfMemory(chain).bytes);
  const auto high = static_cast<double>(StoreAllPeakBytes(chain));
  return high > low ? (static_cast<double>(memory_bytes) - low) / (high - low) : 1;
}

// The answer of the request's solver. An error where the simulator refused its schedule, since the
// row would then measure the solver that stood in for it. Not LocalScheduler::Solve(): a solve that
// is out of time is an error here, while there the best schedule so far is the answer.
absl::StatusOr<Answer> AnswerOf(const SolveRequest& request, const LocalOptions& local) {
  Answer answer;
  const absl::StatusOr<double> seconds =
      RunLocally(local, [&](const SolveContext& context) -> absl::Status {
        ASSIGN_OR_RETURN(answer, AnswerRequest(request, context));
        return absl::OkStatus();
      });
  if (!seconds.ok()) return InFlags(seconds.status(), SolvedBy::kThisProcess);
  if (answer.rejected.empty()) return answer;
  return absl::InternalError(
      absl::StrCat("the simulator refused the schedule of ", absl::StrJoin(answer.rejected, ", ")));
}

}  // namespace

absl::StatusOr<SolveRequest> RequestFor(const Point& point, int64_t slots) {
  SolveRequest request;
  request.chain = point.network->chain;
  request.platform = point.network->platform;
  request.platform.offload_bytes_per_second = point.bandwidth * kGigabyte;
  if (point.reduction > 0) {
    const auto high = static_cast<double>(StoreAllPeakBytes(request.chain));
    request.platform.memory_bytes = static_cast<int64_t>(high / point.reduction);
  } else {
    // Through the text of `solve --memory 20%`, so that both are the same number of bytes.
    ASSIGN_OR_RETURN(request.platform.memory_bytes,
                     ParseBudget(absl::StrFormat("%.12g%%", point.alpha * 100), request.chain));
  }
  request.solver = point.solver;
  request.options.memory_slots = slots;
  return request;
}

Experimenter::Experimenter(const Sweep& sweep, Settings settings, size_t networks)
    : sweep_(sweep),
      settings_(std::move(settings)),
      count_(networks * sweep.budgets() * sweep.bandwidths.size() * sweep.solvers.size()) {}

absl::Status Experimenter::SolveNetwork(const NetworkProfile& network) {
  for (const double bandwidth : sweep_.bandwidths) {
    for (const double alpha : sweep_.alphas) {
      RETURN_IF_ERROR(SolveWithAll({&network, alpha, 0, bandwidth, ""}));
    }
    for (const double reduction : sweep_.reductions) {
      RETURN_IF_ERROR(SolveWithAll({&network, 0, reduction, bandwidth, ""}));
    }
  }
  return absl::OkStatus();
}

absl::Status Experimenter::SolveWithAll(Point point) {
  for (const std::string& solver : sweep_.solvers) {
    point.solver = solver;
    RETURN_IF_ERROR(SolveAndRecord(point));
  }
  return absl::OkStatus();
}

absl::Status Experimenter::Failure() const {
  if (failed_ == 0) return absl::OkStatus();
  return {first_failure_.code(),
          absl::StrCat(failed_, " of ", count_,
                       " points have no answer; the first: ", first_failure_.message())};
}

// A failed solve becomes a row with the code of its error and does not end the sweep.
absl::Status Experimenter::SolveAndRecord(const Point& point) {
  ASSIGN_OR_RETURN(const SolveRequest request, RequestFor(point, settings_.slots));
  Measurement row;
  row.network = point.network->name;
  row.stages = request.chain.length();
  row.alpha =
      point.reduction > 0 ? AlphaOf(request.chain, request.platform.memory_bytes) : point.alpha;
  row.platform = request.platform;
  row.solver = point.solver;
  row.sequential_seconds = ComputeSeconds(request.chain);
  row.transfer_bound_seconds = TransferBoundSeconds(request.chain, request.platform);
  const std::string remark = Solve(point, request, &row);
  // Recorded at once: a sweep may take hours, and its file is read while it grows.
  rows_.push_back(std::move(row));
  Report(point, remark);
  return settings_.record(rows_.back());
}

std::string Experimenter::Solve(const Point& point, const SolveRequest& request, Measurement* row) {
  const auto begin = std::chrono::steady_clock::now();
  const absl::StatusOr<Answer> answer = AnswerOf(request, settings_.local);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  row->solve_seconds = elapsed.count();  // of a failed solve, too
  if (!answer.ok()) {
    if (failed_++ == 0) first_failure_ = Prefixed(PointName(point), answer.status());
    row->outcome = absl::StatusCodeToString(answer.status().code());
    return absl::StrCat(": ", answer.status().message());
  }
  row->outcome = std::string(OutcomeName(answer->outcome));
  if (answer->outcome != Outcome::kInfeasible) {
    row->schedule_of = answer->solver;
    row->prediction = answer->prediction;
  }
  return absl::StrCat(", solved in ", FormatSeconds(row->solve_seconds));
}

void Experimenter::Report(const Point& point, const std::string& remark) const {
  if (!settings_.progress) return;
  const Measurement& row = rows_.back();
  const std::string result = row.prediction.has_value()
                                 ? absl::StrFormat("%+.1f %%", row.prediction->overhead * 100)
                                 : row.outcome;
  settings_.progress(
      absl::StrCat("[", rows_.size(), "/", count_, "] ", PointName(point), ": ", result, remark));
}

}  // namespace stowage
