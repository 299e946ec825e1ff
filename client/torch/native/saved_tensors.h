// Hooks for the tensors that LibTorch's autograd saves for a backward.
#ifndef STOWAGE_CLIENT_TORCH_NATIVE_SAVED_TENSORS_H_
#define STOWAGE_CLIENT_TORCH_NATIVE_SAVED_TENSORS_H_

#include <ATen/core/Tensor.h>

#include <functional>

namespace stowage {

// Returns a saved tensor when a backward reads it.
using SavedTensor = std::function<at::Tensor()>;

// While in scope, every tensor that an operation of this thread saves for its backward goes to
// `save`. The SavedTensor that `save` returns is called when a backward reads the tensor, on the
// thread of that backward. Scopes nest; other threads are not affected. May throw LibTorch's
// exceptions.
//
// The first scope of a process replaces LibTorch's autograd engine, since in C++ only the engine
// can install such hooks. Requires: no backward is running then. In a process with Python this
// replaces Python's engine and what that adds.
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

#endif  // STOWAGE_CLIENT_TORCH_NATIVE_SAVED_TENSORS_H_
