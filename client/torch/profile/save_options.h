// Finds ways to save the stages of a profiled network (solver/README.md, "Ways to save a stage").
#ifndef STOWAGE_CLIENT_TORCH_PROFILE_SAVE_OPTIONS_H_
#define STOWAGE_CLIENT_TORCH_PROFILE_SAVE_OPTIONS_H_

#include <functional>

#include "absl/status/status.h"
#include "client/agent/device.h"
#include "client/torch/base/memory_meter.h"
#include "client/torch/stages/torch_stages.h"
#include "solver/model/chain.h"

namespace stowage {

struct SaveOptionsSearch {
  int count = 3;  // the most options of a stage, up to kMaxSaveOptions
  int warmups = 1;
  int repeats = 3;               // measured runs of each option, of which the median counts
  bool stays_on_device = false;  // as in ProfileOptions
  std::function<void(int stage)> progress = nullptr;  // before each stage; may be empty
};

// Sets the save_options of the stages of both `stages` and `chain`, which is their profile. Those
// that a stage has already are measured; for a stage without, options are chosen
// (solver/algorithms/kept_operators.h) from what each of its operators takes and keeps. Each one is
// run as a step runs it: its bytes and its overhead are the allocator's, and its backward takes as
// much longer than the stage's own as forward and backward together were measured to, side by
// side: a chain has one time of a stage's forwards. Of those that a stage has, each saves a
// twentieth less at least than the stage's own way, and is quicker than all that save less.
//
// A stage has none if it is the loss or no_recompute, has graph costs, may lose its input before
// its backward (input_unread), works in place on what would be kept, or does not call the same
// operators twice. Of stages with equal operators and sizes, such as the layers of a transformer,
// the first one is measured: a stage takes about as long as `count` times its profile, then three
// forwards for each further one.
//
// Gradients, buffers and random generators are restored. Requires: `stages` have been fed, and have
// not changed since the profile. Errors: those of TorchStages.
absl::Status FindSaveOptions(TorchStages* stages, Device* device, MemoryMeter* meter,
                             const SaveOptionsSearch& search, Chain* chain);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_PROFILE_SAVE_OPTIONS_H_
