#include "solver/solve/find_frontier.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "solver/algorithms/working_bytes.h"
#include "solver/base/out_of_memory.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"
#include "solver/bounds/lower_bound.h"
#include "solver/bounds/memory_range.h"
#include "solver/bounds/short_program_search.h"
#include "solver/simulator/simulator.h"
#include "solver/solve/catalog.h"

namespace stowage {
namespace {

// Budget i of n is least * (most / least)^(i / (n-1)) bytes, rounded down; the ends are exact.
std::vector<int64_t> SpacedBudgets(int64_t least, int64_t most, int points) {
  if (least >= most) return {least};
  std::vector<int64_t> budgets;
  // A least of 0 bytes is possible, but has no factor; space from 1 byte then.
  const double factor =
      static_cast<double>(most) / static_cast<double>(std::max<int64_t>(1, least));
  for (int i = 0; i < points; ++i) {
    const double share = static_cast<double>(i) / (points - 1);
    const double bytes = static_cast<double>(std::max<int64_t>(1, least)) * std::pow(factor, share);
    budgets.push_back(std::clamp(static_cast<int64_t>(bytes), least, most));
  }
  budgets.front() = least;
  budgets.back() = most;
  return budgets;
}

// The budgets of the request, or spaced ones, in ascending order without duplicates.
std::vector<int64_t> Budgets(const FrontierRequest& request, std::optional<int64_t> least,
                             int64_t most) {
  std::vector<int64_t> budgets = request.budgets;
  if (budgets.empty() && least.has_value()) {
    budgets =
        SpacedBudgets(*least, most, request.points > 0 ? request.points : kDefaultFrontierPoints);
  }
  std::sort(budgets.begin(), budgets.end());
  budgets.erase(std::unique(budgets.begin(), budgets.end()), budgets.end());
  return budgets;
}

// Finds the points of one request, from the highest budget down, since a Solution serves lower
// budgets than its own.
class FrontierSearch {
 public:
  FrontierSearch(const FrontierRequest& request, const SolveContext& context)
      : info_(*FindSolver(request.solver)),
        solver_(info_.make()),
        exact_{request.chain, request.platform, request.solver, request.options},
        units_(exact_.chain),
        context_(context) {}

  absl::StatusOr<Frontier> Run(const FrontierRequest& request) {
    RETURN_IF_ERROR(FillMemoryRange(request));
    const std::vector<int64_t> budgets =
        Budgets(request, frontier_.minimum_memory_bytes, frontier_.most_memory_bytes);
    RETURN_IF_ERROR(FillPoints(budgets));
    UseFasterSchedulesOfLowerBudgets();
    frontier_.knee = KneeOf(frontier_.points);
    return std::move(frontier_);
  }

 private:
  // The solver's name, and the memory below and above which nothing changes.
  absl::Status FillMemoryRange(const FrontierRequest& request) {
    frontier_.solver = info_.description.name;
    frontier_.memory_floor_bytes = FloorOfMemory(exact_.chain, units_).bytes;
    frontier_.most_memory_bytes = StoreAllPeakBytes(request.chain);
    const int64_t highest = request.budgets.empty()
                                ? frontier_.most_memory_bytes
                                : *std::max_element(request.budgets.begin(), request.budgets.end());
    // Before the least memory is computed, which may take long.
    RETURN_IF_ERROR(
        CheckWorkingBytes(info_, *solver_, InstanceFor(highest), context_.working_bytes));
    ASSIGN_OR_RETURN(frontier_.minimum_memory_bytes,
                     solver_->LeastBytes(Instance::Exact(exact_), context_));
    return absl::OkStatus();
  }

