// The simulator: replays a schedule on the exact chain. It decides validity and computes memory and
// time for every schedule of every solver; no other code does.
#ifndef STOWAGE_SOLVER_SIMULATOR_SIMULATOR_H_
#define STOWAGE_SOLVER_SIMULATOR_SIMULATOR_H_

#include <optional>
#include <stop_token>
#include <vector>

#include "absl/status/statusor.h"
#include "solver/model/chain.h"
#include "solver/model/chain_units.h"
#include "solver/model/modes.h"
#include "solver/model/platform.h"
#include "solver/model/prediction.h"
#include "solver/model/schedule.h"

namespace stowage {

// What a schedule runs: itself on its chain, or, where operations run in graph mode, the plain
// chain of their Execution and the operations in its numbering. Made once for all that replay the
// schedule. Borrows chain, units and schedule. Immutable.
class ExecutedSchedule {
 public:
  // Errors: those of Execution::Of().
  static absl::StatusOr<ExecutedSchedule> Of(const Chain& chain, const ChainUnits& units,
                                             const Schedule& schedule);

  const Chain& chain() const { return modes_.has_value() ? modes_->chain() : *chain_; }
  const Schedule& schedule() const { return converted_.has_value() ? *converted_ : *schedule_; }
  // Unset: nothing runs in graph mode.
  const std::optional<Execution>& modes() const { return modes_; }
  // As it was asked for.
  const Chain& original_chain() const { return *chain_; }
  const ChainUnits& original_units() const { return *units_; }
  const Schedule& original_schedule() const { return *schedule_; }

 private:
  ExecutedSchedule(const Chain& chain, const ChainUnits& units, const Schedule& schedule)
      : chain_(&chain), units_(&units), schedule_(&schedule) {}

  const Chain* chain_;
  const ChainUnits* units_;
  const Schedule* schedule_;
  std::optional<Execution> modes_;
  std::optional<Schedule> converted_;
};

// Pure: no clock, no randomness, no I/O. O(stages + operations).
// Memory: MemoryWalk. Time: Queues. Leaves lower_bound_seconds and gap at 0; SimulateWithBound() in
// bounds/lower_bound.h fills them. Fills `timeline` with one entry per operation unless it is null.
// The first forward of every run of neighbouring stages in graph mode takes graph_entry_seconds
// longer.
// Errors: INVALID_ARGUMENT names the first invalid operation and the reason, as in
//   "operations[12] BACKWARD 4: value 3 is not on device: it was dropped", past the end
//   "operations[40] END: the last gradient is missing: BACKWARD 1 has not run".
// CANCELLED once `stop` is set, which is polled every 0.1 ms or so.
// Exceeding a memory limit of the platform is not an error: see Simulation::first_over_limit.
// Requires: Violations() of chain, platform and schedule are empty, and `units` are the chain's.
// Thread-safe.
// Source: solver/README.md, "Operations and schedules".
absl::StatusOr<Simulation> Simulate(const Chain& chain, const ChainUnits& units,
                                    const Platform& platform, const Schedule& schedule,
                                    std::vector<TimelineEntry>* timeline = nullptr,
                                    const std::stop_token& stop = {});
// The same, finding the units itself.
absl::StatusOr<Simulation> Simulate(const Chain& chain, const Platform& platform,
                                    const Schedule& schedule,
                                    std::vector<TimelineEntry>* timeline = nullptr,
                                    const std::stop_token& stop = {});
// The same of what such a schedule executes.
absl::StatusOr<Simulation> Simulate(const ExecutedSchedule& executed, const Platform& platform,
                                    std::vector<TimelineEntry>* timeline,
                                    const std::stop_token& stop);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_SIMULATOR_SIMULATOR_H_
