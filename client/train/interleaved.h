// Several trainings, one step of each in turn, so that what else the machine does hits all alike.
#ifndef STOWAGE_CLIENT_TRAIN_INTERLEAVED_H_
#define STOWAGE_CLIENT_TRAIN_INTERLEAVED_H_

#include <ATen/core/Tensor.h>
#include <torch/optim/sgd.h>

#include <cstdint>
#include <functional>
#include <list>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/train/networks.h"
#include "client/train/training_report.h"

namespace stowage {

// A network of its own with an optimizer. Trainings whose networks are equal compute the same
// numbers, however they run their steps. Gradients and momenta exist from the start, so that they
// count as no step's memory.
class InterleavedTraining {
 public:
  InterleavedTraining(std::string name, Network network);

  const Network& network() const { return network_; }
  // One forward and backward, which adds to the gradients; returns the loss.
  std::function<absl::StatusOr<at::Tensor>()> step = nullptr;
  TrainingSamples samples = {};

  // Runs a step and the optimizer's. Adds to the samples if `measured`. `seed`: of dropout.
  absl::Status Train(uint64_t seed, bool measured);

 private:
  Network network_;
  torch::optim::SGD optimizer_;
};

struct InterleavedOptions {
  int unmeasured = 2;  // rounds before: libraries set themselves up
  int rounds = 10;
  int seed = 1;
  // Before rounds, once a second at most. May be empty.
  std::function<void(const std::string& what)> progress = nullptr;
};

// Runs rounds of a step of each, every round beginning with the next one. One that does not fit
// says so in its samples' status and takes no further part. Any other error ends the run.
absl::Status RunInterleaved(std::list<InterleavedTraining>* trainings,
                            const InterleavedOptions& options);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TRAIN_INTERLEAVED_H_
