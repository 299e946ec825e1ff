#include "solver/algorithms/working_bytes.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "solver/base/units.h"

namespace stowage {

std::optional<int64_t> MostSlotsWithin(const Solver& solver, const Instance& instance,
                                       int64_t working_bytes) {
  const auto fits = [&](int64_t slots) {
    return solver.WorkingBytes(instance.WithMemorySlots(slots)) <= working_bytes;
  };
  // One slot per granule is exact. Below that the need grows with the slots, so bisect.
  const int64_t exact = instance.platform().memory_bytes / instance.granule_bytes();
  if (exact >= 1 && fits(exact)) return exact;
  if (exact < 2 || !fits(1)) return std::nullopt;
  // Invariant: `most` fits, `too_many` does not.
  int64_t most = 1;
  int64_t too_many = exact;
  while (too_many - most > 1) {
    const int64_t middle = most + (too_many - most) / 2;
    (fits(middle) ? most : too_many) = middle;
  }
  return most;
}

absl::Status CheckWorkingBytes(const SolverInfo& info, const Solver& solver,
                               const Instance& instance, int64_t working_bytes) {
  const int64_t needed = solver.WorkingBytes(instance);
  const bool beyond_all_machines = needed == INT64_MAX;
  if (needed <= working_bytes && !beyond_all_machines) return absl::OkStatus();
  const std::optional<int64_t> slots = MostSlotsWithin(solver, instance, working_bytes);
  const std::string remedy = slots.has_value()
                                 ? absl::StrCat("set options.memory_slots to at most ", *slots)
                                 : "the chain is too long for it";
  return absl::ResourceExhaustedError(
      absl::StrCat(info.description.name, " would need ", FormatBytes(needed), " for ",
                   instance.chain().length(), " stages, and ", FormatBytes(working_bytes),
                   " are set aside for one solve: ", remedy, ", or use solver auto"));
}

absl::Status OutOfMemory() {
  return absl::ResourceExhaustedError(
      "this machine has too little free memory for the solve; reduce options.memory_slots, or "
      "lower the memory limit of a solve so that auto skips the solvers that do not fit");
}

}  // namespace stowage
