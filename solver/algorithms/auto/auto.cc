#include "solver/algorithms/auto/auto.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "solver/algorithms/auto/auto_modes.h"
#include "solver/algorithms/auto/coarsening.h"
#include "solver/algorithms/auto/incumbent.h"
#include "solver/algorithms/auto/select_solvers.h"
#include "solver/algorithms/pofo/pofo.h"
#include "solver/algorithms/rematerialization/store_all.h"
#include "solver/base/status_macros.h"
#include "solver/bounds/memory_range.h"
#include "solver/bounds/short_program_search.h"

namespace stowage {
namespace {

// The longest chains for which a hint is improved by all of pofo's plans.
constexpr int kMaxPortfolioStages = 120;

// With a link, only a solve that starts from a hint is fast.
bool StartsFromHint(const Instance& instance, const SolveContext& context) {
  return context.hint != nullptr && instance.platform().has_link();
}

// The solutions of all solvers that ran. The instance's own budget is answered while they are
// added, every other budget when it is queried.
class AutoSolution final : public Solution {
 public:
  // `spare_bytes`: what may be allocated beside the solutions.
  AutoSolution(const Instance& instance, std::vector<std::string> notes, int64_t spare_bytes)
      : instance_(instance),
        notes_(std::move(notes)),
        spare_bytes_(spare_bytes),
        own_(instance_, instance_.platform().memory_bytes) {}

  // Adds a solution and its schedule for the instance's own budget.
  absl::Status Add(std::unique_ptr<const Solution> solution, const SolveContext& context) {
    RETURN_IF_ERROR(own_.Consider(*solution, context));
    solutions_.push_back(std::move(solution));
    return absl::OkStatus();
  }

  // Considers a schedule that a solver publishes on its way.
  void Consider(const Candidate& candidate, const SolveContext& context) {
    own_.Consider(candidate, context);
  }

  const Incumbent& own() const { return own_; }
  // Whether the schedule for the instance's own budget is at least as fast.
  bool Reaches(double seconds) const { return own_.found() && own_.seconds() <= seconds; }

  // Call once, after the last Add().
  absl::Status Finish(const SolveContext& context) {
    ImprovingPhase phase(context, kLocalSearchPhase, own_);
    RETURN_IF_ERROR(StartsFromHint(instance_, context) ? TryHint(*context.hint, context, &own_)
                                                       : Improve(context, &own_));
    phase.End();
    return absl::OkStatus();
  }

  int64_t serves_from_bytes() const override {
    int64_t from = 0;
    for (const auto& solution : solutions_) from = std::max(from, solution->serves_from_bytes());
    return from;
  }

  bool solves_each_budget() const override {
    return std::any_of(solutions_.begin(), solutions_.end(),
                       [](const auto& solution) { return solution->solves_each_budget(); });
  }

  absl::StatusOr<std::optional<Candidate>> ScheduleWithin(
      int64_t memory_bytes, const SolveContext& context) const override {
    if (memory_bytes == own_.memory_bytes()) return own_.WithNotes(notes_);
    Incumbent best(instance_, memory_bytes);
    const bool quick = StartsFromHint(instance_, context);
    for (const auto& solution : solutions_) {
      if (quick && solution->solves_each_budget()) continue;
      RETURN_IF_ERROR(best.Consider(*solution, context));
    }
    RETURN_IF_ERROR(quick ? TryHint(*context.hint, context, &best) : Improve(context, &best));
    return best.WithNotes(notes_);
  }

 private:
  // With a link, instead of the solvers that solve each budget.
  absl::Status TryHint(const Schedule& hint, const SolveContext& context, Incumbent* best) const {
    best->LowerGuarantee();
    RETURN_IF_ERROR(best->StartFrom(hint, spare_bytes_, context));
    if (!best->found() || ImproveByPlansBytes(instance_.chain().length()) > spare_bytes_) {
      return absl::OkStatus();
    }
    SolveContext plans = context.Quiet();
    plans.improved = [&](const Candidate& found) { best->Consider(found, context); };
    const PofoExtent extent = instance_.chain().length() <= kMaxPortfolioStages
                                  ? PofoExtent::kPortfolio
                                  : PofoExtent::kOnePlan;
    return ImproveByPlans(instance_, best->memory_bytes(), extent, best->seconds(), plans).status();
  }

  // After all solutions: a search through all schedules, if the chain is short; else, where there
  // is a link, a local search around the best one.
  absl::Status Improve(const SolveContext& context, Incumbent* best) const {
    best->LowerGuarantee();
    if (!best->found()) return absl::OkStatus();
    const bool has_link = instance_.platform().has_link();
    if (has_link && best->memory_bytes() >= StoreAllPeakBytes(instance_.chain())) {
      return absl::OkStatus();
    }
    if (spare_bytes_ >= kShortChainBytes) {
      ASSIGN_OR_RETURN(const bool proved, best->Prove(context));
      if (proved) return absl::OkStatus();
    }
    return has_link ? best->Improve(spare_bytes_, context) : absl::OkStatus();
  }

