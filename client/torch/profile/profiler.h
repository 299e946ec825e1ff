// Measures the chain of a network.
#ifndef STOWAGE_CLIENT_TORCH_PROFILE_PROFILER_H_
#define STOWAGE_CLIENT_TORCH_PROFILE_PROFILER_H_

#include <functional>

#include "absl/status/statusor.h"
#include "client/agent/device.h"
#include "client/torch/base/memory_meter.h"
#include "client/torch/stages/torch_stages.h"
#include "solver/model/chain.h"

namespace stowage {

struct ProfileOptions {
  int warmups = 1;  // unmeasured runs of each stage
  int repeats = 5;  // measured runs, of which the median counts
  // Also measures each unit in graph mode, right after its stages. Meanwhile the unit's output is
  // in memory twice.
  bool graph_mode = false;
  // Schedules will not offload. Then a saved value leaves out what the value before has passed on
  // to it, down to the size of its output: the value before stays on the device as long as it does.
  bool stays_on_device = false;
  std::function<void(int stage)> progress = nullptr;  // before each stage; may be empty
};

// Runs one stage after the other and holds the values of one stage only, so that a network that
// does not fit can be profiled.
// - Times are those of FORWARD_SAVE and BACKWARD in a step that stores everything: the device's, or
//   the host's where the device waits for what the host has not enqueued yet. Of stages that do the
//   same work all runs count for each, unless they take far more or less than the others.
// - Bytes are the allocator's. Gradients of parameters are not included: they exist already.
// - A stage whose saved memory is shared becomes no_offload.
// - A stage whose backward does not read its input becomes input_unread, but for the first one, and
//   for all where graph mode is measured, too.
// - A stage whose replay ends early, and takes less than its forward, has replay_seconds; none does
//   where graph mode is measured, too.
// - The overhead of a forward that saves and that of one that does not are measured each; where
// graph
//   mode is measured, too, the larger one is both.
// - A no_recompute stage runs as often as the others. If it is a collective, every rank must
//   profile.
// - The graph-mode costs of a unit are all on its last stage, and entering it takes no time: a unit
//   is traced once, in the first warm-up, and the time of calling the trace is part of its times.
// Gradients, buffers and random generators are restored.
// Requires: `stages` have been fed; repeats >= 1. Errors: those of TorchStages.
// Source: RR-9302, section 5.1.
absl::StatusOr<Chain> ProfileChain(TorchStages* stages, Device* device, MemoryMeter* meter,
                                   const ProfileOptions& options = {});

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_PROFILE_PROFILER_H_
