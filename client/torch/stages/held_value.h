// A value of the chain (a^l or ā^l, solver/README.md) in LibTorch's memory: the storages of a
// stage's output and of the tensors that its backward saved. Tensors are kept as views and
// recreated when they are read, so that storages can be freed, and copied back to another address.
#ifndef STOWAGE_CLIENT_TORCH_STAGES_HELD_VALUE_H_
#define STOWAGE_CLIENT_TORCH_STAGES_HELD_VALUE_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "client/agent/device.h"
#include "client/torch/stages/stage_graph.h"

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

// a^l, detached from autograd.
struct StageOutput {
  std::vector<at::Tensor> tensors;   // each once
  std::vector<bool> differentiable;  // by tensor: whether the stages before it need its gradient
  std::vector<size_t> order;         // the tuple that the next stage takes, as indices of tensors

  // Of a tuple, in which a tensor may stand twice, as the next stage's input and as a skip.
  static StageOutput Of(const std::vector<at::Tensor>& tuple);
  std::vector<at::Tensor> Tuple() const;
};

// Members that take or return tensors may throw LibTorch's exceptions. Only const members may be
// called concurrently.
class HeldValue {
 public:
  // Holds the storage of `tensor` from now on. Requires: it has one.
  TensorView Hold(const at::Tensor& tensor);
  void HoldOutput(const StageOutput& output);
  // Marks the blocks that are also part of the output of the value before: it passed them on.
  void MarkPassed(const HeldValue& before);
  void set_saved() { saved_ = true; }
  // Holds the storage of `tensor` like Hold(), and returns what recreates the tensor, wherever the
  // storage is then.
  std::function<at::Tensor()> HoldForReader(const at::Tensor& tensor);
  // Lets go of storages that no reader reads. Requires: it holds no output.
  void DropUnread();
  // Leaves each storage to its readers: it is freed with the last of them. The value is not live
  // then. Requires: the value is on the device.
  void LeaveToReaders();

  bool live() const { return !blocks_.empty(); }  // on the device or on the host
  bool saved() const { return saved_; }           // ā^l rather than a^l
  bool Holds(const at::Tensor& tensor) const;     // its storage
  // The number of the output's tensor that has the storage of `tensor`, if one does.
  std::optional<size_t> FindOutput(const at::Tensor& tensor) const;

  // The sum of all blocks, each rounded up to `granularity` like the allocator does.
  int64_t Bytes(int64_t granularity) const;
  // Of these the ones that the value before has passed on. While both are live there, the two have
  // the same memory.
  int64_t PassedBytes(int64_t granularity) const;
  // Whether an object beside `values`, such as a tensor in a module, keeps a block alive that the
  // value before has not passed on.
  bool IsShared(const std::vector<const HeldValue*>& values) const;

  // Require: the value is on the device.
  at::Tensor Tensor(const TensorView& view) const;
  StageOutput Output() const;
  // `view` was taken of this tensor of an earlier run's output; returns it of the current output.
  at::Tensor PartOfOutput(size_t tensor, TensorView view) const;

  // The span holds the blocks one after another, each rounded up. On the current stream.
  // Errors of both: FAILED_PRECONDITION for a span of another size.
  absl::Status CopyToHost(PinnedSpan to, int64_t granularity) const;
  absl::Status CopyFromHost(PinnedSpan from, int64_t granularity);
  // Release() frees the device memory and keeps the views; Allocate() allocates it again.
  void Release();
  void Allocate();

  // Of ā^l: its backward, and whether that reads value l-1.
  StageGraph graph;
  bool reads_input = false;

 private:
  struct Block {
    c10::Storage storage;            // null while it is released
    const void* identity = nullptr;  // the StorageImpl
    int64_t size = 0;
    c10::Device device = c10::kCPU;
    bool passed = false;  // by the value before
  };

  template <typename Copy>
  absl::Status ForEachPart(PinnedSpan span, int64_t granularity, const Copy& copy) const;

  static at::Tensor TensorIn(const Block& block, const TensorView& view);

  std::vector<std::shared_ptr<Block>> blocks_;
  std::vector<TensorView> outputs_;  // the members of StageOutput
  std::vector<bool> differentiable_;
  std::vector<size_t> order_;
  bool saved_ = false;
};

TensorView ViewOf(const at::Tensor& tensor, size_t block);
// Identifies the storage: equal for tensors that share it. Requires: it has one.
const void* StorageOf(const at::Tensor& tensor);
// Whether the tensor has memory of its own, on `device`.
bool IsOnDevice(const at::Tensor& tensor, c10::Device device);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_STAGES_HELD_VALUE_H_
