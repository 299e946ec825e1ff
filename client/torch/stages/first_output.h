// A stage's output in its first run of a step, to compare its recomputations with.
#ifndef STOWAGE_CLIENT_TORCH_STAGES_FIRST_OUTPUT_H_
#define STOWAGE_CLIENT_TORCH_STAGES_FIRST_OUTPUT_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/torch/stages/torch_stage.h"

namespace stowage {

// Kept on the host, outside LibTorch's allocator, so that it does not count as an activation.
// Members may throw LibTorch's exceptions.
class FirstOutput {
 public:
  void Keep(const Tensors& output);
  // Errors: FAILED_PRECONDITION, which reads on after the stage's name, if a number differs by more
  // than `tolerance`, relatively and absolutely. NaN equals NaN.
  absl::Status Compare(const Tensors& output, double tolerance);
  void Forget() { tensors_.clear(); }

 private:
  struct HostTensor {
    at::ScalarType type = at::kFloat;
    std::vector<int64_t> sizes;
    std::vector<std::byte> bytes;
  };

  // Sets `most` to the largest difference, if there is one.
  static int64_t CountDiffering(const at::Tensor& now, HostTensor& first, double tolerance,
                                std::string* most);

  std::vector<HostTensor> tensors_;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_STAGES_FIRST_OUTPUT_H_
