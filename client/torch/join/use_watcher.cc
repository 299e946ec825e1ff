#include "client/torch/join/use_watcher.h"

#include <ATen/core/ivalue.h>

#include <algorithm>

namespace stowage {
namespace {

thread_local UseWatcher* current = nullptr;

}  // namespace

UseWatcher::UseWatcher(const at::Tensor& tensor) : storage_(tensor.storage().getWeakStorageImpl()) {
  current = this;
  handle_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(&Begin).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
}

UseWatcher::~UseWatcher() {
  at::removeCallback(handle_);
  current = nullptr;
}

bool UseWatcher::Watches(const at::Tensor& tensor) const {
  return tensor.defined() && tensor.has_storage() &&
         tensor.storage().unsafeGetStorageImpl() == storage_._unsafe_get_target();
}

bool UseWatcher::Takes(const c10::IValue& input) const {
  if (input.isTensor()) return Watches(input.toTensor());
  if (!input.isList()) return false;
  const c10::ArrayRef<c10::IValue> list = input.toListRef();
  return std::any_of(list.begin(), list.end(),
                     [this](const c10::IValue& element) { return Takes(element); });
}

std::unique_ptr<at::ObserverContext> UseWatcher::Begin(const at::RecordFunction& operation) {
  const auto inputs = operation.inputs();
  current->used_ =
      current->used_ || std::any_of(inputs.begin(), inputs.end(),
                                    [](const c10::IValue& input) { return current->Takes(input); });
  return nullptr;
}

}  // namespace stowage
