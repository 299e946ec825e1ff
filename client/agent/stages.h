// What stands behind a chain: the computations of its stages, called by the executor in the order
// of a schedule.
#ifndef STOWAGE_CLIENT_AGENT_STAGES_H_
#define STOWAGE_CLIENT_AGENT_STAGES_H_

#include "absl/status/status.h"
#include "client/agent/device.h"
#include "solver/model/schedule.h"

namespace stowage {

// Spans are empty where a framework places values itself, and where there is nothing of the kind.
struct ForwardCall {
  int stage = 0;  // l, of the execution (modes.h): what graph mode runs as one is one stage
  OperationKind kind = OperationKind::kForwardSave;
  int run = 0;                // how often the stage has run forward before in this step
  DeviceSpan input = {};      // a^(l-1), to be read
  DeviceSpan value = {};      // to be written: a^l, and behind it what else the backward needs
  DeviceSpan workspace = {};  // the forward's overhead; holds nothing before or after
  void* stream = nullptr;
};

struct BackwardCall {
  int stage = 0;
  DeviceSpan input = {};           // a^(l-1)
  DeviceSpan value = {};           // ā^l
  DeviceSpan gradient = {};        // δ^l; none for the loss
  DeviceSpan input_gradient = {};  // δ^(l-1), to be written
  DeviceSpan workspace = {};
  void* stream = nullptr;
};

// Called from one thread at a time: that of the compute queue on a host device, else the one that
// runs the step. A stage may fail, by its status or an exception: the step then ends with an error.
class Stages {
 public:
  virtual ~Stages() = default;

  // The chain's input, a^0, to be written.
  virtual absl::Status Begin(DeviceSpan input, void* stream) = 0;
  virtual absl::Status Forward(const ForwardCall& call) = 0;
  virtual absl::Status Backward(const BackwardCall& call) = 0;
  // δ^0, to be read: the step is done.
  virtual absl::Status End(DeviceSpan input_gradient, void* stream) = 0;
};

// Stages whose framework keeps the values. They drop what the operations of solver/README.md drop.
class HeldStages : public Stages {
 public:
  // Value l, as it is live, to host memory of its size; it stays until Release(). On the queue of
  // the copy, of which `stream` is one. On a host device at the same time as computations.
  virtual absl::Status CopyToHost(int l, PinnedSpan to, void* stream) = 0;
  // Value l leaves the device: its copy is complete and nothing computed reads it any more. Called
  // between computations.
  virtual absl::Status Release(int l) = 0;
  // Value l takes device memory again and its content comes back from the host.
  virtual absl::Status CopyToDevice(int l, PinnedSpan from, void* stream) = 0;
  // Drops all that is held: a step has failed. No queue is at work.
  virtual void Abandon() = 0;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_AGENT_STAGES_H_
