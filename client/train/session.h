// Steps of training, measured: without a schedule and under one, from the same weights.
#ifndef STOWAGE_CLIENT_TRAIN_SESSION_H_
#define STOWAGE_CLIENT_TRAIN_SESSION_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/agent/executor.h"
#include "client/agent/plan.h"
#include "client/torch/memory_meter.h"
#include "client/torch/torch_stages.h"
#include "client/train/networks.h"
#include "client/train/trace.h"
#include "client/train/train_device.h"

namespace stowage {

// Of forward and backward; the optimizer's part is the same for all.
struct Measured {
  double step_seconds = 0;               // the median
  int64_t peak_bytes = 0;                // of activations and their gradients, the input included
  double loss = 0;                       // of the last step
  int64_t verified = 0;                  // recomputations that were compared with their first runs
  std::vector<std::string> traced = {};  // units in graph mode that ran by a trace,
  std::vector<std::string> blocks = {};  // and those that did not, with the reason
};

// One forward and backward as LibTorch alone does it, on the compute queue: its seconds, and its
// loss. Adds to the gradients. Errors: RESOURCE_EXHAUSTED where it does not fit.
absl::StatusOr<double> StepPlainly(const Network& network, Device* device, at::Tensor* loss);

// Not thread-safe.
class Session {
 public:
  // Steps before those that count: gradients, momenta and libraries take their memory.
  static constexpr int kUnmeasured = 2;

  // Borrows `device` and `meter`.
  Session(Network network, TrainDevice* device, MemoryMeter* meter, int steps, int seed);

  const Network& network() const { return network_; }

  // As LibTorch alone does it. Errors: RESOURCE_EXHAUSTED where it does not fit.
  absl::StatusOr<Measured> TrainPlainly();
  // Errors: those of the executor and of TorchStages.
  absl::StatusOr<Measured> TrainUnder(const Plan& plan, bool verifies);
  // Of the last step, by parameter: copies on the host, undefined where there is none.
  std::vector<at::Tensor> Gradients() const;
  // One more step under a plan, every operation timed.
  absl::StatusOr<MeasuredStep> Trace(const Plan& plan);

 private:
  using Step = std::function<absl::StatusOr<double>()>;  // returns its seconds

  // Weights, momenta and random numbers as at first; then the steps.
  absl::StatusOr<Measured> Train(const Step& step, const std::function<at::Tensor()>& loss);
  void Restore();

  const Network network_;
  TrainDevice& device_;
  MemoryMeter& meter_;
  const int steps_;
  const int seed_;
  std::vector<at::Tensor> tensors_;  // parameters and buffers,
  std::vector<at::Tensor> first_;    // and what was in them, on the host
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TRAIN_SESSION_H_
