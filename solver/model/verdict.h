// Whether a job fits a device: with all layers kept, with a plan, or not.
// Source: solver/README.md, "Jobs".
#ifndef STOWAGE_SOLVER_MODEL_VERDICT_H_
#define STOWAGE_SOLVER_MODEL_VERDICT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "solver/model/answer.h"
#include "solver/model/platform.h"

namespace stowage {

struct Verdict {
  enum class Fit {
    kFits,          // with all layers kept
    kFitsWithPlan,  // with the answer's schedule
    kDoesNotFit,    // the solver has no schedule with which it does
  };

  size_t device = 0;  // index in the request
  Fit fit = Fit::kDoesNotFit;
  // The job's highest memory on the device: with the plan where there is one, else with all layers
  // kept; and whether that is outside of the layers, as while the optimizer runs.
  int64_t peak_bytes = 0;
  bool peak_outside_layers = false;
  // The least memory of a device that is enough; unset where it fits, or where it is not known.
  std::optional<int64_t> minimum_memory_bytes = {};
  // With kFitsWithPlan, what the layers are left of the device, and the plan.
  Platform platform = {};
  std::shared_ptr<const Answer> plan = {};
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_MODEL_VERDICT_H_
