
#include "solver/algorithms/auto/coarsening.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "solver/algorithms/auto/full_length.h"
#include "solver/algorithms/auto/incumbent.h"
#include "solver/algorithms/auto/merged_chain.h"
#include "solver/algorithms/by_budget.h"
#include "solver/algorithms/pofo/pofo.h"
#include "solver/algorithms/rematerialization/leaving_minimum.h"
#include "solver/algorithms/rematerialization/periodic.h"
#include "solver/algorithms/rematerialization/rotor.h"
#include "solver/algorithms/transfers/least_plan.h"
#include "solver/algorithms/working_bytes.h"
#include "solver/base/status_macros.h"
#include "solver/bounds/lower_bound.h"
#include "solver/bounds/memory_range.h"

namespace stowage {
namespace {

// The stages to which long chains are merged.
constexpr int kLeastPlanStages[] = {120, 400, 1000};  // least plans: O(L^3), the last one 0.2 s
constexpr int kRotorStages = 400;
constexpr int kSolversStages = 100;     // every solver
constexpr int kMaxSolversStages = 120;  // the same, where some stages may not be merged
constexpr int kPlansStages = 700;       // pofo's plans; at most

constexpr double kCompactShare = 0.5;  // of the memory, to recompute a compact group

// The chain merged to about `stages`, or as it is where that is short enough. Groups need at most a
// quarter of the memory, so that several fit; where that makes more of them than `max_stages`,
// they are compact, and recomputed within that share of the memory.
absl::StatusOr<MergedChain> CoarseChain(const Chain& chain, int stages, int max_stages,
                                        int64_t memory_bytes, double compact_share,
                                        const SolveContext& context) {
  ASSIGN_OR_RETURN(
      MergedChain merged,
      MergedChain::Of(chain, {.stages = stages, .max_group_bytes = memory_bytes / 4}, context));
  if (merged.chain().length() <= max_stages) return merged;
  return MergedChain::Of(
      chain,
      {.stages = stages,
       .max_group_bytes = INT64_MAX,
       .compact_bytes = static_cast<int64_t>(compact_share * static_cast<double>(memory_bytes))},
      context);
}

// The least plan at one of kLeastPlanStages: of groups that are recomputed within the least memory.
absl::StatusOr<std::optional<LeastPlan>> FindLeast(const Instance& instance, int stages,
                                                   const SolveContext& context) {
  const MergedChain::Options options{
      .stages = stages, .max_group_bytes = INT64_MAX, .compact_bytes = 0};
  ASSIGN_OR_RETURN(const MergedChain merged, MergedChain::Of(instance.chain(), options, context));
  const Platform& platform = instance.platform();
  ASSIGN_OR_RETURN(std::optional<LeastPlan> least,
                   FindLeastPlan(merged.chain(), platform, Recomputation::kParts, context));
  // With a limit on host memory that is an upper bound: a plan without offloads may need less.
  if (platform.host_memory_bytes > 0) {
    Platform alone = platform;
    alone.offload_bytes_per_second = 0;
    ASSIGN_OR_RETURN(std::optional<LeastPlan> kept,
                     FindLeastPlan(merged.chain(), alone, Recomputation::kParts, context));
    const int64_t most = least.has_value() ? least->memory_bytes : INT64_MAX;
    if (kept.has_value() && kept->memory_bytes < most) least = std::move(kept);
  }
  if (least.has_value()) least->schedule = merged.Expand(least->schedule);
  // Rotor, where it is asked, has schedules from there on.
  if (!AsksAtFullLength("rotor", instance.chain(), platform)) return least;
  ASSIGN_OR_RETURN(std::optional<LeastPlan> leaving,
                   LeastPlanOfLeavingParts(instance.chain(), context));
  const int64_t most = least.has_value() ? least->memory_bytes : INT64_MAX;
  if (leaving.has_value() && leaving->memory_bytes < most) least = std::move(leaving);
  return least;
}

// Solves one budget, that of the instance.
class CoarseningSolve {
 public:
  CoarseningSolve(const Solver& direct, std::span<const SolverInfo> solvers,
                  const Instance& instance, const SolveContext& context)
      : direct_(direct),
        solvers_(solvers),
        instance_(instance),
        chain_(instance.chain()),
        context_(context),
        best_(instance, instance.platform().memory_bytes) {}

