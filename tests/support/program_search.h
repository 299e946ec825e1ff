// Finds the true optimum by a search over all complete schedules ("programs") of solver/README.md:
// forwards of all kinds, backwards, offloads, releases and prefetches in any valid order, with the
// times of the three queues. Shares no code with the solvers or the simulator: it counts memory and
// time itself. For chains of up to 4 stages; longer ones only with few choices.
//
// A best-first search that appends one operation at a time. A node is a prefix of a program. Its
// state (the gradient held, form and place of every value) determines which operations are valid
// and what they need; its clocks determine when they end. The node with the least bound is expanded
// first; the first complete program is the result. The number of recomputations and transfers is
// not limited. The following pruning rules keep the optimum:
//
// - Dominance: of two nodes with the same state, one whose clocks are all no later suffices. Every
//   rule of time is a maximum of clocks plus a duration that depends on the state. Any completion
//   of the later node also completes the other one and ends no later. Of nodes with equal clocks
//   one is kept. This makes the search finite without a limit on recomputation: clocks never
//   decrease, so a program that returns to an earlier state is dominated by its own prefix.
// - Lifting: a clock that is only read in a maximum with another clock, which never decreases, is
//   raised to that clock. A clock that is not read any more is cleared. No end time changes, and
//   more nodes become comparable. The clock of a completed copy is an example.
// - The bound: clocks only increase. No compute operation starts before the previous one and the
//   releases so far have ended. At least the remaining backwards, and the FORWARD_SAVE of the
//   stages whose ā is missing, must still run. Values on the host return one after another, each
//   before the backwards that depend on it. No program with this prefix is faster than that.
// - Dead ends: FORWARD_DISCARD of the value of a no_recompute stage, which its backward needs; an
//   OFFLOAD without a way to prefetch, since nothing may remain on the host.
#ifndef STOWAGE_TESTS_SUPPORT_PROGRAM_SEARCH_H_
#define STOWAGE_TESTS_SUPPORT_PROGRAM_SEARCH_H_

#include <cstddef>
#include <optional>

#include "solver/model/chain.h"
#include "solver/model/platform.h"
#include "solver/model/schedule.h"

namespace stowage {

// Longer chains would hardly be answered.
inline constexpr int kMaxProgramStages = 6;

struct ProgramSearchOptions {
  size_t max_nodes = 1'000'000;  // limit on stored nodes; 300 bytes each
  // Switches for the rules above, for tests. Without dominance only equal nodes are dropped;
  // without the bound the node whose latest clock is earliest comes first.
  bool dominance = true;
  bool lifting = true;
  bool bound = true;
};

struct ProgramResult {
  double seconds = 0;    // the optimal makespan; a lower bound if gave_up
  Schedule schedule;     // empty if gave_up
  bool gave_up = false;  // max_nodes was reached: feasibility is unknown
  size_t nodes = 0;      // nodes stored
};

// The fastest program within the platform's limits; nullopt when there is none. `seconds` is what
// the clocks of `schedule` say, and the least up to the rounding of sums of doubles: exact for
// times whose sums are.
// Requires: Violations() of chain and platform are empty.
std::optional<ProgramResult> FastestProgram(const Chain& chain, const Platform& platform,
                                            const ProgramSearchOptions& options = {});

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_PROGRAM_SEARCH_H_
