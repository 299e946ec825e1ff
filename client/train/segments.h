// Recomputation as programs write it by hand: what a schedule has to be better than.
#ifndef STOWAGE_CLIENT_TRAIN_SEGMENTS_H_
#define STOWAGE_CLIENT_TRAIN_SEGMENTS_H_

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "client/train/networks.h"
#include "solver/model/chain.h"
#include "solver/model/platform.h"

namespace stowage {

// The number of segments that is best by a chain's times within the platform's memory. Solves in
// this process. Errors: RESOURCE_EXHAUSTED where no number fits; those of LocalScheduler.
absl::StatusOr<int> BestSegments(const Chain& chain, const Platform& platform);

// One forward and backward in `count` segments of equal length, the last one with the remainder and
// the loss, as PyTorch's checkpoint_sequential: each but the last keeps only its input and runs
// again, with the same random numbers, in the backward. Running statistics move twice, as there.
// Adds to the gradients; returns the loss, detached. Errors: RESOURCE_EXHAUSTED, INTERNAL.
// Requires: 1 <= count <= number of stages.
absl::StatusOr<at::Tensor> SegmentsStep(const Network& network, int count);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TRAIN_SEGMENTS_H_
