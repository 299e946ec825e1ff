// The network that Fit trains: its stages as they run, its device, and the budget of its steps.
#ifndef STOWAGE_CLIENT_TORCH_FIT_FIT_NETWORK_H_
#define STOWAGE_CLIENT_TORCH_FIT_FIT_NETWORK_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/agent/device.h"
#include "client/torch/base/memory_meter.h"
#include "client/torch/base/torch_device.h"
#include "client/torch/fit/fit_options.h"
#include "client/torch/stages/torch_stages.h"
#include "solver/model/chain.h"
#include "solver/model/platform.h"

namespace stowage {

// What is wrong with what a step is fed: INVALID_ARGUMENT, with the input's name.
absl::Status CheckFed(const TorchInput& input, const TorchLoss& loss);

// Not thread-safe.
class FitNetwork {
 public:
  // Checks the options, opens the input's device and joins the stages that fit.h says are joined.
  // Errors: INVALID_ARGUMENT, with the name of the option, stage or input; those of OpenDevice().
  static absl::StatusOr<std::unique_ptr<FitNetwork>> Open(std::vector<TorchStage> stages,
                                                          const TorchInput& input,
                                                          const TorchLoss& loss,
                                                          const FitOptions& options);

  const FitOptions& options() const { return options_; }
  const std::vector<TorchStage>& stages() const { return stages_; }
  Device* device() const { return device_.agent.get(); }
  MemoryMeter* meter() const { return meter_; }

  // The stages with the device's options; `stages` in place of its own.
  TorchStages ToRun() const { return ToRun(stages_); }
  TorchStages ToRun(std::vector<TorchStage> stages) const;

  // What a plan depends on beside the input: the training modes of all modules, and which
  // parameters are trained.
  std::vector<bool> State() const;
  // Of the parameters' gradients that exist.
  int64_t GradientBytes() const;

  // Of a step; 0: not known yet.
  int64_t budget_bytes() const { return budget_bytes_; }
  // What options().memory says, of which percents are the chain's. Errors: INVALID_ARGUMENT, or
  // RESOURCE_EXHAUSTED where nothing is left.
  absl::Status SetBudget(const Chain& chain);
  // The device's memory without what others use.
  int64_t usable_bytes() const { return device_.memory_bytes - device_.used_bytes; }

  bool Offloads() const { return options_.offload.value_or(!device_.torch.is_cpu()); }
  // With the bandwidths, which are measured once, where values may be offloaded. Errors: the
  // device's.
  absl::StatusOr<Platform> PlatformWithin(int64_t memory_bytes);

  // Tells options().progress.
  void Progress(const std::string& what) const;
  // Of the profiler: tells at most once a second.
  std::function<void(int stage)> StageProgress() const;

  // For people: the stages and which were joined, a line.
  std::string Summary() const;

 private:
  explicit FitNetwork(const FitOptions& options) : options_(options) {}

  absl::Status CheckOptions() const;
  absl::Status Join(std::vector<TorchStage> stages, const TorchInput& input, const TorchLoss& loss);

  const FitOptions options_;
  MemoryMeter* meter_ = nullptr;
  TorchDevice device_;
  std::vector<TorchStage> stages_;
  std::vector<at::Tensor> parameters_;
  std::vector<std::string> joined_;  // names
  bool joins_loss_ = false;
  int64_t budget_bytes_ = 0;
  std::optional<Platform> link_;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_FIT_FIT_NETWORK_H_