  absl::StatusOr<std::optional<Candidate>> Run() {
    if (context_.hint != nullptr && instance_.platform().has_link()) {
      RETURN_IF_ERROR(best_.StartFrom(*context_.hint, context_.working_bytes, context_));
      RETURN_IF_ERROR(TryPlans(kSolversStages, PofoExtent::kOnePlan));
      return best_.WithNotes(notes_);
    }
    RETURN_IF_ERROR(TryLeastPlans());
    TryPeriodic();
    bool rotor_ran = false;
    bool pofo_ran = false;
    for (const SolverInfo& info : solvers_) {
      ASSIGN_OR_RETURN(const bool ran, TryAtFullLength(info));
      const absl::string_view name = info.description.name;
      if (name == "rotor") rotor_ran = ran;
      if (name == "pofo") pofo_ran = ran;
    }
    if (!rotor_ran) RETURN_IF_ERROR(TryRotor());
    if (platform().has_link() && !pofo_ran) {
      RETURN_IF_ERROR(TryAllSolvers());
      RETURN_IF_ERROR(
          TryPlans(std::min(kPlansStages, chain_.length() * 2 / 3), PofoExtent::kPortfolio));
    }
    if (!best_.found()) return std::optional<Candidate>();
    ImprovingPhase phase(context_, kLocalSearchPhase, best_);
    RETURN_IF_ERROR(best_.Improve(context_.working_bytes, ShareOf(3)));
    phase.End();
    return best_.WithNotes(notes_);
  }

 private:
  const Platform& platform() const { return instance_.platform(); }

  // Equal shares of the progress: rotor, all solvers, plans, local search.
  SolveContext ShareOf(size_t index) const {
    constexpr size_t kShares = 4;
    SolveContext share = context_;
    share.lowest_bytes = INT64_MAX;
    share.progress = context_.ShareOfProgress(index, kShares);
    return share;
  }

  // A schedule that may be slow, and early.
  absl::Status TryLeastPlans() {
    for (const int stages : kLeastPlanStages) {
      ASSIGN_OR_RETURN(std::optional<LeastPlan> least, FindLeast(instance_, stages, context_));
      if (least.has_value()) {
        best_.Consider({std::move(least->schedule), "auto", Guarantee::kHeuristic, {}}, context_);
      }
      if (best_.found() || stages >= chain_.length()) break;
    }
    return absl::OkStatus();
  }

  // Some counts of segments of the chain itself.
  void TryPeriodic() {
    for (int segments = 2; segments < chain_.length(); segments *= 2) {
      best_.Consider({PeriodicSchedule(chain_, segments), "periodic", Guarantee::kHeuristic, {}},
                     context_);
    }
  }

  // A lower bound of all schedules without recomputation.
  double StoringSeconds() const {
    Chain storing = chain_;
    for (Stage& stage : storing.stages) stage.no_recompute = true;
    return LowerBoundSeconds(storing, platform());
  }

  // Runs the solver on the chain itself if it is one of those that are, unless it cannot be faster
  // than the best so far. Whether it ran.
  absl::StatusOr<bool> TryAtFullLength(const SolverInfo& info) {
    if (info.description.offloads && !platform().has_link()) return false;
    if (!AsksAtFullLength(info.description.name, chain_, platform())) return false;
    if (!info.description.recomputes && best_.found() && best_.seconds() <= StoringSeconds()) {
      return false;
    }
    const std::unique_ptr<Solver> solver = info.make();
    if (solver->WorkingBytes(instance_) > context_.working_bytes) return false;
    SolveContext context = ShareOf(0);
    const auto consider = [this](const Candidate& found) {
      best_.Consider({found.schedule, found.solver, Guarantee::kHeuristic, {}}, context_);
    };
    context.improved = consider;
    ImprovingPhase phase(context_, info.description.name, best_);
    ASSIGN_OR_RETURN(const std::unique_ptr<const Solution> solution,
                     solver->Solve(instance_, context));
    ASSIGN_OR_RETURN(const std::optional<Candidate> found,
                     solution->ScheduleWithin(best_.memory_bytes(), context.Quiet()));
    if (found.has_value()) consider(*found);
    phase.End();
    return true;
  }

