// Whether a solve fits the memory that is set aside for it, and what would.
#ifndef STOWAGE_SOLVER_ALGORITHMS_WORKING_BYTES_H_
#define STOWAGE_SOLVER_ALGORITHMS_WORKING_BYTES_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "solver/algorithms/solver.h"
#include "solver/model/instance.h"

namespace stowage {

// The most memory slots that are of use and with which `solver` stays within `working_bytes`;
// nullopt when it does not with a single one. O(log slots).
std::optional<int64_t> MostSlotsWithin(const Solver& solver, const Instance& instance,
                                       int64_t working_bytes);

// RESOURCE_EXHAUSTED, with the slots that would fit, when the solver would need more than
// `working_bytes`.
absl::Status CheckWorkingBytes(const SolverInfo& info, const Solver& solver,
                               const Instance& instance, int64_t working_bytes);

// RESOURCE_EXHAUSTED: what a solve that ran into std::bad_alloc ends with.
absl::Status OutOfMemory();

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_WORKING_BYTES_H_