  // One point for each budget, solved from the highest to the lowest. Those below the least memory
  // stay infeasible.
  absl::Status FillPoints(const std::vector<int64_t>& budgets) {
    frontier_.points.resize(budgets.size());
    for (size_t i = 0; i < budgets.size(); ++i) frontier_.points[i].memory_bytes = budgets[i];
    const int64_t least = frontier_.minimum_memory_bytes.value_or(INT64_MAX);
    const auto feasible = static_cast<size_t>(std::count_if(
        budgets.begin(), budgets.end(), [least](int64_t budget) { return least <= budget; }));
    const size_t first = budgets.size() - feasible;
    for (size_t left = feasible; left > 0; --left) {
      RETURN_IF_ERROR(Fill(budgets[first], &frontier_.points[first + left - 1]));
      context_.Report(static_cast<double>(feasible - left + 1) / static_cast<double>(feasible));
    }
    return absl::OkStatus();
  }

  Instance InstanceFor(int64_t memory_bytes) {
    exact_.platform.memory_bytes = memory_bytes;
    return Instance::ExactSizes(exact_);
  }

  // Solves for the point's budget, unless the last solution serves it. `lowest` is the least budget
  // that a new solution will be queried for.
  absl::Status Fill(int64_t lowest, FrontierPoint* point) {
    if (solution_ == nullptr || point->memory_bytes < solution_->serves_from_bytes()) {
      const Instance instance = InstanceFor(point->memory_bytes);
      RETURN_IF_ERROR(CheckWorkingBytes(info_, *solver_, instance, context_.working_bytes));
      solution_.reset();  // frees its tables before the next solve
      SolveContext context = Context();
      context.lowest_bytes = lowest;
      context.progress = nullptr;
      ASSIGN_OR_RETURN(solution_, solver_->Solve(instance, context));
      times_rounded_ = instance.times_rounded();
      ++frontier_.solves;
    } else if (solution_->solves_each_budget()) {
      ++frontier_.solves;
    }
    ASSIGN_OR_RETURN(std::optional<Candidate> candidate,
                     solution_->ScheduleWithin(point->memory_bytes, Context()));
    if (!candidate.has_value() && !hint_.operations.empty()) {
      hint_.operations.clear();
      solution_.reset();
      return Fill(lowest, point);
    }
    if (candidate.has_value()) {
      hint_ = candidate->schedule;
      Accept(*std::move(candidate), point);
    } else {
      frontier_.notes.push_back(absl::StrCat("no schedule of at most ", kMaxOperations,
                                             " operations was found within ",
                                             FormatBytes(point->memory_bytes)));
    }
    return absl::OkStatus();
  }

  SolveContext Context() const {
    SolveContext context = context_;
    context.progress = nullptr;  // of one point: FillPoints() reports
    if (!hint_.operations.empty()) context.hint = &hint_;
    return context;
  }

  // Fills the point if the candidate, simulated on the exact chain, fits its budget; otherwise
  // lists its solver as rejected.
  void Accept(Candidate candidate, FrontierPoint* point) {
    exact_.platform.memory_bytes = point->memory_bytes;
    const absl::StatusOr<Simulation> simulation =
        SimulateWithBound(exact_.chain, exact_.platform, candidate.schedule);
    if (!simulation.ok() || !simulation->feasible()) {
      frontier_.rejected.emplace_back(candidate.solver);
      return;
    }
    for (std::string& note : candidate.notes) {
      if (std::count(frontier_.notes.begin(), frontier_.notes.end(), note) == 0) {
        frontier_.notes.push_back(std::move(note));
      }
    }
    point->prediction = simulation->prediction;
    point->solver = candidate.solver;
    point->guarantee = candidate.guarantee;
    if (times_rounded_ && IsProved(point->guarantee)) point->guarantee = Guarantee::kUpToRounding;
    // What `auto` proves of a short chain is proved of all schedules.
    if (&info_ == FindSolver("auto") && point->guarantee == Guarantee::kOptimal &&
        IsSearched(exact_.chain, exact_.platform)) {
      SetBoundToMakespan(&point->prediction);
    } else {
      RaiseBoundWithoutLink(point);
    }
    if (MeetsBound(point->prediction)) point->guarantee = Guarantee::kOptimal;
    point->outcome = OutcomeOf(point->guarantee);
  }

