// Notices that operations take the memory of a tensor.
#ifndef STOWAGE_CLIENT_TORCH_JOIN_USE_WATCHER_H_
#define STOWAGE_CLIENT_TORCH_JOIN_USE_WATCHER_H_

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <memory>
#include <utility>

namespace stowage {

// Watches the operations of this thread, which take a little longer meanwhile. Does not keep the
// tensor's memory. One at a time on a thread.
class UseWatcher {
 public:
  explicit UseWatcher(const at::Tensor& tensor);
  ~UseWatcher();
  UseWatcher(const UseWatcher&) = delete;
  UseWatcher& operator=(const UseWatcher&) = delete;

  // Whether it is that tensor, or a view of the same memory.
  bool Watches(const at::Tensor& tensor) const;
  // Whether an operation has taken such a tensor since the last call.
  bool TakeUsed() { return std::exchange(used_, false); }

 private:
  static std::unique_ptr<at::ObserverContext> Begin(const at::RecordFunction& operation);
  bool Takes(const c10::IValue& input) const;

  // Weak: memory that is allocated after the tensor's is freed has another one.
  const c10::weak_intrusive_ptr<c10::StorageImpl> storage_;
  bool used_ = false;
  at::CallbackHandle handle_;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_JOIN_USE_WATCHER_H_
