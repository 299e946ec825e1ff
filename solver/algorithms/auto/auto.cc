#include "solver/algorithms/auto/auto.h"

#include <algorithm>
#include <climits>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "solver/algorithms/auto/auto_modes.h"
#include "solver/algorithms/auto/select_solvers.h"
#include "solver/algorithms/pofo/local_search.h"
#include "solver/algorithms/pofo/part_sequences.h"
#include "solver/algorithms/rematerialization/store_all.h"
#include "solver/base/status_macros.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/modes.h"
#include "solver/simulator/simulator.h"

namespace stowage {
namespace {

// The context of solver `index` of `count`: an equal share of the progress.
SolveContext ShareOf(const SolveContext& context, size_t index, size_t count) {
  SolveContext share = context;
  share.progress = [&context, index, count](double fraction) {
    context.Report((static_cast<double>(index) + fraction) / static_cast<double>(count));
  };
  return share;
}

// ImproveOptions::effort: a few seconds for long chains.
int64_t EffortFor(const Chain& chain) {
  constexpr int64_t kPerStage = 150'000;
  return std::clamp<int64_t>(kPerStage * chain.length(), 300'000, 24'000'000);
}

// What parts the local search may use. No faster schedule recomputes for longer than the schedule
// that it starts from, of `seconds`, loses in total.
PartSequences::Options LocalSearchOptions(const Chain& chain, int64_t memory_bytes,
                                          double seconds) {
  constexpr int kStepsPerPart = 12;
  constexpr int kLongChain = 400;
  constexpr int kLongPart = 64;
  return {.memory_bytes = memory_bytes,
          .most_recompute_seconds = seconds - ComputeSeconds(chain),
          .most_steps_per_part = kStepsPerPart,
          .most_stages = chain.length() <= kLongChain ? INT_MAX : kLongPart};
}

int64_t LocalSearchBytes(const Chain& chain) {
  return PartSequences::WorkingBytes(chain.length(), LocalSearchOptions(chain, 0, 0));
}

// The solutions of all solvers that ran. The instance's own budget is answered while they are
// added, every other budget when it is queried.
class AutoSolution final : public Solution {
 public:
  // `spare_bytes`: what may be allocated beside the solutions.
  AutoSolution(const Instance& instance, std::vector<std::string> notes, int64_t spare_bytes)
      : instance_(instance), notes_(std::move(notes)), spare_bytes_(spare_bytes) {}

  // Adds a solution and its schedule for the instance's own budget.
  absl::Status Add(std::unique_ptr<const Solution> solution, const SolveContext& context) {
    RETURN_IF_ERROR(TrySolution(*solution, instance_.platform().memory_bytes, context, &own_));
    solutions_.push_back(std::move(solution));
    return absl::OkStatus();
  }

  // Call once, after the last Add().
  absl::Status Finish(const SolveContext& context) {
    return ImproveAndAnnotate(instance_.platform().memory_bytes, context, &own_);
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
    if (memory_bytes == instance_.platform().memory_bytes) return own_.candidate;
    Best best;
    for (const auto& solution : solutions_) {
      RETURN_IF_ERROR(TrySolution(*solution, memory_bytes, context, &best));
    }
    RETURN_IF_ERROR(ImproveAndAnnotate(memory_bytes, context, &best));
    return std::move(best.candidate);
  }

 private:
  // The best candidate for one budget so far.
  struct Best {
    std::optional<Candidate> candidate;
    // Makespan, then whether there is no guarantee, then the peak; the least wins.
    std::tuple<double, bool, int64_t> key;
  };

  // Considers a solution's schedule for one budget.
  absl::Status TrySolution(const Solution& solution, int64_t memory_bytes,
                           const SolveContext& context, Best* best) const {
    SolveContext quiet = context;
    quiet.progress = nullptr;
    ASSIGN_OR_RETURN(std::optional<Candidate> candidate,
                     solution.ScheduleWithin(memory_bytes, quiet));
    if (candidate.has_value()) KeepIfBetter(*std::move(candidate), memory_bytes, context, best);
    return absl::OkStatus();
  }

  // After all solutions: local search, guarantee and notes of the best candidate.
  absl::Status ImproveAndAnnotate(int64_t memory_bytes, const SolveContext& context,
                                  Best* best) const {
    if (!best->candidate.has_value()) return absl::OkStatus();
    if (instance_.platform().has_link() && memory_bytes < StoreAllPeakBytes(instance_.chain())) {
      // The optimum without offloading need not be optimal with it.
      if (best->candidate->limit == Limit::kNone) best->candidate->limit = Limit::kHeuristic;
      RETURN_IF_ERROR(RunLocalSearch(memory_bytes, context, best));
    }
    best->candidate->notes = notes_;
    return absl::OkStatus();
  }

  // Replaces *best if the candidate, simulated on the instance, fits and has a smaller key.
  void KeepIfBetter(Candidate candidate, int64_t memory_bytes, const SolveContext& context,
                    Best* best) const {
    const absl::StatusOr<Simulation> simulation =
        Simulate(instance_.chain(), instance_.platform(), candidate.schedule);
    if (!simulation.ok() || !simulation->feasible()) return;
    const Prediction& prediction = simulation->prediction;
    if (prediction.peak_memory_bytes > memory_bytes) return;
    const std::tuple key(prediction.makespan_seconds, candidate.limit != Limit::kNone,
                         prediction.peak_memory_bytes);
    if (best->candidate.has_value() && best->key <= key) return;
    const bool faster =
        !best->candidate.has_value() || prediction.makespan_seconds < std::get<0>(best->key);
    best->key = key;
    best->candidate = std::move(candidate);
    if (faster && context.improved) context.improved(*best->candidate);
  }

  // Starts from the best candidate. Without memory for PartSequences it changes only transfers and
  // single stages.
  absl::Status RunLocalSearch(int64_t memory_bytes, const SolveContext& context, Best* best) const {
    const Chain& chain = instance_.chain();
    const PartSequences::Options options =
        LocalSearchOptions(chain, memory_bytes, std::get<0>(best->key));
    std::optional<PartSequences> sequences;
    if (LocalSearchBytes(chain) <= spare_bytes_) {
      ASSIGN_OR_RETURN(sequences, PartSequences::Build(chain, options, context));
    }
    ASSIGN_OR_RETURN(std::optional<Schedule> better,
                     Improve(chain, instance_.platform(), best->candidate->schedule,
                             {.memory_bytes = memory_bytes,
                              .effort = EffortFor(chain),
                              .sequences = sequences.has_value() ? &*sequences : nullptr},
                             context));
    if (!better.has_value() || better->operations.size() > kMaxOperations) return absl::OkStatus();
    KeepIfBetter({*std::move(better), "auto", Limit::kHeuristic, {}}, memory_bytes, context, best);
    return absl::OkStatus();
  }

  const Instance instance_;
  const std::vector<std::string> notes_;
  const int64_t spare_bytes_;
  std::vector<std::unique_ptr<const Solution>> solutions_;
  Best own_;  // for the instance's own budget; written by Add() and Finish() only
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
  int64_t WorkingBytesWithin(const Instance& instance, int64_t most_bytes) const override {
    const SolverSelection selection = SelectSolvers(solvers_, instance, most_bytes);
    int64_t temporary = 0;
    for (const SelectedSolver& selected : selection.solvers) {
      temporary = std::max(temporary, selected.solver->WorkingBytes(selected.instance));
    }
    if (instance.platform().has_link()) {
      temporary = std::max(temporary, LocalSearchBytes(instance.chain()));
    }
    return most_bytes - std::max<int64_t>(0, selection.spare_bytes - temporary);
  }

  absl::StatusOr<std::optional<int64_t>> LeastBytes(const Instance& instance,
                                                    const SolveContext& context) const override {
    std::optional<int64_t> least;
    const SolverSelection selection = SelectSolvers(solvers_, instance, context.working_bytes);
    for (const SelectedSolver& selected : selection.solvers) {
      ASSIGN_OR_RETURN(const std::optional<int64_t> bytes,
                       selected.solver->LeastBytes(selected.instance, context));
      if (bytes.has_value()) least = std::min(least.value_or(*bytes), *bytes);
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
    absl::string_view exact_solver;             // the last one that solved its class exactly
    const size_t shares = selected.size() + 1;  // of the progress; the last is the local search's
    for (size_t i = 0; i < selected.size(); ++i) {
      // A schedule of this class cannot be faster than the exact one of the class around it.
      if (!exact_solver.empty() && selected[i].info->inside_of == exact_solver) continue;
      ASSIGN_OR_RETURN(
          std::unique_ptr<const Solution> one,
          selected[i].solver->Solve(selected[i].instance, ShareOf(context, i, shares)));
      if (one->exact()) exact_solver = selected[i].info->description.name;
      RETURN_IF_ERROR(solution->Add(std::move(one), context));
    }
    RETURN_IF_ERROR(solution->Finish(ShareOf(context, selected.size(), shares)));
    context.Report(1);
    return solution;
  }

 private:
  const std::span<const SolverInfo> solvers_;
};

}  // namespace

std::unique_ptr<Solver> MakeAuto(std::span<const SolverInfo> solvers) {
  return MakeAutoOverModes(std::make_unique<Auto>(solvers));
}

}  // namespace stowage
