// The fastest of all schedules of a short chain, offloading included: forwards of all kinds,
// backwards, offloads, releases and prefetches in any valid order.
//
// A best-first search that appends one operation at a time. A node is the beginning of a schedule.
// Its state, the gradient held and form and place of every value, decides which operations are
// valid and what they need; its clocks, when they end. What keeps it small:
//
// - Dominance. Of two nodes with one state, one whose clocks are all no later suffices: every rule
//   of time is a maximum of clocks plus a duration that depends on the state.
// - Lifting. A clock that is only read in a maximum with another, which never decreases, is raised
//   to that; one that is not read any more is cleared. More nodes become comparable.
// - The bound. For any k up to the gradient held, there still run, after the previous operation and
//   the releases so far:
//     the forwards that bring back what the next backward reads
//     the backwards from there down to k, and a save of each stage between that these do not run
//     R(k), the least time after B_k, over all that fits on device and host meanwhile: of what must
//     run again, bounded likewise, and of the copies that return, one after another, each before
//     the backwards that need it.
// - The schedule that is known already: nodes from which none is faster are left out.
#ifndef STOWAGE_SOLVER_BOUNDS_SHORT_PROGRAM_SEARCH_H_
#define STOWAGE_SOLVER_BOUNDS_SHORT_PROGRAM_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>

#include "solver/bounds/short_chain_search.h"
#include "solver/bounds/short_program_state.h"
#include "solver/model/chain.h"
#include "solver/model/platform.h"

namespace stowage {

// Whether a chain is short enough to be searched.
bool IsSearched(const Chain& chain, const Platform& platform);

// As SearchShortChain(), which it is without a link, with the platform's copies. The budget is
// `limits.memory_bytes`, whatever the platform's is.
std::optional<ShortChainResult> SearchShortProgram(const Chain& chain, const Platform& platform,
                                                   const ShortChainLimits& limits,
                                                   const std::stop_token& stop = {});

}  // namespace stowage

#endif  // STOWAGE_SOLVER_BOUNDS_SHORT_PROGRAM_SEARCH_H_
