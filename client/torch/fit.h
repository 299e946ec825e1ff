// Trains a LibTorch network within a memory budget, in three lines of a training program:
//
//   stowage::Fit fit(network, input, loss, {.memory = "4GiB"});
//   for (...) {
//     at::Tensor value = fit.step(input, loss);  // in place of forward and backward
//
// The loop, the optimizer, clipping, accumulation and autocast stay the program's own.
#ifndef STOWAGE_CLIENT_TORCH_FIT_H_
#define STOWAGE_CLIENT_TORCH_FIT_H_

#include <ATen/core/Tensor.h>
#include <torch/nn/modules/container/sequential.h>

#include <memory>
#include <string>
#include <vector>

#include "client/agent/executor.h"
#include "client/torch/fit/fit_options.h"
#include "client/torch/fit/fit_plan.h"
#include "client/torch/stages/torch_stages.h"

namespace stowage {

// Where plain training fits into the budget, a step is plain training; otherwise it runs under a
// schedule, with equal losses and gradients (torch_stages.h says what a stage must not do). A
// schedule is measured before a step runs under it: one that takes more than the budget is
// replaced. An input of another shape or type, or a network in another training mode, is profiled
// at its first step and gets a plan of its own, within the same budget, which another thread finds:
// steps run meanwhile under the fastest schedule of another shape that fits, as one of a larger
// batch does, and wait where there is none. The eight plans used last are kept. What is measured
// are whole steps, while the numbers of gradients that exist wait in host memory. A stage must not
// wait for other processes, which measure at other steps.
// On a CUDA device the calling thread's current stream becomes the one that steps run on. On the
// host whatever other threads allocate with LibTorch counts as the step's. Not thread-safe; one
// thread makes all calls.
//
// Every member may throw, and names the stage or the option:
//   c10::ValueError        an option, or a stage that does not suit a schedule; with the remedy
//   c10::OutOfMemoryError  no schedule fits, with the least budget that does, which was measured
//                          if the device has as much; or the device is full
//   c10::Error             any other exception of the network or of LibTorch
// After a failed step gradients and buffers are partly updated: zero the gradients before the next.
class Fit {
 public:
  // Profiles the network on `input`, a tensor unless it has side inputs, and makes the plan of its
  // shape; changes no gradient, buffer or random generator. Stages that write into their inputs are
  // joined with the ones before them, and the last one with the loss if the loss's backward does
  // not read its input. The network stays the caller's and must be on the input's device, and in
  // training mode if it is to be trained.
  Fit(torch::nn::Sequential network, const TorchInput& input, const TorchLoss& loss,
      const FitOptions& options = {});
  // The same for a network that is cut into other parts.
  Fit(std::vector<TorchStage> stages, const TorchInput& input, const TorchLoss& loss,
      const FitOptions& options = {});
  ~Fit();
  Fit(Fit&& other) noexcept;
  Fit& operator=(Fit&& other) noexcept;

  // One forward and backward; adds to the gradients of the parameters. Returns the loss, detached.
  // The input must not require a gradient. Side inputs are not part of the budget.
  at::Tensor step(const TorchInput& input, const TorchLoss& loss);

  // The same, and times each command of the plan, which is a little slower. Throws ValueError where
  // a step is plain training.
  MeasuredStep timed_step(const TorchInput& input, const TorchLoss& loss);

  // Of the last step's shape. Valid until the next step.
  const FitPlan& plan() const;
  // For people, some lines for each shape: the stages, what plain training takes, the budget, and
  // what the plan does.
  std::string summary() const;
  // For people, a line for each shape: the steps so far, their median time and spread, and the most
  // memory, on the device and on the host, beside what was predicted.
  std::string report() const;

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_FIT_H_
