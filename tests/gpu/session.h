// Measures training steps without a schedule and under one, from the same weights.
#ifndef STOWAGE_TESTS_GPU_SESSION_H_
#define STOWAGE_TESTS_GPU_SESSION_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/agent/executor.h"
#include "client/agent/plan.h"
#include "client/torch/base/memory_meter.h"
#include "client/torch/base/torch_device.h"
#include "client/torch/stages/torch_stages.h"
#include "client/train/networks.h"

namespace stowage {

// Times and memory of forward and backward, without the optimizer's step.
struct TrainingMeasurement {
  double step_seconds = 0;                 // the median
  int64_t peak_bytes = 0;                  // of activations and gradients, with the input
  double loss = 0;                         // of the last step
  int64_t verified_recomputations = 0;     // compared with their first runs
  std::vector<std::string> traced = {};    // names of graph-mode units that ran as a trace
  std::vector<std::string> as_block = {};  // of those that did not: "name: reason"
};

// Runs one forward and backward with LibTorch alone on the compute queue. Returns its seconds, sets
// `loss`, and adds to the gradients. Errors: RESOURCE_EXHAUSTED if it does not fit.
absl::StatusOr<double> StepWithoutSchedule(const Network& network, Device* device,
                                           at::Tensor* loss);

struct SessionOptions {
  int steps = 1;  // measured ones
  int seed = 1;   // of dropout and other random numbers during training
};

// In the unmeasured steps: to compare outputs takes longer than to compute them.
enum class Verification { kOff, kRecomputations };

// Not thread-safe.
class Session {
 public:
  // Unmeasured steps before: gradients, momenta and libraries allocate their memory.
  static constexpr int kUnmeasured = 2;

  // Borrows `device` and `meter`.
  Session(Network network, TorchDevice* device, MemoryMeter* meter, const SessionOptions& options);

  const Network& network() const { return network_; }

  // Each training starts from the same weights, momenta and random numbers.
  // Errors: RESOURCE_EXHAUSTED if it does not fit.
  absl::StatusOr<TrainingMeasurement> TrainWithoutSchedule();
  // Errors: those of the executor and of TorchStages.
  absl::StatusOr<TrainingMeasurement> TrainUnder(const FrameworkPlan& plan,
                                                 Verification verification = Verification::kOff);
  // Copies of the last step's gradients, by parameter; undefined where a parameter has none.
  std::vector<at::Tensor> Gradients() const;
  // Runs steps under a plan and times every operation. Returns `repeats` of them.
  absl::StatusOr<std::vector<MeasuredStep>> Trace(const FrameworkPlan& plan, int repeats);

 private:
  using Step = std::function<absl::StatusOr<double>()>;  // returns its seconds

  absl::StatusOr<TrainingMeasurement> Train(const Step& step,
                                            const std::function<at::Tensor()>& loss);
  void RestoreInitialState();

  const Network network_;
  TorchDevice& device_;
  MemoryMeter& meter_;
  const SessionOptions options_;
  std::vector<at::Tensor> tensors_;  // parameters and buffers
  std::vector<at::Tensor> initial_;  // host copies of their initial contents
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_GPU_SESSION_H_
