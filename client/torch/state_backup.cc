#include "client/torch/state_backup.h"

#include <ATen/ATen.h>

#include <cstddef>

namespace stowage {

StateBackup::StateBackup(const TorchStages& stages)
    : parameters_(stages.Parameters()),
      random_and_buffers_(stages.Buffers(), stages.options().device) {
  for (const at::Tensor& parameter : parameters_) {
    gradients_.push_back(parameter.grad());
    zeros_.push_back(parameter.requires_grad() ? at::zeros_like(parameter.detach())
                                               : parameter.grad());
  }
}

void StateBackup::Restore() {
  SetGradients(gradients_);
  random_and_buffers_.Restore();
}

void StateBackup::SetGradients(const std::vector<at::Tensor>& gradients) {
  for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i].mutable_grad() = gradients[i];
}

}  // namespace stowage
