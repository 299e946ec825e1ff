// The computations of a chain's stages, as the executors call them in the order of a schedule. Two
// interfaces, by who owns the memory of values: the agent's arena or a framework.
#ifndef STOWAGE_CLIENT_AGENT_STAGES_H_
#define STOWAGE_CLIENT_AGENT_STAGES_H_

#include "absl/status/status.h"
#include "client/agent/device.h"
#include "solver/model/schedule.h"

namespace stowage {

// Stages are those of the execution (modes.h): a unit in graph mode is one stage.
struct ForwardCall {
  int stage = 0;                                     // l
  OperationKind kind = OperationKind::kForwardSave;  // Saves(kind): for the backward
  int run = 0;                                       // earlier forwards of this stage in this step
  bool repeated = false;                             // with run 0: this step recomputes the stage
  bool replayed = false;                             // the next forward of this stage is a replay
  bool replay = false;     // may end once it has what the backward, which is next, reads
  int save_option = 0;     // of one that saves: of Stage::save_options; 0: the stage's own way
  void* stream = nullptr;  // as DeviceWork gets it: a cudaStream_t, null on the host
};

struct BackwardCall {
  int stage = 0;  // l
  void* stream = nullptr;
};

// Where the agent has placed what a forward reads and writes. Spans may be empty.
struct ForwardSpans {
  DeviceSpan input;      // a^(l-1), read
  DeviceSpan value;      // a^l, written, followed by what else the backward needs
  DeviceSpan workspace;  // the forward's overhead; undefined before and after the call
};

struct BackwardSpans {
  DeviceSpan input;           // a^(l-1), read; empty once a FORWARD_SAVE_DISCARD has dropped it
  DeviceSpan value;           // ā^l, read
  DeviceSpan gradient;        // δ^l, read; empty for the loss
  DeviceSpan input_gradient;  // δ^(l-1), written
  DeviceSpan workspace;       // the backward's overhead; undefined before and after the call
};

// Requirements on both interfaces:
// 1. The caller uses one thread at a time for all members but copies: on a host device the compute
//    queue's, else the thread that runs the step.
// 2. A member may fail, by its status or an exception: the step then ends with that error.

// Stages that compute in the spans that they are given.
class ArenaStages {
 public:
  virtual ~ArenaStages() = default;

  // Starts a step: writes the chain's input, a^0.
  virtual absl::Status Begin(DeviceSpan input, void* stream) = 0;
  virtual absl::Status Forward(const ForwardCall& call, const ForwardSpans& spans) = 0;
  virtual absl::Status Backward(const BackwardCall& call, const BackwardSpans& spans) = 0;
  // Ends a step that succeeded: reads δ^0.
  virtual absl::Status End(DeviceSpan input_gradient, void* stream) = 0;
};

// Stages whose framework allocates values and gradients. The stages drop each value where
// solver/README.md, "Operations and schedules", says that its operation drops it.
class FrameworkStages {
 public:
  virtual ~FrameworkStages() = default;

  // Starts a step: makes the chain's input, a^0.
  virtual absl::Status Begin(void* stream) = 0;
  virtual absl::Status Forward(const ForwardCall& call) = 0;
  virtual absl::Status Backward(const BackwardCall& call) = 0;
  // Ends a step that succeeded; takes δ^0.
  virtual absl::Status End(void* stream) = 0;

  // Copies value l to host memory of its size; the value stays until Release(). `stream` is that of
  // the copy's queue. On a host device it runs concurrently with computations.
  virtual absl::Status CopyToHost(int l, PinnedSpan to, void* stream) = 0;
  // Frees the device memory of value l. Called between computations, after its copy has ended and
  // the last computation that reads it.
  virtual absl::Status Release(int l) = 0;
  // Allocates device memory for value l and copies it back, like CopyToHost().
  virtual absl::Status CopyToDevice(int l, PinnedSpan from, void* stream) = 0;
  // Drops all values and gradients after a step that failed. No queue has work.
  virtual void Abandon() = 0;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_AGENT_STAGES_H_
