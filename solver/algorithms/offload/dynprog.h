// The dynamic program of the offloading paper (Euro-Par 2020, Algorithm 1) over memory slots: which
// values to move, if copies could stop and go on at any moment and freed memory as they run, but a
// value moves as a whole or not at all. The decisions then make a no-wait schedule of whole copies.
//
// A state before stage i with value i-1, of size x: A (kept for good), ΔF (yet to leave; below 0:
// for how long, in bytes, the link has been free), ΔB (yet to return, seen from the end; likewise).
//   εF = [A + ΔF⁺ + x + ā^i + oF_i - M]⁺ / βo
//   εB = [A + ΔB⁺ + x + ā^i + δ^i + δ^(i-1) + oB_i - M]⁺ / βp
//   moved:  A,      ΔF⁺ + x - βo (uF_i + εF),  x + [ΔB - βp (uB_i + εB)]⁺
//   kept:   A + x,  ΔF - βo (uF_i + εF),       ΔB - βp (uB_i + εB)
// The idle time between the phases is ΔF/βo + ΔB/βp where both are positive. Where one is, it may
// go on beside the first backwards, or the last forwards, while the link is free and memory allows
// (equations 9 and 10, which are lower bounds).
// Departures: a transfer of x bytes lasts x / β; (6) takes the backward's overhead; a state that is
// no better in anything than another goes, and of very many the least promising.
#ifndef STOWAGE_SOLVER_ALGORITHMS_OFFLOAD_DYNPROG_H_
#define STOWAGE_SOLVER_ALGORITHMS_OFFLOAD_DYNPROG_H_

#include <memory>

#include "solver/algorithms/solver.h"

namespace stowage {

std::unique_ptr<Solver> MakeOffloadDynprog();

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_OFFLOAD_DYNPROG_H_
