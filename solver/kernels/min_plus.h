// The inner loops of the dynamic programs over the parts [s..t] of a chain and memory levels m:
//
//   C(s,t,m) = min( C(s+1, t, m - saved[s])                             if m >= SaveNeed(s,t),
//                   min over k in s..t-1 of  sweep_end[k+1] - prefix[s]
//                       + C(s, k, m) + C(k+1, t, m - output[k])         if m >= SweepNeed(s,k,t) )
//   C(t,t,m) = 0                                                        if m >= SaveNeed(t,t)
//
// and infinite where no case applies. Saving has one more case for each other way w of stage s
// (OtherWay): lost[w] + C(s+1, t, m - saved[w]), lost[w] where s = t, from that way's need on.
// prefix[s] is the time of the forwards before s, sweep_end[s] the same with the last of them a
// replay, and at most prefix[s]. This is RR-9302's Theorem 1 minus Σ(uF + uB), with stages numbered
// from 0 (see rotor_table.h). C(s,t,.) is non-increasing in m.
//
//   letter     meaning                                                               unit
//   C(s,t,m)   least time of part [s..t] in m slots beyond one forward and backward  as prefix
//   m          memory, the part's input not counted                                  slots
//   k          last stage of the front part; the split is [s..k], [k+1..t]
//
// Optimizations:
// 1. Chunks. C(.,.,m) depends on C(.,.,m') with m' <= m only. The outermost loop is over chunks of
//    kLanes levels, one vector.
// 2. Matrix product. Inside a chunk, the minimum over k is a min-plus matrix product of
//      left  A[s][k] = C(s,k,m)   and   right  B[k][t] = C(k+1, t, m - output[k]) + sweep_end[k+1],
//    computed in blocks of kBlock x kBlock parts held in registers, k innermost. Both operands are
//    stored in the order in which they are read.
// 3. Constant entries are not computed: levels below a part's minimum (`least`), levels at which
//    storing all of it fits (`most`), and levels that no requested schedule reaches (`bottom`,
//    `top`).
// 4. Bounds. For kBlock rows (or columns) and each group of kGroup consecutive k, the minimum of A
//    (or B) is kept by lane. A group is skipped when the sum of the two is no better than what the
//    block already has, in every lane. The most promising group is computed first, and the block's
//    initial upper bound is its value one level below the chunk. Skipping is exact because
//    floating-point addition is monotone.
//
// Single precision. Each value is computed in one fixed order of additions, and min is exact, so
// every target and the scalar version give identical bits. Nothing is allocated; memory is accessed
// through the pointers of TableView only. Thread-safe for tiles that do not depend on each other.
#ifndef STOWAGE_SOLVER_KERNELS_MIN_PLUS_H_
#define STOWAGE_SOLVER_KERNELS_MIN_PLUS_H_

#include <string>
#include <vector>

#include "solver/kernels/min_plus_table.h"

namespace stowage {

// Fills the blocks [row, row + kTile) x [column, column + kTile) of a chunk on and above the
// diagonal. Requires: all previous chunks are filled, and in this chunk all tiles to the left of
// and below this one.
void FillTile(const TableView& table, int chunk, int row, int column);

// The instruction sets on which FillTile() can run on this machine, "scalar" among them.
std::vector<std::string> MinPlusTargets();
// Selects one of them, or "best", the default. For tests and benchmarks only; not thread-safe, and
// not allowed while a table is being filled. Returns false for an unknown name.
bool SetMinPlusTarget(const std::string& name);

}  // namespace stowage

#endif  // STOWAGE_SOLVER_KERNELS_MIN_PLUS_H_
