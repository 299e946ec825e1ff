// The fastest of all schedules of a short chain that does not offload, by a search through the
// states that a schedule passes: persistent ones and others, with replays and inputs that leave.
//
// A state is the gradient that is held and the form of every live value. Memory and what may run
// next depend on nothing else, so the fastest schedule is a shortest path: A* over states, the
// length of an edge being the time of a forward or backward. Two rules make it short.
//
// - The rest. No path from a state with gradient g is shorter than, for any k <= g, the sum of
//     the forwards that bring back what B_g reads, from the nearest value that is live below it
//     the backwards of k..g, and a FORWARD_SAVE of each stage in k..g-1 that these do not run
//     R(k), what has to run after B_k whatever is live then.
//   R(k) is the least such sum, for any j < k, over all that fits beside B_k:
//     R(k) = max_j min_contents [forwards before B_(k-1) + B and saves of j..k-1] + R(j).
// - The schedule that is known already: states from which none is faster are left out.
#ifndef STOWAGE_SOLVER_BOUNDS_SHORT_CHAIN_SEARCH_H_
#define STOWAGE_SOLVER_BOUNDS_SHORT_CHAIN_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>

#include "solver/model/chain.h"
#include "solver/model/schedule.h"

namespace stowage {

inline constexpr int kMaxShortChainStages = 12;
inline constexpr int64_t kShortChainBytes = int64_t{8} << 20;  // more than a search allocates

struct ShortChainLimits {
  int64_t memory_bytes = 0;
  double below_seconds = 0;  // the makespan of a schedule that is known: only faster ones count
  size_t max_states = 20'000;
};

struct ShortChainResult {
  std::optional<Schedule> faster;  // the fastest of all; nullopt: none is below `below_seconds`
  double seconds = 0;              // the least makespan, up to the rounding of sums
};

// nullopt where the search ends early: the chain has more stages, costs in graph mode or
// save_options, there are more states than `max_states`, or `stop` is set. Takes some milliseconds
// at most. Requires: Violations(chain) is empty. Pure, thread-safe; throws std::bad_alloc.
std::optional<ShortChainResult> SearchShortChain(const Chain& chain, const ShortChainLimits& limits,
                                                 const std::stop_token& stop = {});

}  // namespace stowage

#endif  // STOWAGE_SOLVER_BOUNDS_SHORT_CHAIN_SEARCH_H_
