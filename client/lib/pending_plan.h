// A plan that a thread of its own finds.
#ifndef STOWAGE_CLIENT_LIB_PENDING_PLAN_H_
#define STOWAGE_CLIENT_LIB_PENDING_PLAN_H_

#include <future>
#include <stop_token>

#include "absl/status/statusor.h"
#include "client/lib/planner.h"
#include "solver/model/request.h"

namespace stowage {

// Not thread-safe.
class PendingPlan {
 public:
  // Starts FindPlan(). `options.local.stop` is replaced.
  PendingPlan(PlannerOptions options, SolveRequest request);
  // Stops a solve in this process, and waits: for a server as long as the patience with it lasts.
  ~PendingPlan();
  PendingPlan(const PendingPlan&) = delete;
  PendingPlan& operator=(const PendingPlan&) = delete;

  // Whether it is there; waits for it so long.
  bool ReadyWithin(double seconds) const;
  // Waits. Once only.
  absl::StatusOr<PlannedAnswer> Take();

 private:
  std::stop_source stop_;
  std::future<absl::StatusOr<PlannedAnswer>> plan_;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_LIB_PENDING_PLAN_H_
