#include "solver/solve/answer_request.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "solver/algorithms/rematerialization/store_all.h"
#include "solver/algorithms/solve_phase.h"
#include "solver/algorithms/working_bytes.h"
#include "solver/base/out_of_memory.h"
#include "solver/base/status_macros.h"
#include "solver/bounds/lower_bound.h"
#include "solver/bounds/memory_range.h"
#include "solver/bounds/short_program_search.h"
#include "solver/simulator/simulator.h"
#include "solver/solve/answer_notes.h"
#include "solver/solve/catalog.h"
#include "solver/solve/checked_answer.h"
#include "solver/solve/first_candidate.h"

namespace stowage {
namespace {

// Whether no schedule at all is faster: what `auto` proves of a short chain, it proves of all.
bool IsFastest(const SolveRequest& request, const SolverInfo& info, const Candidate& candidate) {
  return &info == FindSolver("auto") && candidate.guarantee == Guarantee::kOptimal &&
         IsSearched(request.chain, request.platform);
}

bool ReadsSlots(const SolverInfo& info) {
  return absl::c_linear_search(info.description.options, SolveOption::kMemorySlots);
}

// The requested solver first, then all others, for the case that the simulator refuses its
// schedule.
std::vector<const SolverInfo*> SolversInOrder(const SolverInfo& requested) {
  std::vector<const SolverInfo*> order = {&requested};
  for (const SolverInfo& info : AllSolvers()) {
    if (&info != &requested) order.push_back(&info);
  }
  return order;
}

// The budget is at least the solver's minimum, and yet it has no schedule: see Solver::Solve().
absl::Status TooManyOperations(const SolveRequest& request) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "no schedule of at most ", kMaxOperations, " operations was found within ",
      request.platform.memory_bytes, " bytes: with more memory schedules are shorter"));
}

// One solve. Runs on one thread.
class RequestSolve {
 public:
  // Borrows all of them.
  RequestSolve(const SolveRequest& request, const RequestInstances& instances,
               const SolveContext& caller, const ImprovedAnswer& improved)
      : request_(request),
        instances_(instances),
        units_(instances.units()),
        improved_(improved),
        info_(*FindSolver(request.solver)),
        solver_(info_.make()),
        context_(caller.Monotonic()) {}

  // 1. Refuse a request whose tables do not fit the working memory.
  // 2. A first schedule, before anything that takes long.
  // 3. Infeasible where the budget is below the solver's least memory, if that is quick to find and
  //    there is no first schedule.
  // 4. The requested solver's schedule, if the simulator accepts it; otherwise the first accepted
  //    one of the other solvers, in the catalog's order.
  // 5. The least memory, where it is not known yet.
  absl::StatusOr<Answer> Run() {
    RETURN_IF_ERROR(
        CheckWorkingBytes(info_, *solver_, instances_.rounded(), context_.working_bytes));
    Answer answer = EmptyAnswer(request_, units_, info_.description.name);
    const SolveContext improving = Improving(answer);
    // Without a link the minimum is found quickly, and spares the solve where it exceeds the
    // budget. With one it may take as long as the schedule that the caller waits for.
    const int64_t budget = request_.platform.memory_bytes;
    if (!ReportFirst(improving) &&
        (!request_.platform.has_link() || budget < answer.memory_floor_bytes)) {
      RETURN_IF_ERROR(FindMinimum(&answer));
      if (answer.minimum_memory_bytes.value_or(INT64_MAX) > budget) return answer;
    }
    for (const SolverInfo* next : SolversInOrder(info_)) {
      absl::StatusOr<Found> found = Find(*next, *next->make(), instances_, improving);
      if (found.ok()) answer.from_exact_sizes = found->from_exact_sizes;
      // Only the requested solver decides whether the request fails or is infeasible; another one
      // that fails is skipped, unless the solve was cancelled.
      if (next == &info_ || absl::IsCancelled(found.status())) {
        RETURN_IF_ERROR(found.status());
        if (!found->candidate.has_value()) {
          RETURN_IF_ERROR(FindMinimum(&answer));
          if (answer.minimum_memory_bytes.value_or(INT64_MAX) > budget) return answer;
          return TooManyOperations(request_);
        }
      }
      if (!found.ok() || !found->candidate.has_value()) continue;
      const bool fastest = IsFastest(request_, *next, *found->candidate);
      if (!FillFrom(request_, units_, *std::move(found->candidate), &answer)) continue;
      fastest ? SetBoundToMakespan(&answer.prediction) : RaiseToClosestBound(&answer.prediction);
      Conclude(&answer);
      NoteUnused(request_, units_, *next, &answer);
      // Callers whose time ends during the rest have this schedule.
      if (improved_ && answer.prediction.makespan_seconds < fastest_) improved_(answer);
      RETURN_IF_ERROR(FindMinimum(&answer));
      // A heuristic may have a schedule for less than its least memory, but not for all budgets
      // from there on: then it has none.
      if (answer.minimum_memory_bytes.value_or(INT64_MAX) > budget) {
        Answer infeasible = EmptyAnswer(request_, units_, info_.description.name);
        infeasible.minimum_memory_bytes = answer.minimum_memory_bytes;
        return infeasible;
      }
      if (request_.options.report_rounding_loss && ReadsSlots(*next)) {
        RETURN_IF_ERROR(ReportRoundingLoss(*next, &answer));
      }
      return answer;
    }
    return absl::InternalError(absl::StrCat("the simulator refused the schedules of ",
                                            absl::StrJoin(answer.rejected, ", ")));
  }