  // With a link the closer bound would take as long as the point itself.
  void RaiseBoundWithoutLink(FrontierPoint* point) const {
    if (exact_.platform.has_link()) return;
    RaiseBound(exact_.chain, exact_.platform, &point->prediction, BoundTime::kShort, context_.stop);
  }

  // A schedule fits every higher budget, too. Rounded tables may find a faster one for less memory.
  void UseFasterSchedulesOfLowerBudgets() {
    const FrontierPoint* best = nullptr;  // of the budgets so far
    for (FrontierPoint& point : frontier_.points) {
      if (best != nullptr &&
          (point.outcome == Outcome::kInfeasible ||
           point.prediction.makespan_seconds > best->prediction.makespan_seconds)) {
        const int64_t memory_bytes = point.memory_bytes;
        constexpr double kNoise = 1e-12;  // difference of equal sums in another order
        const bool same =
            point.outcome != Outcome::kInfeasible && IsProved(point.guarantee) &&
            point.prediction.makespan_seconds <= best->prediction.makespan_seconds * (1 + kNoise);
        const Guarantee before = point.guarantee;
        point = *best;
        point.memory_bytes = memory_bytes;
        exact_.platform.memory_bytes = memory_bytes;
        FillBound(exact_.chain, units_, exact_.platform, &point.prediction);
        RaiseBoundWithoutLink(&point);
        // Optimal for less memory does not mean optimal for more.
        if (MeetsBound(point.prediction)) {
          point.guarantee = Guarantee::kOptimal;
        } else if (same) {
          point.guarantee = before;
          if (before == Guarantee::kOptimal) SetBoundToMakespan(&point.prediction);
        } else if (IsProved(point.guarantee)) {
          point.guarantee = Guarantee::kUpToRounding;
        }
        point.outcome = OutcomeOf(point.guarantee);
      }
      if (point.outcome != Outcome::kInfeasible) best = &point;
    }
  }

  const SolverInfo& info_;
  const std::unique_ptr<Solver> solver_;
  SolveRequest exact_;  // the request with the memory of the current budget
  const ChainUnits units_;
  const SolveContext& context_;
  std::unique_ptr<const Solution> solution_;  // of the last solve
  Schedule hint_;                             // of the budget above; empty: none
  bool times_rounded_ = false;                // in the instance of the last solve
  Frontier frontier_;
};

}  // namespace

// The points are scaled so that the line goes from (0, 1), the first feasible point, to (1, 0), the
// last: x = log(memory), y = seconds. A point lies below it by 1 - x - y.
std::optional<size_t> KneeOf(const std::vector<FrontierPoint>& points) {
  const auto feasible = [](const FrontierPoint& point) {
    return point.outcome != Outcome::kInfeasible;
  };
  const auto first = std::find_if(points.begin(), points.end(), feasible);
  if (first == points.end()) return std::nullopt;
  const FrontierPoint& last = points.back();
  const auto memory = [](const FrontierPoint& point) {
    return std::log(static_cast<double>(std::max<int64_t>(1, point.memory_bytes)));
  };
  const auto seconds = [](const FrontierPoint& point) { return point.prediction.makespan_seconds; };
  const double width = memory(last) - memory(*first);
  const double height = seconds(*first) - seconds(last);
  if (width <= 0 || height <= 0) return std::nullopt;
  std::optional<size_t> knee;
  double farthest = 1e-9;  // smaller distances are rounding errors
  for (auto point = first; point != points.end(); ++point) {
    const double right = (memory(*point) - memory(*first)) / width;
    const double up = (seconds(*point) - seconds(last)) / height;
    const double below = 1 - right - up;
    if (below <= farthest) continue;
    farthest = below;
    knee = static_cast<size_t>(point - points.begin());
  }
  return knee;
}

absl::StatusOr<Frontier> FindFrontier(const FrontierRequest& request, const SolveContext& context) {
  return UnlessOutOfMemory([&] { return FrontierSearch(request, context).Run(request); },
                           OutOfMemory);
}

}  // namespace stowage
