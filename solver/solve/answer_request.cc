#include "solver/solve/answer_request.h"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "solver/algorithms/working_bytes.h"
#include "solver/base/status_macros.h"
#include "solver/base/units.h"
#include "solver/bounds/lower_bound.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/modes.h"
#include "solver/simulator/explain.h"
#include "solver/simulator/simulator.h"
#include "solver/solve/catalog.h"

namespace stowage {
namespace {

// Whether everything can be stored in exact sizes but not in sizes rounded up to granules.
bool RoundingForbidsStoringAll(const SolveRequest& request, const Instance& rounded) {
  return StoreAllPeakBytes(request.chain) <= request.platform.memory_bytes &&
         StoreAllPeakBytes(rounded.chain()) > rounded.platform().memory_bytes;
}

// The solver's schedule for the request's budget; nullopt: it has none. Solves the rounded instance
// first. Solves the instance of exact sizes when that has no schedule, or at once when the request
// wants exact times or only rounding prevents storing everything. Sets *exact_sizes accordingly.
absl::StatusOr<std::optional<Candidate>> FindCandidate(const SolveRequest& request,
                                                       const SolverInfo& info, const Solver& solver,
                                                       const SolveContext& context,
                                                       bool* exact_sizes) {
  const Instance rounded = Instance::Rounded(request);
  Instance exact = Instance::ExactSizes(request);
  // An exact instance may need a larger table than the rounded one. Fewer slots are better than no
  // answer.
  if (solver.WorkingBytes(exact) > context.working_bytes) {
    exact =
        exact.WithMemorySlots(MostSlotsWithin(solver, exact, context.working_bytes).value_or(1));
  }
  for (const Instance* instance : std::initializer_list<const Instance*>{&rounded, &exact}) {
    if (instance == &rounded &&
        (request.options.time_precision == 0 || RoundingForbidsStoringAll(request, rounded))) {
      continue;
    }
    *exact_sizes = instance == &exact;
    RETURN_IF_ERROR(CheckWorkingBytes(info, solver, *instance, context.working_bytes));
    ASSIGN_OR_RETURN(const std::unique_ptr<const Solution> solution,
                     solver.Solve(*instance, context));
    ASSIGN_OR_RETURN(std::optional<Candidate> candidate,
                     solution->ScheduleWithin(instance->platform().memory_bytes, context));
    if (candidate.has_value()) {
      // Optimal on a rounded instance is not optimal on the request's own.
      const bool rounds = instance->sizes_rounded() || instance->times_rounded();
      if (rounds && candidate->limit == Limit::kNone) candidate->limit = Limit::kRounding;
      return candidate;
    }
  }
  return std::optional<Candidate>();
}

// Simulates the candidate on the exact chain and platform. Fills the answer if it fits; otherwise
// lists its solver as rejected and returns false.
bool Accept(const SolveRequest& request, Candidate candidate, Answer* answer) {
  absl::StatusOr<ExplainedSimulation> checked =
      SimulateAndExplain(request.chain, request.platform, candidate.schedule);
  if (!checked.ok() || !checked->simulation.feasible()) {
    answer->rejected.emplace_back(candidate.solver);
    return false;
  }
  answer->prediction = checked->simulation.prediction;
  answer->explanation = std::move(checked->explanation);
  answer->explanation.notes = std::move(candidate.notes);
  answer->schedule = std::move(candidate.schedule);
  answer->solver = candidate.solver;
  answer->limit = MeetsBound(answer->prediction) ? Limit::kNone : candidate.limit;
  answer->outcome = answer->limit == Limit::kNone ? Outcome::kOptimal : Outcome::kFeasible;
  return true;
}

bool ReadsSlots(const SolverInfo& info) {
  return absl::c_linear_search(info.description.options, absl::string_view("memory_slots"));
}

// Solves the request again with ten times as many memory slots and reports by how much the answer
// is slower. A failure is a note, not an error: the answer itself is there. Errors: CANCELLED.
absl::Status ReportRoundingLoss(SolveRequest request, const SolverInfo& info,
                                const SolveContext& context, Answer* answer) {
  answer->rounding_loss.emplace();
  const double seconds = answer->prediction.makespan_seconds;
  answer->rounding_loss->finer_seconds = seconds;
  if (answer->limit == Limit::kNone) return absl::OkStatus();
  constexpr int64_t kTimes = 10;
  int64_t& slots = request.options.memory_slots;
  slots = std::min(kMaxMemorySlots, kTimes * (slots > 0 ? slots : kDefaultMemorySlots));
  const std::unique_ptr<Solver> solver = info.make();
  const auto unknown = [answer](const absl::Status& why) {
    answer->rounding_loss.reset();
    answer->explanation.notes.push_back(
        absl::StrCat("the loss due to rounding is not known: ", why.message()));
    return absl::OkStatus();
  };
  const absl::Status fits =
      CheckWorkingBytes(info, *solver, Instance::ExactSizes(request), context.working_bytes);
  if (!fits.ok()) return unknown(fits);
  bool exact_sizes = false;
  const absl::StatusOr<std::optional<Candidate>> finer =
      FindCandidate(request, info, *solver, context, &exact_sizes);
  if (absl::IsCancelled(finer.status())) return finer.status();
  if (!finer.ok() || !finer->has_value()) return unknown(finer.status());
  answer->rounding_loss->finer_slots = slots;
  const absl::StatusOr<Simulation> simulation =
      Simulate(request.chain, request.platform, (*finer)->schedule);
  if (!simulation.ok() || !simulation->feasible()) return absl::OkStatus();
  const double finer_seconds = simulation->prediction.makespan_seconds;
  answer->rounding_loss->finer_seconds = finer_seconds;
  if (finer_seconds > 0) answer->rounding_loss->loss = std::max(0.0, seconds / finer_seconds - 1);
  return absl::OkStatus();
}

// The requested solver first, then all others, which run only if the simulator rejects its
// schedule.
std::vector<const SolverInfo*> InOrder(const SolverInfo& requested) {
  std::vector<const SolverInfo*> order = {&requested};
  for (const SolverInfo& info : AllSolvers()) {
    if (&info != &requested) order.push_back(&info);
  }
  return order;
}

// The budget is at least the solver's least memory, but it has no schedule: see Solver::Solve().
absl::Status TooManyOperations(const SolveRequest& request) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "no schedule of at most ", kMaxOperations, " operations was found within ",
      request.platform.memory_bytes, " bytes: with more memory schedules are shorter"));
}