  const Instance instance_;
  const std::vector<std::string> notes_;
  const int64_t spare_bytes_;
  std::vector<std::unique_ptr<const Solution>> solutions_;
  Incumbent own_;  // for the instance's own budget; written by Add() and Finish() only
};

class Auto final : public Solver {
 public:
  explicit Auto(std::span<const SolverInfo> solvers) : solvers_(solvers) {}

  // Solvers that need more than is available are left out, so the least need of one is enough.
  int64_t WorkingBytes(const Instance& instance) const override {
    int64_t least = INT64_MAX;
    for (const SelectedSolver& selected : SelectSolvers(solvers_, instance, INT64_MAX).solvers) {
      least = std::min(least, selected.solver->WorkingBytes(selected.instance));
    }
    return least;
  }

  // All tables that stay, and beside them the largest need of a single step.
  int64_t WorkingBytesWithin(const Instance& instance, int64_t max_bytes) const override {
    const SolverSelection selection = SelectSolvers(solvers_, instance, max_bytes);
    int64_t temporary = 0;
    for (const SelectedSolver& selected : selection.solvers) {
      temporary = std::max(temporary, selected.solver->WorkingBytes(selected.instance));
    }
    if (instance.platform().has_link()) {
      temporary = std::max(temporary, Incumbent::ImproveBytes(instance.chain()));
    }
    if (IsSearched(instance.chain(), instance.platform())) {
      temporary = std::max(temporary, kShortChainBytes);
    }
    return max_bytes - std::max<int64_t>(0, selection.spare_bytes - temporary);
  }

  absl::StatusOr<std::optional<int64_t>> LeastBytes(const Instance& instance,
                                                    const SolveContext& context) const override {
    std::optional<int64_t> least;
    const SolverSelection selection = SelectSolvers(solvers_, instance, context.working_bytes);
    // The last ones of the catalog combine what the others do. With a link they mostly need no more
    // than any schedule does, and then nobody else is asked.
    const int64_t floor_bytes = FloorOfMemory(instance.chain(), instance.units()).bytes;
    for (auto selected = selection.solvers.rbegin(); selected != selection.solvers.rend();
         ++selected) {
      ASSIGN_OR_RETURN(const std::optional<int64_t> bytes,
                       selected->solver->LeastBytes(selected->instance, context));
      if (bytes.has_value()) least = std::min(least.value_or(*bytes), *bytes);
      if (least == floor_bytes) break;
    }
    return least;
  }

  absl::StatusOr<std::unique_ptr<const Solution>> Solve(
      const Instance& instance, const SolveContext& context) const override {
    // Nothing is faster than storing everything, if it fits every budget that will be queried.
    const int64_t lowest = std::min(context.lowest_bytes, instance.platform().memory_bytes);
    if (lowest >= StoreAllPeakBytes(instance.chain())) {
      return MakeStoreAll()->Solve(instance, context);
    }
    SolverSelection selection = SelectSolvers(solvers_, instance, context.working_bytes);
    const std::vector<SelectedSolver>& selected = selection.solvers;
    auto solution =
        std::make_unique<AutoSolution>(instance, std::move(selection.notes), selection.spare_bytes);
    const bool quick = StartsFromHint(instance, context);
    absl::string_view exact_solver;             // the last one that solved its class exactly
    const size_t shares = selected.size() + 1;  // of the progress; the last is the local search's
    for (size_t i = 0; i < selected.size(); ++i) {
      // A schedule of this class cannot be faster than the exact one of the class around it.
      if (!exact_solver.empty() && selected[i].info->inside_of == exact_solver) continue;
      if (quick && selected[i].info->description.offloads) continue;
      if (CannotWin(selected[i], *solution, lowest)) continue;
      SolveContext share = context;
      share.progress = context.ShareOfProgress(i, shares);
      if (context.improved) {
        share.improved = [&](const Candidate& found) { solution->Consider(found, context); };
      }
      ImprovingPhase phase(context, selected[i].info->description.name, solution->own());
      ASSIGN_OR_RETURN(std::unique_ptr<const Solution> one,
                       selected[i].solver->Solve(selected[i].instance, share));
      if (one->exact()) exact_solver = selected[i].info->description.name;
      RETURN_IF_ERROR(solution->Add(std::move(one), context));
      phase.End();
    }
    SolveContext last = context;
    last.progress = context.ShareOfProgress(selected.size(), shares);
    RETURN_IF_ERROR(solution->Finish(last));
    context.Report(1);
    return solution;
  }

 private:
  // Whether every schedule of the solver is slower than the best so far, for the only budget that
  // will be queried. With a link, slower schedules are starts of the local search.
  static bool CannotWin(const SelectedSolver& selected, const AutoSolution& best,
                        int64_t lowest_bytes) {
    const Platform& platform = selected.instance.platform();
    if (platform.has_link() || lowest_bytes < platform.memory_bytes) return false;
    constexpr double kRoundingOfSums = 1e-9;
    return best.Reaches((1 - kRoundingOfSums) * selected.solver->LeastSeconds(selected.instance));
  }

  const std::span<const SolverInfo> solvers_;
};

}  // namespace

std::unique_ptr<Solver> MakeAuto(std::span<const SolverInfo> solvers) {
  return MakeAutoOverModes(MakeAutoByCoarsening(std::make_unique<Auto>(solvers), solvers));
}

}  // namespace stowage
