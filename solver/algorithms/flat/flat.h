// The fastest flat plans (flat_plan.h): of every stage, and of whole layers.
//
// `flat`       each stage is saved, or in a segment that is recomputed once
// `per_layer`  each layer is saved, or recomputed as one segment
//
// A layer is a run of stages with one fusion_group, or a single stage. Both are exact: to the byte,
// and for the times of the instance. They count replay_seconds, and keep every input until the
// backward of its stage, input_unread or not, as frameworks do.
//
// With a link, what a piece leaves may be offloaded (OffloadPlan): that is searched for, and proved
// where branch and bound ends (offload_search.h).
#ifndef STOWAGE_SOLVER_ALGORITHMS_FLAT_FLAT_H_
#define STOWAGE_SOLVER_ALGORITHMS_FLAT_FLAT_H_

#include <memory>

#include "solver/algorithms/solver.h"

namespace stowage {

// The longest chain whose segments may have any length. In longer ones they have at most as many
// stages as keep the number of possible segments at kMaxSegments.
inline constexpr int kMaxStagesOfAnySegment = 2000;
inline constexpr int kMaxSegments = 2'000'000;
// The same of plans that offload.
inline constexpr int kMaxSegmentsOfOffloads = 20'000;

std::unique_ptr<Solver> MakeFlat();
std::unique_ptr<Solver> MakePerLayer();

}  // namespace stowage

#endif  // STOWAGE_SOLVER_ALGORITHMS_FLAT_FLAT_H_
