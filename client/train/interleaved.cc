#include "client/train/interleaved.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/torch/base/memory_meter.h"
#include "client/torch/base/torch_guarded.h"
#include "solver/base/prefixed.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

std::vector<at::Tensor> ParametersOf(const Network& network) {
  return TorchStages(network.stages, {.device = network.input.device()}).Parameters();
}

}  // namespace

InterleavedTraining::InterleavedTraining(std::string name, Network network)
    : samples({.name = std::move(name)}),
      network_(std::move(network)),
      optimizer_(ParametersOf(network_), torch::optim::SGDOptions(0.01).momentum(0.9)) {
  for (at::Tensor& parameter : optimizer_.param_groups()[0].params()) {
    parameter.mutable_grad() = at::zeros_like(parameter);
  }
  optimizer_.step();  // without gradients: makes the momenta and changes no weight
}

absl::Status InterleavedTraining::Train(uint64_t seed, bool measured) {
  MemoryMeter& meter = MemoryOf(network_.input.device());
  return TorchGuarded([&]() -> absl::Status {
    at::manual_seed(seed);
    for (at::Tensor& parameter : optimizer_.param_groups()[0].params()) parameter.grad().zero_();
    (void)at::zeros({}, network_.input.options()).item();  // waits for the device
    const int64_t before_bytes = meter.LiveBytes();
    meter.ResetPeak();
    const auto begin = std::chrono::steady_clock::now();
    ASSIGN_OR_RETURN(const at::Tensor loss, step());
    const double number = loss.item<double>();  // waits for the device, too
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    samples.losses.push_back(number);
    if (measured) {
      samples.seconds.push_back(seconds.count());
      // The input is part of a step's memory, and exists already.
      samples.peak_bytes =
          std::max(samples.peak_bytes, meter.PeakBytes() - before_bytes +
                                           static_cast<int64_t>(network_.input.nbytes()));
    }
    optimizer_.step();
    return absl::OkStatus();
  });
}

absl::Status RunInterleaved(std::list<InterleavedTraining>* trainings,
                            const InterleavedOptions& options) {
  constexpr std::chrono::seconds kBetweenReports{1};
  auto told = std::chrono::steady_clock::now();
  for (int round = 0; round < options.unmeasured + options.rounds; ++round) {
    const int measured = round - options.unmeasured;
    if (options.progress && std::chrono::steady_clock::now() >= told + kBetweenReports) {
      told = std::chrono::steady_clock::now();
      options.progress(measured < 0 ? "first steps, which are not measured"
                                    : absl::StrCat("step ", measured + 1, " of ", options.rounds));
    }
    for (InterleavedTraining& next : *trainings) {
      if (!next.samples.status.ok()) continue;
      absl::Status status = next.Train(
          static_cast<uint64_t>(options.seed) + static_cast<uint64_t>(round), measured >= 0);
      if (!status.ok() && !absl::IsResourceExhausted(status)) {
        return Prefixed(next.samples.name, status);
      }
      next.samples.status = std::move(status);
    }
    trainings->splice(trainings->end(), *trainings, trainings->begin());
  }
  // Back in the order of the caller.
  const size_t rounds = static_cast<size_t>(options.unmeasured + options.rounds);
  for (size_t i = rounds % trainings->size(); i > 0 && i < trainings->size(); ++i) {
    trainings->splice(trainings->end(), *trainings, trainings->begin());
  }
  return absl::OkStatus();
}

}  // namespace stowage
