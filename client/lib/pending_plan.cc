#include "client/lib/pending_plan.h"

#include <chrono>
#include <utility>

namespace stowage {

PendingPlan::PendingPlan(PlannerOptions options, SolveRequest request) {
  options.local.stop = stop_.get_token();
  plan_ =
      std::async(std::launch::async, [options = std::move(options), request = std::move(request)] {
        return FindPlan(options, request);
      });
}

PendingPlan::~PendingPlan() {
  stop_.request_stop();
  if (plan_.valid()) plan_.wait();
}

bool PendingPlan::ReadyWithin(double seconds) const {
  return plan_.wait_for(std::chrono::duration<double>(seconds)) == std::future_status::ready;
}

absl::StatusOr<PlannedAnswer> PendingPlan::Take() { return plan_.get(); }

}  // namespace stowage
