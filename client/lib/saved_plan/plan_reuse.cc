#include "client/lib/saved_plan/plan_reuse.h"

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/lib/saved_plan/plan_difference.h"
#include "solver/base/out_of_memory.h"
#include "solver/solve/catalog.h"
#include "solver/solve/checked_answer.h"
#include "solver/solve/request_violations.h"

namespace stowage {
namespace {

// By how much the overhead (Prediction::overhead) may exceed that of the saved plan: times that are
// measured again differ by a tenth and more, stage by stage, and a link's speed all at once.
constexpr double kMoreOverhead = 0.01;
constexpr double kMoreOverheadWithCopies = 0.05;
constexpr double kMoreOverheadRelative = 0.25;

double MostOverhead(const Answer& saved) {
  return (1 + kMoreOverheadRelative) * saved.prediction.overhead +
         (UsesLink(saved.schedule) ? kMoreOverheadWithCopies : kMoreOverhead);
}

bool Equal(const SolveRequest& a, const SolveRequest& b) {
  return a.chain == b.chain && a.platform == b.platform && a.solver == b.solver &&
         a.options == b.options;
}

absl::Status Useless(absl::string_view why) { return absl::FailedPreconditionError(why); }

}  // namespace

int SolverVersion(const std::string& solver) {
  const SolverInfo* const info = FindSolver(solver);
  return info != nullptr ? info->description.version : 0;
}

absl::StatusOr<Answer> ReusePlan(const EarlierPlan& plan, const SolveRequest& now) {
  if (plan.answer.outcome == Outcome::kInfeasible || !RequestViolations(now).empty()) {
    return Useless("is not valid");
  }
  const std::string difference = PlanDifference(plan.request, now, plan.answer.schedule);
  if (!difference.empty()) return Useless(absl::StrCat("was made for ", difference));
  if (plan.solver_version != SolverVersion(plan.answer.solver)) {
    return Useless("is by another version of its solver");
  }
  // With other times an optimal schedule need not be optimal, and the rounding loss is unknown: the
  // plan is used without it.
  const auto reuse = [&] {
    const ChainUnits units(now.chain);
    return Equal(plan.request, now) ? ReuseExactAnswer(now, units, plan.answer)
                                    : ReuseAnswer(now, units, plan.answer);
  };
  std::optional<Answer> answer = UnlessOutOfMemory(reuse, std::nullopt);
  if (!answer.has_value()) return Useless("has a schedule that does not fit");
  // Written so that an overhead that is no number does not serve.
  if (!(answer->prediction.overhead <= MostOverhead(plan.answer))) {
    return Useless("has a schedule that loses more than it did, with these times");
  }
  return *std::move(answer);
}

}  // namespace stowage