 private:
  struct Found {
    std::optional<Candidate> candidate;  // nullopt: the solver has none
    bool from_exact_sizes = false;
  };

  // Whether rounding sizes to granules alone makes the budget too small to store everything.
  bool RoundingForbidsStoringAll(const Instance& rounded) const {
    return StoreAllPeakBytes(request_.chain) <= request_.platform.memory_bytes &&
           StoreAllPeakBytes(rounded.chain()) > rounded.platform().memory_bytes;
  }

  // The solver's schedule for the budget: from the rounded instance, or from exact sizes where
  // exact times are requested or the rounding alone makes the budget infeasible.
  absl::StatusOr<Found> Find(const SolverInfo& info, const Solver& solver,
                             const RequestInstances& instances, const SolveContext& context) const {
    const bool skips_rounded =
        request_.options.time_precision == 0 || RoundingForbidsStoringAll(instances.rounded());
    if (!skips_rounded) {
      ASSIGN_OR_RETURN(std::optional<Candidate> candidate,
                       SolveInstance(info, solver, instances.rounded(), context));
      if (candidate.has_value()) return Found{std::move(candidate), false};
    }
    // Bytes may need more slots than there is memory for: fewer slots lose less than no answer.
    std::optional<Instance> coarser;
    const Instance& exact = instances.exact_sizes();
    if (solver.WorkingBytes(exact) > context.working_bytes) {
      coarser =
          exact.WithMemorySlots(MostSlotsWithin(solver, exact, context.working_bytes).value_or(1));
    }
    ASSIGN_OR_RETURN(std::optional<Candidate> candidate,
                     SolveInstance(info, solver, coarser.has_value() ? *coarser : exact, context));
    return Found{std::move(candidate), true};
  }

  static absl::StatusOr<std::optional<Candidate>> SolveInstance(const SolverInfo& info,
                                                                const Solver& solver,
                                                                const Instance& instance,
                                                                const SolveContext& context) {
    RETURN_IF_ERROR(CheckWorkingBytes(info, solver, instance, context.working_bytes));
    ASSIGN_OR_RETURN(const std::unique_ptr<const Solution> solution,
                     solver.Solve(instance, context));
    ASSIGN_OR_RETURN(std::optional<Candidate> candidate,
                     solution->ScheduleWithin(instance.platform().memory_bytes, context));
    // An optimum of rounded sizes or times is one of the instance only.
    const bool rounds = instance.sizes_rounded() || instance.times_rounded();
    if (candidate.has_value() && rounds && IsProved(candidate->guarantee)) {
      candidate->guarantee = Guarantee::kUpToRounding;
    }
    return candidate;
  }

  // Hands the first candidate to `improving.improved`. False where nobody takes it, or none fits.
  bool ReportFirst(const SolveContext& improving) const {
    if (!improved_) return false;
    // Also of a solve that is being stopped: its callers get the best schedule so far.
    const std::optional<Candidate> first = FirstCandidate(request_, units_, /*stop=*/{});
    if (first.has_value()) improving.improved(*first);
    return first.has_value();
  }

  void RaiseToClosestBound(Prediction* prediction) const {
    SolvePhase phase(context_.phases, kBoundPhase);
    const double before = prediction->lower_bound_seconds;
    RaiseBound(request_.chain, request_.platform, prediction, BoundTime::kLong, context_.stop);
    const bool is_closer = prediction->lower_bound_seconds > before;
    phase.EndsWith(is_closer ? PhaseOutcome::kBetter : PhaseOutcome::kNoBetter);
  }

  // Does nothing where it is known.
  absl::Status FindMinimum(Answer* answer) const {
    if (answer->minimum_memory_bytes.has_value()) return absl::OkStatus();
    ASSIGN_OR_RETURN(answer->minimum_memory_bytes,
                     solver_->LeastBytes(Instance::Exact(request_), context_));
    return absl::OkStatus();
  }