  // Rotor alone, since it takes a fraction of the time of all solvers. Of compact groups the share
  // of memory that leaves enough for values between them is not known: some are tried.
  absl::Status TryRotor() {
    for (const double share : {kCompactShare, 0.75, 0.35}) {
      ASSIGN_OR_RETURN(const MergedChain merged,
                       CoarseChain(chain_, kRotorStages, 2 * kRotorStages, best_.memory_bytes(),
                                   share, context_));
      RETURN_IF_ERROR(TryRotorAt(merged));
      if (!merged.compact()) break;
    }
    return absl::OkStatus();
  }

  absl::Status TryRotorAt(const MergedChain& merged) {
    const std::unique_ptr<Solver> rotor = MakeRotor();
    Instance coarse = instance_.WithChain(merged.chain());
    if (rotor->WorkingBytes(coarse) > context_.working_bytes) {
      const auto slots = MostSlotsWithin(*rotor, coarse, context_.working_bytes);
      if (!slots.has_value()) return absl::OkStatus();
      coarse = coarse.WithMemorySlots(*slots);
    }
    ImprovingPhase phase(context_, "rotor", best_);
    RETURN_IF_ERROR(TrySolver(*rotor, merged, coarse, ShareOf(0)));
    phase.End();
    return absl::OkStatus();
  }

  absl::Status TryAllSolvers() {
    ASSIGN_OR_RETURN(const MergedChain merged,
                     CoarseChain(chain_, kSolversStages, kMaxSolversStages, best_.memory_bytes(),
                                 kCompactShare, context_));
    // Stages that may not be merged can make the coarse chain too long for all solvers.
    if (merged.chain().length() > kMaxSolversStages) return absl::OkStatus();
    return TrySolver(direct_, merged, instance_.WithChain(merged.chain()), ShareOf(1));
  }

  absl::Status TrySolver(const Solver& solver, const MergedChain& merged, const Instance& coarse,
                         SolveContext context) {
    if (solver.WorkingBytes(coarse) > context.working_bytes) return absl::OkStatus();
    context.improved = [&](const Candidate& found) { Consider(merged, found); };
    ASSIGN_OR_RETURN(const std::unique_ptr<const Solution> solution, solver.Solve(coarse, context));
    ASSIGN_OR_RETURN(const std::optional<Candidate> found,
                     solution->ScheduleWithin(best_.memory_bytes(), context));
    if (found.has_value()) Consider(merged, *found);
    return absl::OkStatus();
  }

  // Plans of pofo that are faster than the best so far.
  absl::Status TryPlans(int stages, PofoExtent extent) {
    if (!best_.found()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const MergedChain merged,
                     CoarseChain(chain_, stages, stages + stages / 4, best_.memory_bytes(),
                                 kCompactShare, context_));
    if (ImproveByPlansBytes(merged.chain().length()) > context_.working_bytes) {
      return absl::OkStatus();
    }
    SolveContext context = ShareOf(2);
    context.improved = [&](const Candidate& found) { Consider(merged, found); };
    ImprovingPhase phase(context_, kPlansPhase, best_);
    RETURN_IF_ERROR(ImproveByPlans(instance_.WithChain(merged.chain()), best_.memory_bytes(),
                                   extent, best_.seconds(), context)
                        .status());
    phase.End();
    return absl::OkStatus();
  }

  void Consider(const MergedChain& merged, const Candidate& found) {
    const double before = best_.found() ? best_.seconds() : 0;
    const int stages = merged.chain().length();
    best_.Consider({merged.Expand(found.schedule), found.solver, Guarantee::kHeuristic, {}},
                   context_);
    if (!best_.found() || best_.seconds() == before || stages == chain_.length()) return;
    notes_ = {absl::StrCat("the chain's ", chain_.length(), " stages were merged to ", stages,
                           "; the schedule was then improved stage by stage")};
  }

  const Solver& direct_;
  const std::span<const SolverInfo> solvers_;
  const Instance& instance_;
  const Chain& chain_;
  const SolveContext& context_;
  Incumbent best_;
  std::vector<std::string> notes_;
};

class Coarsening final : public Solver {
 public:
  Coarsening(std::unique_ptr<const Solver> direct, std::span<const SolverInfo> solvers)
      : direct_(std::move(direct)), solvers_(solvers) {}

