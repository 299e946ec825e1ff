// What a training step changes in a network and in the process, saved and restored.
#ifndef STOWAGE_CLIENT_TORCH_PROFILE_STATE_BACKUP_H_
#define STOWAGE_CLIENT_TORCH_PROFILE_STATE_BACKUP_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "client/torch/stages/replay.h"
#include "client/torch/stages/torch_stages.h"

namespace stowage {

// Gradients, buffers and random generators. What runs between has the memory that a step has: the
// numbers of gradients that exist are kept beside LibTorch's allocator, on the host. Not
// thread-safe. Members may throw LibTorch's exceptions.
class StateBackup {
 public:
  // Allocates all memory that Restore() needs, so that Restore() cannot run out.
  explicit StateBackup(const TorchStages& stages);

  // So that a step's gradients take no memory that is not there already.
  void SetGradientsToZero();
  // Gradients first. May throw at a buffer that cannot be written.
  void Restore();

 private:
  struct HostCopy {
    at::Tensor gradient;
    std::unique_ptr<std::byte[]> bytes;
  };

  static HostCopy CopyToHost(const at::Tensor& gradient);
  void SetGradients(const std::vector<at::Tensor>& gradients);

  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> gradients_;  // by parameter
  std::vector<at::Tensor> zeros_;      // by parameter: during the step
  std::vector<HostCopy> copies_;       // of those in both
  RandomAndBuffers random_and_buffers_;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_PROFILE_STATE_BACKUP_H_
