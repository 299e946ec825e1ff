// Training small networks with LibTorch, plainly and under schedules, and comparing what comes out.
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
#include "client/torch/torch_stages.h"
#include "solver/model/chain.h"
#include "solver/model/schedule.h"

namespace stowage {

// A network, its data, and a learning rate of 0.05 with momentum.
struct Training {
  std::vector<TorchStage> stages;
  at::Tensor input = {};
  TorchLoss loss = nullptr;
  std::vector<at::Tensor> momenta = {};
};

// Of one kind and of one seed: two of them train alike.
using MakeTraining = std::function<Training()>;

// Every stage by itself: a convolution, batch normalization, ReLU, dropout, a view, a linear layer;
// then a stage of several that works in place inside.
Training ConvolutionTraining();

// As autograd does it without us; adds to the gradients. The loss.
at::Tensor PlainBackward(Training& training);
void OptimizerStep(Training& training);  // and zeroes the gradients
std::vector<at::Tensor> ParametersOf(const Training& training);

// Parameters, gradients, momenta, buffers, and the random generator's state.
std::vector<at::Tensor> StateOf(const Training& training);
// "" where they are the same, to the bit unless there is a tolerance, relative and absolute; else
// the first difference.
std::string Difference(const std::vector<at::Tensor>& one, const std::vector<at::Tensor>& other,
                       double tolerance = 0);

// EqualChain() in which every stage can run in graph mode, and each of these groups as one.
struct Group {
  int first = 0;
  int last = 0;
};
Chain EqualChainWithModes(int stages, const std::vector<Group>& groups = {});

// Steps of a network under one schedule, on a host device.
class Conductor {
 public:
  // `chain` need be the network's own only where the schedule offloads. Aborts the test where the
  // schedule is not valid.
  Conductor(const Training& training, const Chain& chain, const Schedule& schedule,
            const TorchOptions& options = {});

  absl::Status Step();
  TorchStages& stages() { return stages_; }
  // In graph mode, in order.
  std::vector<std::shared_ptr<const GraphUnit>> units() const;

 private:
  const at::Tensor input_;
  const TorchLoss loss_;
  Plan plan_;
  TorchStages stages_;
  HostDevice device_;
  std::unique_ptr<PlanExecutor> executor_;
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_TRAINING_H_
