// What LibTorch's autograd saves for a backward, handed to somebody else to keep.
#ifndef STOWAGE_CLIENT_TORCH_SAVED_TENSORS_H_
#define STOWAGE_CLIENT_TORCH_SAVED_TENSORS_H_

#include <ATen/core/Tensor.h>

#include <functional>

namespace stowage {

// Gives back a saved tensor when its backward runs.
using SavedTensor = std::function<at::Tensor()>;

// Keeps the tensors that the operations on this thread save while it is there, instead of autograd:
// every tensor is given to `save`, and what that returns is called where a backward needs the
// tensor again, on whatever thread it runs. Nests; other threads are left alone. May throw, as
// LibTorch.
//
// The first one ever made in a process replaces LibTorch's autograd engine by one that asks for it:
// before that, no backward may be under way, and where Python is in the process, its own engine
// with what it adds is gone.
class SavedTensorScope {
 public:
  using Save = std::function<SavedTensor(const at::Tensor&)>;

  explicit SavedTensorScope(Save save);
  ~SavedTensorScope();
  SavedTensorScope(const SavedTensorScope&) = delete;
  SavedTensorScope& operator=(const SavedTensorScope&) = delete;

 private:
  const Save save_;
  const Save* const outer_;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_SAVED_TENSORS_H_
