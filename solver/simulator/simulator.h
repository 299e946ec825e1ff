// The simulator: replays a schedule on the exact chain. It decides validity and computes memory and
// time for every schedule of every solver; no other code does.
#ifndef STOWAGE_SOLVER_SIMULATOR_SIMULATOR_H_
#define STOWAGE_SOLVER_SIMULATOR_SIMULATOR_H_

#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "solver/model/chain.h"
#include "solver/model/modes.h"
#include "solver/model/platform.h"
#include "solver/model/prediction.h"
#include "solver/model/schedule.h"

namespace stowage {

// The plain chain that a schedule runs: the chain itself, which it borrows, or, where operations
// run in graph mode, the one of their Execution. Made once for all that replay the schedule.
// Immutable.
class ExecutedChain {
 public:
  // Errors: those of Execution::Of().
  static absl::StatusOr<ExecutedChain> Of(const Chain& chain, const Schedule& schedule);

  const Chain& original() const { return *original_; }
  const Chain& plain() const { return execution_.has_value() ? execution_->chain() : *original_; }
  // Unset: nothing runs in graph mode, and stages have the same numbers in both chains.
  const std::optional<Execution>& execution() const { return execution_; }

 private:
  ExecutedChain(const Chain& original, std::optional<Execution> execution)
      : original_(&original), execution_(std::move(execution)) {}

  const Chain* original_;
  std::optional<Execution> execution_;
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
// Requires: Violations() of chain, platform and schedule are empty. Thread-safe.
// Source: solver/README.md, "Operations and schedules".
absl::StatusOr<Simulation> Simulate(const Chain& chain, const Platform& platform,
                                    const Schedule& schedule,
                                    std::vector<TimelineEntry>* timeline = nullptr,
                                    const std::stop_token& stop = {});
// The same for a schedule whose executed chain is known: `executed` is ExecutedChain::Of() it.
absl::StatusOr<Simulation> Simulate(const ExecutedChain& executed, const Platform& platform,
                                    const Schedule& schedule, std::vector<TimelineEntry>* timeline,
                                    const std::stop_token& stop);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_SIMULATOR_SIMULATOR_H_
