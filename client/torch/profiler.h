// Measures what a solver must know: the chain of a network, and the link between device and host.
#ifndef STOWAGE_CLIENT_TORCH_PROFILER_H_
#define STOWAGE_CLIENT_TORCH_PROFILER_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "client/agent/device.h"
#include "client/torch/memory_meter.h"
#include "client/torch/torch_stages.h"
#include "solver/model/chain.h"
#include "solver/model/platform.h"

namespace stowage {

struct ProfileOptions {
  int warmups = 1;  // runs of each stage before those that count
  int repeats = 5;  // of which the median counts
  // Whether to measure graph mode, too: each fusion group as GraphUnit runs it, right after its
  // stages, whose last output is then there twice.
  bool graph_mode = false;
};

// Runs every stage by itself, with what the stages before it put out, and never holds more than one
// stage's values: a network that does not fit may be profiled. Times are the medians of
// FORWARD_SAVE and BACKWARD on the device's compute queue; bytes are what the allocator gave,
// gradients of parameters apart, which are there. A stage whose saved memory is shared is
// no_offload. One that is no_recompute runs as often as the others: where that is a collective,
// every rank must profile. Gradients, buffers and random generators are left as they were.
// In graph mode what a fusion group costs is all on its last stage, and entering it takes no time:
// a unit is traced once, in the first of the warm-ups, and what calling its trace takes is in its
// times.
// Requires: `stages` have been fed; at least one repeat. Errors: those of TorchStages.
// Source: RR-9302, section 5.1.
absl::StatusOr<Chain> ProfileChain(TorchStages* stages, Device* device, MemoryMeter* meter,
                                   const ProfileOptions& options = {});

struct LinkOptions {
  int64_t bytes = int64_t{64} << 20;  // of the transfers that are timed
  int repeats = 5;
};

// The bandwidths of the link and its latency, as a platform whose memory is the caller's to set. It
// is half duplex where copies both ways at once take as long as one after the other, or nearly.
// Errors: the device's.
absl::StatusOr<Platform> ProfileLink(Device* device, const LinkOptions& options = {});

// What is left of a device's memory for activations and their gradients, in bytes.
struct MemoryBudget {
  int64_t device = 0;     // all of it
  int64_t context = 0;    // taken by the driver, libraries and other processes
  int64_t weights = 0;    // parameters, and buffers with the copies that recomputations read
  int64_t gradients = 0;  // of the parameters that are trained
  int64_t optimizer = 0;  // its state
  int64_t margin = 0;     // for fragmentation and what was not foreseen

  int64_t activations() const {  // negative where nothing is left
    return device - context - weights - gradients - optimizer - margin;
  }
};

// `optimizer_copies`: how many numbers the optimizer keeps for each number that is trained: 0 for
// plain gradient descent, 1 with momentum, 2 for Adam. `margin`: a fraction of the device's memory.
MemoryBudget BudgetOf(const TorchStages& stages, int64_t device_bytes, int64_t context_bytes,
                      int optimizer_copies, double margin = 0.02);

// The upper one of two. Requires: not empty.
double MedianOf(std::vector<double> values);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_PROFILER_H_
