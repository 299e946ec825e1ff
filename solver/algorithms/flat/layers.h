// Settings that recompute whole layers by one number, and their solvers.
//
// `uniform`    every `count` layers are one segment; the last one may be shorter. All layers are
//              recomputed (Megatron-LM, recompute_method uniform)
// `block`      each of the first `count` layers is a segment of its own, the others are saved
//              (Megatron-LM, recompute_method block)
// `every_nth`  of every `count` layers the last one is a segment of its own, the others are saved
//              (transformers' every_n_layers recomputes the first one instead)
//
// A solver tries every count, and recomputing nothing. no_recompute stages are saved and cut their
// segment. `block` and `every_nth` also try to save the layers that they name by option 1, 2, … in
// place of recomputing them; a stage that has not so many by the last that it has.
#ifndef STOWAGE_SOLVER_ALGORITHMS_FLAT_LAYERS_H_
#define STOWAGE_SOLVER_ALGORITHMS_FLAT_LAYERS_H_

#include <memory>
#include <vector>

#include "solver/algorithms/flat/flat_plan.h"
#include "solver/algorithms/solver.h"
#include "solver/model/chain.h"
#include "solver/model/chain_units.h"

namespace stowage {

// The layers of a chain, 1..L in order: neighbours with one fusion_group, or a single stage: its
// units but for the loss. None is marked as recomputed. O(L).
std::vector<Piece> LayersOf(const ChainUnits& units);

// The plan of a setting, for FlatSchedule(). O(L). Requires: `layers` are 1..L in order without a
// gap, and count >= 1.
std::vector<Piece> UniformPlan(const Chain& chain, const std::vector<Piece>& layers, int count);
std::vector<Piece> BlockPlan(const Chain& chain, const std::vector<Piece>& layers, int count);
std::vector<Piece> EveryNthPlan(const Chain& chain, const std::vector<Piece>& layers, int count);

// Each returns the fastest plan of its setting that fits; of equally fast ones the one with the
// lowest peak. O(layers * L) time.
std::unique_ptr<Solver> MakeUniform();
std::unique_ptr<Solver> MakeBlock();
std::unique_ptr<Solver> MakeEveryNth();

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_FLAT_LAYERS_H_
