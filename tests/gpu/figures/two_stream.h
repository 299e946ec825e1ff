// A baseline schedule: keeps all saved values in host memory and copies on separate streams.
#ifndef STOWAGE_TESTS_GPU_FIGURES_TWO_STREAM_H_
#define STOWAGE_TESTS_GPU_FIGURES_TWO_STREAM_H_

#include "solver/model/chain.h"
#include "solver/model/schedule.h"

namespace stowage {

// Offloads every value but the last two after the forward that reads it, so that the copy overlaps
// the next stage's forward, and prefetches it one backward ahead. Without choices and
// recomputations, like frameworks that overlap `save_on_cpu` with a second stream (TorchTune's
// OffloadActivations), but by stages instead of tensors. The last two values are read at once;
// no_offload values stay on the device. O(stages).
Schedule TwoStreamSchedule(const Chain& chain);

}  // namespace stowage

#endif  // STOWAGE_TESTS_GPU_FIGURES_TWO_STREAM_H_
