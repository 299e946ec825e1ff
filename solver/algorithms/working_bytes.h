// Checks that a solve fits its memory limit, and the errors otherwise. Pure, thread-safe.
#ifndef STOWAGE_SOLVER_ALGORITHMS_WORKING_BYTES_H_
#define STOWAGE_SOLVER_ALGORITHMS_WORKING_BYTES_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "solver/algorithms/solver.h"
#include "solver/model/instance.h"

namespace stowage {

// The largest number of memory slots, up to the number of granules, with which `solver` stays
// within `working_bytes`; nullopt if it needs more with one slot. O(log granules) calls of
// WorkingBytes().
std::optional<int64_t> MostSlotsWithin(const Solver& solver, const Instance& instance,
                                       int64_t working_bytes);

// Errors: RESOURCE_EXHAUSTED if the solver needs more than `working_bytes`. The message contains
// the number of slots that would fit.
absl::Status CheckWorkingBytes(const SolverInfo& info, const Solver& solver,
                               const Instance& instance, int64_t working_bytes);

// The RESOURCE_EXHAUSTED error of a solve that ended with std::bad_alloc.
absl::Status OutOfMemory();

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_WORKING_BYTES_H_
