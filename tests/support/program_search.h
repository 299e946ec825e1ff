// Every complete program of solver/README.md, tried: forwards of all kinds, backwards, offloads,
// releases and prefetches in any order that is valid, with the times of the three queues. Its
// answer is the true optimum. Shares no code with the solvers nor with the simulator: it keeps its
// own account of memory and of time. For chains of up to 4 stages; longer ones only where little is
// possible.
//
// How: programs are built one operation at a time. A node is a program begun: its situation (the
// gradient held, form and place of every value), which decides what operations are valid and what
// they take, and its clocks, which decide when they end. The node whose bound is least is continued
// first; the first complete program among those is the answer. There is no limit on how often a
// stage runs or a value travels. What is left out, and why nothing is lost by it:
//
// - Dominance: of two nodes in one situation, one whose clocks are all no later is enough. Every
//   rule of time is a maximum of clocks plus a duration that the situation decides. So whatever
//   completes the later node completes the other one, and ends no later. Equal clocks count: one
//   of the two is enough. That is what ends the search without counting recomputations: clocks
//   never go back, so a program that comes back to a situation is dominated by its own beginning.
// - Lifting: a clock that is only read in a maximum with another one, which never goes back, is
//   raised to that one, and one that nothing reads any more is forgotten. No operation ends at
//   another time, and more nodes compare. A copy that is over is such a clock.
// - The bound: clocks only go forward; no compute operation starts before the last one and the
//   releases so far have ended; left to run is at least the backward of every stage not yet done
//   and the FORWARD_SAVE of those whose ā is not there; and values on the host come back one after
//   the other, each before the backwards that follow what it is needed for. No program that begins
//   like the node is faster than that, so none left behind is faster than the answer.
// - Dead ends: FORWARD_DISCARD of what a no_recompute stage left, which its backward would need;
//   an OFFLOAD where nothing can be brought back, since nothing may remain on the host.
#ifndef STOWAGE_TESTS_SUPPORT_PROGRAM_SEARCH_H_
#define STOWAGE_TESTS_SUPPORT_PROGRAM_SEARCH_H_

#include <cstddef>
#include <optional>

#include "solver/model/chain.h"
#include "solver/model/platform.h"
#include "solver/model/schedule.h"

namespace stowage {

// Longer chains would hardly be answered.
inline constexpr int kMostProgramStages = 6;

struct ProgramSearchOptions {
  size_t most_nodes = 1'000'000;  // programs begun and kept before it gives up; 300 bytes each
  // The rules above, for tests that do without one: without dominance only equal nodes are left
  // out, without the bound the node whose latest clock is least comes first.
  bool dominance = true;
  bool lifting = true;
  bool bound = true;
};

struct ProgramResult {
  double seconds = 0;    // the fastest program's makespan; if the search gave up, none is below it
  Schedule schedule;     // empty if it gave up
  bool gave_up = false;  // after `most_nodes`: whether any program fits is not known
  size_t nodes = 0;      // what it cost
};

// The fastest program within the platform's limits; nullopt when there is none. `seconds` is what
// the clocks of `schedule` say, and the least up to the rounding of sums of doubles: exact for
// times whose sums are.
// Requires: Violations() of chain and platform are empty.
std::optional<ProgramResult> FastestProgram(const Chain& chain, const Platform& platform,
                                            const ProgramSearchOptions& options = {});

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_PROGRAM_SEARCH_H_
