// A value of the chain (a^l or ā^l, solver/README.md) in LibTorch's memory: the storages of a
// stage's output and of the tensors that its backward saved. Tensors are kept as views and
// recreated when they are read, so that storages can be freed, and copied back to another address.
#ifndef STOWAGE_CLIENT_TORCH_HELD_VALUE_H_
#define STOWAGE_CLIENT_TORCH_HELD_VALUE_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "client/agent/device.h"
#include "client/torch/stage_graph.h"

namespace stowage {

// A tensor's shape and place in a block of memory.
struct TensorView {
  size_t block = 0;
  at::ScalarType type = at::kFloat;
  int64_t offset = 0;  // in elements
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  bool conjugated = false;  // LibTorch's flags of lazy operations
  bool negated = false;
};

// Members that take or return tensors may throw LibTorch's exceptions. Only const members may be
// called concurrently.
class HeldValue {
 public:
  // Holds the storage of `tensor` from now on. Requires: it has one.
  TensorView Hold(const at::Tensor& tensor);
  void HoldOutput(const at::Tensor& tensor) { output_ = Hold(tensor); }
  void set_saved() { saved_ = true; }
  void set_differentiable(bool differentiable) { differentiable_ = differentiable; }

  bool live() const { return !blocks_.empty(); }           // on the device or on the host
  bool saved() const { return saved_; }                    // ā^l rather than a^l
  bool differentiable() const { return differentiable_; }  // whether it needs a gradient
  // Whether `tensor` has the storage of the output.
  bool SharesOutputStorage(const at::Tensor& tensor) const;

  // The sum of all blocks, each rounded up to `granularity` like the allocator does.
  int64_t Bytes(int64_t granularity) const;
  // Whether another object, such as a tensor in a module, keeps a block alive.
  bool IsShared() const;

  // Require: the value is on the device.
  at::Tensor Tensor(const TensorView& view) const;
  at::Tensor Output() const { return Tensor(output_); }
  // `view` was taken of the output of an earlier run; returns it of the current output.
  at::Tensor PartOfOutput(TensorView view) const;

  // The span holds the blocks one after another, each rounded up. On the current stream.
  // Errors of both: FAILED_PRECONDITION for a span of another size.
  absl::Status CopyToHost(PinnedSpan to, int64_t granularity) const;
  absl::Status CopyFromHost(PinnedSpan from, int64_t granularity);
  // Release() frees the device memory and keeps the views; Allocate() allocates it again.
  void Release();
  void Allocate();

  StageGraph graph;  // of ā^l: its backward

 private:
  struct Block {
    c10::Storage storage;            // null while it is released
    const void* identity = nullptr;  // the StorageImpl
    int64_t size = 0;
    c10::Device device = c10::kCPU;
  };

  template <typename Copy>
  absl::Status ForEachPart(PinnedSpan span, int64_t granularity, const Copy& copy) const;

  std::vector<Block> blocks_;
  TensorView output_;
  bool saved_ = false;
  bool differentiable_ = false;
};

TensorView ViewOf(const at::Tensor& tensor, size_t block);
// Identifies the storage: equal for tensors that share it. Requires: it has one.
const void* StorageOf(const at::Tensor& tensor);
// Whether the tensor has memory of its own, on `device`.
bool IsOnDevice(const at::Tensor& tensor, c10::Device device);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_HELD_VALUE_H_
