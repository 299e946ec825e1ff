// A value of the chain (a^l or ā^l, solver/README.md) as LibTorch holds it: the memory behind a
// stage's output and behind what its backward saved, apart from the tensors that describe it. So it
// can leave the device and come back elsewhere, and every tensor is made anew when it is read.
#ifndef STOWAGE_CLIENT_TORCH_HELD_VALUE_H_
#define STOWAGE_CLIENT_TORCH_HELD_VALUE_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "client/agent/device.h"
#include "client/torch/stage_graph.h"

namespace stowage {

// A tensor as a part of a block of memory.
struct TensorView {
  size_t block = 0;
  at::ScalarType type = at::kFloat;
  int64_t offset = 0;  // in elements
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  bool conjugated = false;  // LibTorch's marks of lazy operations
  bool negated = false;
};

// What LibTorch throws comes out of every member that takes or makes a tensor. Not thread-safe, but
// for reading.
class HeldValue {
 public:
  // The memory behind `tensor`, which is held from now on. Requires: it has storage.
  TensorView Hold(const at::Tensor& tensor);
  void HoldOutput(const at::Tensor& tensor) { output_ = Hold(tensor); }
  void set_saved() { saved_ = true; }
  void set_differentiable(bool differentiable) { differentiable_ = differentiable; }

  bool live() const { return !blocks_.empty(); }           // on the device or on the host
  bool saved() const { return saved_; }                    // ā^l rather than a^l
  bool differentiable() const { return differentiable_; }  // whether its gradient is of use
  bool IsBehindOutput(const at::Tensor& tensor) const;

  // Of all blocks, each rounded up to `granularity`, as the device's allocator does.
  int64_t Bytes(int64_t granularity) const;
  // Whether anything else, such as a tensor in a module, keeps a block alive.
  bool IsShared() const;

  // Requires of all three: on the device.
  at::Tensor Tensor(const TensorView& view) const;
  at::Tensor Output() const { return Tensor(output_); }
  // `view` was a part of the output when this value was computed another time.
  at::Tensor PartOfOutput(TensorView view) const;

  // Blocks lie in the span one after another, rounded up. On the current stream.
  // Errors of both: FAILED_PRECONDITION where the span is of another size.
  absl::Status CopyToHost(PinnedSpan to, int64_t granularity) const;
  absl::Status CopyFromHost(PinnedSpan from, int64_t granularity);
  // Gives up the memory, not the knowledge of what was there; takes new memory in its place.
  void Release();
  void Allocate();

  StageGraph graph;  // of ā^l: its backward

 private:
  struct Block {
    at::Tensor bytes;                // all of it, as bytes; undefined while it is on the host
    const void* identity = nullptr;  // LibTorch's storage behind it
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
// The same for two tensors that share memory. Requires: it has storage.
const void* StorageOf(const at::Tensor& tensor);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_HELD_VALUE_H_