// The fields of an answer that do not depend on the schedule.
Answer FrameOf(const SolveRequest& request, const SolverInfo& info) {
  Answer answer;
  answer.platform = request.platform;
  answer.solver = info.description.name;
  const MemoryFloor floor = FloorOfMemory(request.chain);
  answer.memory_floor_bytes = floor.bytes;
  answer.memory_floor_operation = floor.operation;
  return answer;
}

void NoteUnusedLink(const SolveRequest& request, const SolverInfo& info, Answer* answer) {
  if (!request.platform.has_link() || info.description.offloads) return;
  answer->explanation.notes.push_back(
      absl::StrCat(info.description.name, " does not offload: the bandwidths make no difference"));
}

void NoteUnusedModes(const SolveRequest& request, const SolverInfo& info, Answer* answer) {
  if (info.description.mixes_modes || !HasGraphMode(request.chain)) return;
  answer->explanation.notes.push_back(
      absl::StrCat(info.description.name,
                   " runs every stage in eager mode: the graph costs make no difference; auto and "
                   "mixed_mode weigh them"));
}

// `context` with an `improved` that turns each schedule faster than those before into an answer.
SolveContext Improving(const SolveRequest& request, const SolveContext& context,
                       const std::function<void(const Answer&)>& improved, const Answer& frame) {
  SolveContext improving = context;
  if (!improved) return improving;
  improving.improved =
      [&, fastest = std::numeric_limits<double>::infinity()](const Candidate& candidate) mutable {
        if (context.improved) context.improved(candidate);
        Answer answer = frame;
        if (!Accept(request, candidate, &answer)) return;
        if (answer.prediction.makespan_seconds >= fastest) return;
        fastest = answer.prediction.makespan_seconds;
        if (answer.outcome != Outcome::kOptimal) answer.limit = Limit::kTime;
        improved(answer);
      };
  return improving;
}

// `context` with progress that never decreases: retries and further solves start again from 0.
// `most` holds the highest fraction reported so far and outlives the result.
SolveContext ForwardOnly(const SolveContext& context, double* most) {
  SolveContext forward = context;
  if (!context.progress) return forward;
  forward.progress = [&context, most](double fraction) {
    if (fraction <= *most) return;
    *most = fraction;
    context.progress(fraction);
  };
  return forward;
}

