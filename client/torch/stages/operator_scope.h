// Stands between a stage's forward and LibTorch's operators.
#ifndef STOWAGE_CLIENT_TORCH_STAGES_OPERATOR_SCOPE_H_
#define STOWAGE_CLIENT_TORCH_STAGES_OPERATOR_SCOPE_H_

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <functional>

namespace stowage {

// While in scope, every operator that the code of this thread calls goes to `call` instead, with
// its arguments on the stack: above autograd and autocast, and before composite operators, such as
// linear, are split. `call` leaves the results on the stack; the operators that it runs, and those
// that they call, do not go to it. Scopes nest; other threads are not affected.
class OperatorScope {
 public:
  using Call = std::function<void(const c10::OperatorHandle&, c10::Stack*)>;

  explicit OperatorScope(Call call);
  ~OperatorScope();
  OperatorScope(const OperatorScope&) = delete;
  OperatorScope& operator=(const OperatorScope&) = delete;

 private:
  const Call call_;
  const Call* const outer_;
  const c10::impl::IncludeDispatchKeyGuard included_;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_STAGES_OPERATOR_SCOPE_H_
