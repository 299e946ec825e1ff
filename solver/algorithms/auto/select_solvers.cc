#include "solver/algorithms/auto/select_solvers.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "solver/algorithms/working_bytes.h"
#include "solver/base/units.h"

namespace stowage {
namespace {

// Whether the solution keeps a dynamic program's table, rather than schedules only.
bool KeepsTable(const SolverInfo& info) { return !info.description.offloads; }

bool Applies(const SolverInfo& info, const Instance& instance) {
  if (info.description.mixes_modes || !info.asked_by_auto) return false;
  return !info.description.offloads || instance.platform().has_link();
}

// The slots that fit `available` bytes; 0 when too few do.
int64_t UsefulSlotsWithin(const Solver& solver, const Instance& instance, int64_t available) {
  const int64_t slots = MostSlotsWithin(solver, instance, available).value_or(0);
  return slots >= kMinUsefulSlots ? slots : 0;
}

}  // namespace

SolverSelection SelectSolvers(std::span<const SolverInfo> solvers, const Instance& instance,
                              int64_t working_bytes) {
  SolverSelection selection;
  int64_t left = working_bytes;  // not taken by tables so far
  int64_t max_temporary = 0;     // the most that a solver without a table needs while it runs
  for (const SolverInfo& info : solvers) {
    if (!Applies(info, instance)) continue;
    std::unique_ptr<Solver> solver = info.make();
    Instance with_slots = instance;
    const int64_t available = KeepsTable(info) ? left : working_bytes;
    const int64_t needed = solver->WorkingBytes(instance);
    if (needed > available) {
      const absl::string_view name = info.description.name;
      const std::string why =
          absl::StrCat(": it would need ", FormatBytes(needed), ", and ",
                       FormatBytes(working_bytes), " are set aside for one solve");
      const int64_t slots = UsefulSlotsWithin(*solver, instance, available);
      // If another solver's class contains this one's, nothing is lost and no note is needed.
      if (info.inside_of.empty()) {
        selection.notes.push_back(
            slots > 0 ? absl::StrCat(name, " was given only ", slots, " memory slots", why)
                      : absl::StrCat(name, " was left out", why));
      }
      if (slots == 0) continue;
      with_slots = instance.WithMemorySlots(slots);
    }
    const int64_t bytes = solver->WorkingBytes(with_slots);
    if (KeepsTable(info)) {
      left -= bytes;
    } else {
      max_temporary = std::max(max_temporary, bytes);
    }
    selection.solvers.push_back({&info, std::move(solver), std::move(with_slots)});
  }
  // Before any table exists there is room for each of the others.
  if (max_temporary > left) {
    std::stable_partition(
        selection.solvers.begin(), selection.solvers.end(),
        [](const SelectedSolver& selected) { return !KeepsTable(*selected.info); });
  }
  selection.spare_bytes = left;
  return selection;
}

}  // namespace stowage