absl::StatusOr<Answer> FindAnswer(const SolveRequest& request, const SolveContext& caller,
                                  const std::function<void(const Answer&)>& improved) {
  double most = -1;
  const SolveContext context = ForwardOnly(caller, &most);
  const SolverInfo& info = *FindSolver(request.solver);
  const std::unique_ptr<Solver> solver = info.make();
  RETURN_IF_ERROR(
      CheckWorkingBytes(info, *solver, Instance::Rounded(request), context.working_bytes));

  Answer answer = FrameOf(request, info);
  const auto find_least = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(answer.minimum_memory_bytes,
                     solver->LeastBytes(Instance::Exact(request), context));
    return absl::OkStatus();
  };
  // The least memory may take as long to compute as a schedule. It comes first only where it is
  // quick (no link) or where it is most likely the whole answer.
  const bool least_first =
      !request.platform.has_link() || request.platform.memory_bytes < answer.memory_floor_bytes;
  if (least_first) {
    RETURN_IF_ERROR(find_least());
    if (answer.minimum_memory_bytes.value_or(INT64_MAX) > request.platform.memory_bytes) {
      return answer;
    }
  }
  const SolveContext improving = Improving(request, context, improved, answer);
  for (const SolverInfo* next : InOrder(info)) {
    absl::StatusOr<std::optional<Candidate>> candidate =
        FindCandidate(request, *next, *next->make(), improving, &answer.from_exact_sizes);
    if (next == &info || absl::IsCancelled(candidate.status())) {
      RETURN_IF_ERROR(candidate.status());
      RETURN_IF_ERROR(find_least());
      const int64_t least = answer.minimum_memory_bytes.value_or(INT64_MAX);
      if (least > request.platform.memory_bytes) return answer;
      if (!candidate->has_value()) return TooManyOperations(request);
    }
    if (!candidate.ok() || !candidate->has_value()) continue;
    if (!Accept(request, **std::move(candidate), &answer)) continue;
    NoteUnusedLink(request, *next, &answer);
    NoteUnusedModes(request, *next, &answer);
    if (request.options.report_rounding_loss && ReadsSlots(*next)) {
      RETURN_IF_ERROR(ReportRoundingLoss(request, *next, context, &answer));
    }
    return answer;
  }
  return absl::InternalError(absl::StrCat("the simulator refused the schedules of ",
                                          absl::StrJoin(answer.rejected, ", ")));
}

}  // namespace

absl::StatusOr<Answer> AnswerRequest(const SolveRequest& request, const SolveContext& context,
                                     const std::function<void(const Answer&)>& improved) {
  try {
    return FindAnswer(request, context, improved);
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  }
}

std::optional<Answer> AnswerFromKnown(const SolveRequest& request, const Answer& known,
                                      KnownFor known_for) {
  const bool same = known_for == KnownFor::kThisRequest;
  if (!same && request.options.report_rounding_loss) return std::nullopt;
  try {
    Answer answer = FrameOf(request, *FindSolver(request.solver));
    answer.minimum_memory_bytes = known.minimum_memory_bytes;
    answer.from_exact_sizes = known.from_exact_sizes;
    if (known.outcome == Outcome::kInfeasible) return answer;
    // Optimal for times that round to the same instance is not optimal for these times.
    const bool rounded = !same && known.limit == Limit::kNone;
    Candidate candidate{known.schedule, known.solver.c_str(),
                        rounded ? Limit::kRounding : known.limit, known.explanation.notes};
    if (!Accept(request, std::move(candidate), &answer)) return std::nullopt;
    answer.rounding_loss = known.rounding_loss;
    return answer;
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
}

absl::StatusOr<ExplainedSimulation> SimulateAndExplain(const Chain& chain, const Platform& platform,
                                                       const Schedule& schedule) {
  try {
    ExplainedSimulation result;
    ASSIGN_OR_RETURN(result.simulation,
                     SimulateWithBound(chain, platform, schedule, &result.timeline));
    result.explanation = Explain(chain, platform, schedule, result.timeline);
    return result;
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        "this machine has too little free memory for the simulation");
  }
}

}  // namespace stowage
