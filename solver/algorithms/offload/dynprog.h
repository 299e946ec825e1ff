// The dynamic program of the offloading paper (Euro-Par 2020, Algorithm 1) over memory slots. It
// decides which values to offload under a relaxation: copies can be interrupted and free memory
// continuously, but a value is offloaded entirely or not at all. The decisions are then converted
// to a no-wait schedule of whole copies (stored_chain.h).
//
//   letter   meaning                                                                 unit
//   x        size of value i-1, which stage i reads                                  slots
//   A        values kept on the device until their backward                          slots
//   ΔF       yet to be offloaded; negative: the link's idle time times its rate      slots
//   ΔB       the same for prefetches, with time running backward from the end        slots
//   εF, εB   idle time at stage i in the forward, backward phase                     s
//   βo, βp   offload, prefetch bandwidth (the paper's β is both)                     slots/s
//   [z]⁺     max(z, 0); Δ⁺ is short for [Δ]⁺
//
// The cost of a state (A, ΔF, ΔB) before stage i is the sum of ε so far. Stage i is possible if
//   A + x + ā^i + max(oF_i, δ^i + δ^(i-1) + oB_i) <= M
// and leads to one state for each decision about value i-1:
//   εF = [A + ΔF⁺ + x + ā^i + oF_i - M]⁺ / βo
//   εB = [A + ΔB⁺ + x + ā^i + δ^i + δ^(i-1) + oB_i - M]⁺ / βp
//   moved:  A,      ΔF⁺ + x - βo (uF_i + εF),  x + [ΔB - βp (uB_i + εB)]⁺
//   kept:   A + x,  ΔF - βo (uF_i + εF),       ΔB - βp (uB_i + εB)
// The idle time between the phases is ΔF/βo + ΔB/βp if both are positive. If one is positive, the
// copies may continue during the first backwards, or the last forwards, while the link is idle and
// memory allows (equations 9 and 10, which are lower bounds).
//
// Departures from the paper: a transfer of x bytes takes x / β seconds; equation (6) uses the
// overhead of the backward; dominated states are dropped, and of more than 1000 per stage (fewer in
// long chains) the least promising ones. Both directions of rounding to slots are tried.
#ifndef STOWAGE_SOLVER_ALGORITHMS_OFFLOAD_DYNPROG_H_
#define STOWAGE_SOLVER_ALGORITHMS_OFFLOAD_DYNPROG_H_

#include <memory>

#include "solver/algorithms/solver.h"

namespace stowage {

// O(L S^2) time and O(L S) memory with S states per stage.
std::unique_ptr<Solver> MakeOffloadDynprog();

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_OFFLOAD_DYNPROG_H_
