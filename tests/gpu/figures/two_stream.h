// The schedule of a job that keeps everything it saves in host memory and copies on streams of its
// own, as a baseline.
#ifndef STOWAGE_TESTS_GPU_FIGURES_TWO_STREAM_H_
#define STOWAGE_TESTS_GPU_FIGURES_TWO_STREAM_H_

#include "solver/model/chain.h"
#include "solver/model/schedule.h"

namespace stowage {

// Every value but the last two leaves the device as soon as the forward that reads it has run, and
// its copy has the next stage's forward to hide behind; it comes back one backward ahead. Nothing
// is chosen and nothing recomputed: that is what frameworks offer who overlap `save_on_cpu` with a
// second stream (TorchTune's OffloadActivations, say), with a whole stage in the place of one
// tensor. The last two values are read at once. Values that may not leave stay. O(stages).
Schedule TwoStreamSchedule(const Chain& chain);

}  // namespace stowage

#endif  // STOWAGE_TESTS_GPU_FIGURES_TWO_STREAM_H_
