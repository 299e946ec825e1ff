#include "client/torch/stages/first_output.h"

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"

namespace stowage {
namespace {

at::Tensor OnHost(const at::Tensor& tensor) { return tensor.to(at::kCPU).contiguous(); }

}  // namespace

void FirstOutput::Keep(const Tensors& output) {
  tensors_.clear();
  for (const at::Tensor& tensor : output) {
    const at::Tensor now = OnHost(tensor);
    const auto* const data = static_cast<const std::byte*>(now.data_ptr());
    tensors_.push_back({now.scalar_type(), now.sizes().vec(), {data, data + now.nbytes()}});
  }
}

absl::Status FirstOutput::Compare(const Tensors& output, double tolerance) {
  int64_t numbers = 0;
  int64_t differing = 0;
  std::string most;
  for (size_t i = 0; i < output.size(); ++i) {
    const at::Tensor now = OnHost(output[i]);
    numbers += now.numel();
    differing +=
        i < tensors_.size() ? CountDiffering(now, tensors_[i], tolerance, &most) : now.numel();
  }
  if (differing == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("recomputed, ", differing, " of ", numbers,
                   " numbers of its output differ from its first run's", most,
                   ": declare it no_recompute, or make it compute the same twice"));
}

int64_t FirstOutput::CountDiffering(const at::Tensor& now, HostTensor& first, double tolerance,
                                    std::string* most) {
  if (now.sizes() != first.sizes || now.scalar_type() != first.type) return now.numel();
  const at::Tensor then = at::from_blob(first.bytes.data(), now.sizes(), now.options());
  const at::Tensor equal = at::isclose(now, then, tolerance, tolerance, /*equal_nan=*/true);
  const auto differing = equal.logical_not().sum().item<int64_t>();
  if (differing > 0 && now.is_floating_point()) {
    *most = absl::StrCat(" by up to ", (now - then).abs().max().item<double>());
  }
  return differing;
}

}  // namespace stowage
