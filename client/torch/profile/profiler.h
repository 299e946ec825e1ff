// Measures a solver's input: the chain of a network, and the link between device and host.
#ifndef STOWAGE_CLIENT_TORCH_PROFILE_PROFILER_H_
#define STOWAGE_CLIENT_TORCH_PROFILE_PROFILER_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "client/agent/device.h"
#include "client/torch/base/memory_meter.h"
#include "client/torch/stages/torch_stages.h"
#include "solver/model/chain.h"
#include "solver/model/platform.h"

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

struct LinkOptions {
  int64_t bytes = int64_t{64} << 20;  // of one timed transfer
  int repeats = 5;
};

// Measures bandwidths and latency of the link. The caller sets the platform's memory. The link is
// half duplex unless concurrent copies in both directions take hardly longer than one alone.
// Errors: the device's.
absl::StatusOr<Platform> ProfileLink(Device* device, const LinkOptions& options = {});

// How a device's memory is used, and what is left for activations and their gradients.
struct MemoryBudget {
  int64_t device_bytes = 0;     // total
  int64_t context_bytes = 0;    // used by the driver, libraries and other processes
  int64_t weight_bytes = 0;     // parameters, and buffers with the copies that recomputations read
  int64_t gradient_bytes = 0;   // of the trained parameters
  int64_t optimizer_bytes = 0;  // the optimizer's state
  int64_t margin_bytes = 0;     // for fragmentation and unforeseen allocations

  int64_t activation_bytes() const {  // negative if nothing is left
    return device_bytes - context_bytes - weight_bytes - gradient_bytes - optimizer_bytes -
           margin_bytes;
  }
};

struct BudgetOptions {
  int64_t device_bytes = 0;
  int64_t context_bytes = 0;
  // Numbers of optimizer state for each trained number: 0 for plain gradient descent, 1 with
  // momentum, 2 for Adam.
  int optimizer_copies = 0;
  double margin = 0.02;  // a fraction of device_bytes
};
MemoryBudget BudgetOf(const TorchStages& stages, const BudgetOptions& options);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_PROFILE_PROFILER_H_