  // Compares the answer with what ten times as many memory slots find.
  absl::Status ReportRoundingLoss(const SolverInfo& info, Answer* answer) const {
    constexpr int64_t kTimes = 10;
    RoundingLoss& loss = answer->rounding_loss.emplace();
    const double seconds = answer->prediction.makespan_seconds;
    loss.finer_seconds = seconds;
    if (IsProved(answer->guarantee)) return absl::OkStatus();
    const int64_t slots = request_.options.memory_slots;
    const int64_t finer_slots =
        std::min(kMaxMemorySlots, kTimes * (slots > 0 ? slots : kDefaultMemorySlots));
    const RequestInstances finer = instances_.WithMemorySlots(finer_slots);
    const std::unique_ptr<Solver> solver = info.make();
    // An answer without its rounding loss is better than none.
    const auto without_loss = [answer](const absl::Status& why) {
      answer->rounding_loss.reset();
      answer->explanation.notes.push_back(
          absl::StrCat("the loss due to rounding is not known: ", why.message()));
      return absl::OkStatus();
    };
    const absl::Status fits =
        CheckWorkingBytes(info, *solver, finer.exact_sizes(), context_.working_bytes);
    if (!fits.ok()) return without_loss(fits);
    const absl::StatusOr<Found> found = Find(info, *solver, finer, context_);
    if (absl::IsCancelled(found.status())) return found.status();
    if (!found.ok()) return without_loss(found.status());
    if (!found->candidate.has_value()) {
      return without_loss(absl::NotFoundError("there is no schedule on the finer grid"));
    }
    const absl::StatusOr<Simulation> simulation =
        Simulate(request_.chain, units_, request_.platform, found->candidate->schedule);
    if (!simulation.ok() || !simulation->feasible()) {
      return without_loss(absl::NotFoundError("the schedule of the finer grid does not fit"));
    }
    loss.finer_slots = finer_slots;
    loss.finer_seconds = simulation->prediction.makespan_seconds;
    if (loss.finer_seconds > 0) loss.loss = std::max(0.0, seconds / loss.finer_seconds - 1);
    return absl::OkStatus();
  }

  // The context in which each faster candidate, added to `empty`, becomes an answer for
  // `improved_`.
  SolveContext Improving(const Answer& empty) {
    SolveContext improving = context_;
    if (!improved_) return improving;
    improving.improved = [this, empty](const Candidate& candidate) {
      if (context_.improved) context_.improved(candidate);
      Answer answer = empty;
      // Whatever the candidate's solver guarantees: others may still find a faster one.
      Candidate unfinished = candidate;
      unfinished.guarantee = Guarantee::kTimeRanOut;
      if (!FillQuickly(request_, units_, std::move(unfinished), &answer)) return;
      if (answer.prediction.makespan_seconds >= fastest_) return;
      fastest_ = answer.prediction.makespan_seconds;
      improved_(answer);
    };
    return improving;
  }

  const SolveRequest& request_;
  const RequestInstances& instances_;
  const ChainUnits& units_;
  const ImprovedAnswer& improved_;
  const SolverInfo& info_;
  const std::unique_ptr<Solver> solver_;
  double fastest_ = std::numeric_limits<double>::infinity();  // makespan, of those reported
  const SolveContext context_;
};

}  // namespace

absl::StatusOr<Answer> AnswerRequest(const SolveRequest& request, const RequestInstances& instances,
                                     const SolveContext& context, const ImprovedAnswer& improved) {
  return UnlessOutOfMemory(
      [&] { return RequestSolve(request, instances, context, improved).Run(); }, OutOfMemory);
}

absl::StatusOr<Answer> AnswerRequest(const SolveRequest& request, const SolveContext& context,
                                     const ImprovedAnswer& improved) {
  return UnlessOutOfMemory(
      [&] { return AnswerRequest(request, RequestInstances(request), context, improved); },
      OutOfMemory);
}

std::optional<Answer> FirstAnswer(const SolveRequest& request, const ChainUnits& units,
                                  const std::stop_token& stop) {
  return UnlessOutOfMemory(
      [&]() -> std::optional<Answer> {
        std::optional<Candidate> first = FirstCandidate(request, units, stop);
        if (!first.has_value()) return std::nullopt;
        Answer answer = EmptyAnswer(request, units, first->solver);
        if (!FillQuickly(request, units, *std::move(first), &answer)) return std::nullopt;
        return answer;
      },
      std::nullopt);
}

}  // namespace stowage
