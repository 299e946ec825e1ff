// Trains small networks with LibTorch, without and under schedules, and compares the results.
#ifndef STOWAGE_TESTS_SUPPORT_TRAINING_H_
#define STOWAGE_TESTS_SUPPORT_TRAINING_H_

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/agent/executor.h"
#include "client/agent/host_device.h"
#include "client/torch/stages/torch_stages.h"
#include "solver/model/chain.h"
#include "solver/model/schedule.h"

namespace stowage {

// Schedules of three and of seven stages and the loss: what stores all, and what stores nothing.
inline constexpr const char* kThreeStored = "S1 S2 S3 S4 B4 B3 B2 B1";
inline constexpr const char* kThreeRecomputed = "C1 D2 D3 S4 B4 C1 D2 S3 B3 C1 S2 B2 S1 B1";
inline constexpr const char* kSevenStored = "S1 S2 S3 S4 S5 S6 S7 S8 B8 B7 B6 B5 B4 B3 B2 B1";

// A network, its data, and the state of SGD with momentum 0.9 and learning rate 0.05.
struct Training {
  std::vector<TorchStage> stages;
  at::Tensor input = {};
  TorchLoss loss = nullptr;
  std::vector<at::Tensor> momenta = {};
  SideInputs sides = {};
  // The network as one writes it without stages; null: one stage after the other.
  std::function<at::Tensor(const TorchInput&)> forward = nullptr;
};

// Seven stages: convolution, batch normalization, ReLU, dropout, a block of several layers that
// works in place inside, a view, a linear layer. Two calls return trainings with equal results.
Training ConvolutionTraining();

// A U-Net (Ronneberger et al. 2015, figure 1) with four skips, batch normalization, in-place ReLUs
// and dropout. A stage is a convolution with what follows it; two of the levels pool in a stage of
// its own.
Training UNetTraining(c10::Device device);

// Six stages with tuples: a tensor that every one passes on, skips that cross each other and of
// which one is read twice, one of integers, one that the next stage takes, too; and a mask as a
// side input.
Training TupleTraining(c10::Device device);

// Forward and backward with autograd alone; adds to the gradients. Returns the loss.
at::Tensor PlainBackward(Training& training);
void OptimizerStep(Training& training);  // and zeroes the gradients
std::vector<at::Tensor> ParametersOf(const Training& training);

// Parameters, gradients, momenta, buffers, and the random generator's state.
std::vector<at::Tensor> StateOf(const Training& training);
// "" if the tensors are equal, else the first difference. Compares bit by bit, or with a tolerance,
// relative and absolute.
std::string Difference(const std::vector<at::Tensor>& one, const std::vector<at::Tensor>& other,
                       double tolerance = 0);

// EqualChain() in which every stage can run in graph mode, and each group is one unit.
struct Group {
  int first = 0;
  int last = 0;
};
Chain EqualChainWithModes(int stages, const std::vector<Group>& groups = {});

// Runs steps of a network under one schedule on a host device.
class ScheduledTraining {
 public:
  // `chain` may be another chain of the same length, unless the schedule offloads. Aborts the test
  // if the schedule is not valid.
  ScheduledTraining(const Training& training, const Chain& chain, const Schedule& schedule,
                    const TorchOptions& options = {});

  absl::Status Step();
  TorchStages& stages() { return stages_; }
  // The units in graph mode, in order.
  std::vector<std::shared_ptr<const GraphUnit>> units() const;

 private:
  const TorchInput input_;
  const TorchLoss loss_;
  FrameworkPlan plan_;
  TorchStages stages_;
  HostDevice device_;
  std::unique_ptr<FrameworkExecutor> executor_;
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_TRAINING_H_