  // The least plan is always computed; every other step is left out where memory is short.
  int64_t WorkingBytes(const Instance& instance) const override {
    if (IsShort(instance)) return direct_->WorkingBytes(instance);
    const int64_t bytes = LeastPlanBytes(LeastPlanChain(instance.chain()), Recomputation::kParts);
    return AsksAtFullLength("rotor", instance.chain(), instance.platform())
               ? std::max(bytes, LeavingMinimum::WorkingBytes(instance.chain()))
               : bytes;
  }
  int64_t WorkingBytesWithin(const Instance& instance, int64_t max_bytes) const override {
    if (IsShort(instance)) return direct_->WorkingBytesWithin(instance, max_bytes);
    const Chain& chain = instance.chain();
    const Instance rotor =
        instance.WithChain(MergedChain::Evenly(chain, std::min(kRotorStages, chain.length())));
    int64_t bytes = std::max(WorkingBytes(instance), MakeRotor()->WorkingBytes(rotor));
    if (instance.platform().has_link()) {
      const Instance coarse = instance.WithChain(MergedChain::Evenly(chain, kSolversStages));
      bytes = std::max({bytes, direct_->WorkingBytesWithin(coarse, max_bytes),
                        ImproveByPlansBytes(std::min(kPlansStages, chain.length()))});
    }
    for (const SolverInfo& info : solvers_) {
      if (!AsksAtFullLength(info.description.name, chain, instance.platform())) continue;
      const int64_t needed = info.make()->WorkingBytes(instance);
      if (needed <= max_bytes) bytes = std::max(bytes, needed);
    }
    return std::min(max_bytes, std::max(bytes, Incumbent::ImproveBytes(chain)));
  }

  absl::StatusOr<std::optional<int64_t>> LeastBytes(const Instance& instance,
                                                    const SolveContext& context) const override {
    if (IsShort(instance)) return direct_->LeastBytes(instance, context);
    const int stages = kLeastPlanStages[std::size(kLeastPlanStages) - 1];
    ASSIGN_OR_RETURN(const std::optional<LeastPlan> least, FindLeast(instance, stages, context));
    if (!least.has_value()) return std::optional<int64_t>();
    return least->memory_bytes;
  }

  absl::StatusOr<std::unique_ptr<const Solution>> Solve(
      const Instance& instance, const SolveContext& context) const override {
    const int64_t lowest = std::min(context.lowest_bytes, instance.platform().memory_bytes);
    if (IsShort(instance) || lowest >= StoreAllPeakBytes(instance.chain())) {
      return direct_->Solve(instance, context);
    }
    const int64_t own_bytes = instance.platform().memory_bytes;
    // Copies: the solution may outlive the solve and its solver.
    const auto solve = [direct = direct_, solvers = solvers_, instance, own_bytes](
                           int64_t memory_bytes, const SolveContext& query) {
      if (memory_bytes == own_bytes)
        return CoarseningSolve(*direct, solvers, instance, query).Run();
      SolveContext quiet = query.Quiet();
      quiet.hint = query.hint;
      return CoarseningSolve(*direct, solvers, instance.WithMemory(memory_bytes), quiet).Run();
    };
    return SolveByBudget(own_bytes, solve, context);
  }

 private:
  static bool IsShort(const Instance& instance) {
    return IsSolvedDirectly(instance.chain(), instance.platform());
  }
  static Chain LeastPlanChain(const Chain& chain) {
    // Stages that may not be merged add some.
    const int most = 3 * kLeastPlanStages[std::size(kLeastPlanStages) - 1] / 2;
    return chain.length() <= most ? chain : MergedChain::Evenly(chain, most);
  }

  const std::shared_ptr<const Solver> direct_;
  const std::span<const SolverInfo> solvers_;
};

}  // namespace

std::unique_ptr<Solver> MakeAutoByCoarsening(std::unique_ptr<const Solver> direct,
                                             std::span<const SolverInfo> solvers) {
  return std::make_unique<Coarsening>(std::move(direct), solvers);
}

}  // namespace stowage
