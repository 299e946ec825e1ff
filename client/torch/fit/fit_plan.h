// What Fit knows of the inputs of one shape.
#ifndef STOWAGE_CLIENT_TORCH_FIT_FIT_PLAN_H_
#define STOWAGE_CLIENT_TORCH_FIT_FIT_PLAN_H_

#include <cstdint>
#include <optional>

#include "client/agent/plan.h"
#include "client/lib/planner.h"
#include "solver/model/chain.h"
#include "solver/model/platform.h"

namespace stowage {

// What the steps of one shape run by, for tools.
struct FitPlan {
  int64_t budget_bytes = 0;  // of a step: FitOptions::memory
  Chain chain = {};          // as profiled
  Platform platform = {};    // with the memory that the schedule was made for
  // Both unset where a step is plain training.
  std::optional<PlannedAnswer> planned = {};
  const FrameworkPlan* commands = nullptr;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_FIT_FIT_PLAN_H_
