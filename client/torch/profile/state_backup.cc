#include "client/torch/profile/state_backup.h"

#include <ATen/ATen.h>

#include <cstddef>

namespace stowage {
namespace {

// Whether its numbers are one piece of memory, which a step adds to in place.
bool IsOnePiece(const at::Tensor& gradient) {
  return gradient.defined() && gradient.layout() == at::kStrided &&
         gradient.is_non_overlapping_and_dense();
}

// In the order of memory, so that copying it takes no other memory on the device.
at::Tensor Flat(const at::Tensor& tensor) {
  return tensor.detach().as_strided({tensor.numel()}, {1});
}

at::Tensor FlatOnHost(const at::Tensor& like, std::byte* bytes) {
  return at::from_blob(bytes, {like.numel()}, like.options().device(at::kCPU));
}

}  // namespace

StateBackup::StateBackup(const TorchStages& stages)
    : parameters_(stages.Parameters()),
      random_and_buffers_(stages.Buffers(), stages.options().device) {
  for (const at::Tensor& parameter : parameters_) {
    const at::Tensor& gradient = parameter.grad();
    gradients_.push_back(gradient);
    if (!parameter.requires_grad()) {
      zeros_.push_back(gradient);
    } else if (IsOnePiece(gradient)) {
      zeros_.push_back(gradient);
      copies_.push_back(CopyToHost(gradient));
    } else {
      zeros_.push_back(at::zeros_like(parameter.detach()));
    }
  }
}

StateBackup::HostCopy StateBackup::CopyToHost(const at::Tensor& gradient) {
  HostCopy copy{gradient, std::unique_ptr<std::byte[]>(new std::byte[gradient.nbytes()])};
  FlatOnHost(gradient, copy.bytes.get()).copy_(Flat(gradient));
  return copy;
}

void StateBackup::SetGradientsToZero() {
  SetGradients(zeros_);
  for (const HostCopy& copy : copies_) Flat(copy.gradient).zero_();
}

void StateBackup::Restore() {
  SetGradients(gradients_);
  for (const HostCopy& copy : copies_) {
    Flat(copy.gradient).copy_(FlatOnHost(copy.gradient, copy.bytes.get()));
  }
  random_and_buffers_.Restore();
}

void StateBackup::SetGradients(const std::vector<at::Tensor>& gradients) {
  for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i].mutable_grad() = gradients[i];
}

}  // namespace stowage
