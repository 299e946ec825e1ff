// LibTorch's key for modes that only its own tests use is the highest one: a fallback for it sees
// every operator, and only where a thread includes the key. No tensor has it.
#include "client/torch/stages/operator_scope.h"

#include <torch/library.h>

#include <utility>

namespace stowage {
namespace {

constexpr c10::DispatchKey kKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

thread_local const OperatorScope::Call* current_call = nullptr;

void Intercept(const c10::OperatorHandle& operation, c10::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard without(kKey);
  if (current_call == nullptr) return operation.callBoxed(stack);
  (*current_call)(operation, stack);
}

// Not by a static object of the file, which a linker may drop.
void Register() {
  static torch::Library* const library = [] {
    auto* const made = new torch::Library(torch::Library::IMPL, "_", kKey, __FILE__, __LINE__);
    made->fallback(torch::CppFunction::makeFromBoxedFunction<&Intercept>());
    return made;
  }();
  (void)library;
}

c10::DispatchKey RegisteredKey() {
  Register();
  return kKey;
}

}  // namespace

OperatorScope::OperatorScope(Call call)
    : call_(std::move(call)), outer_(current_call), included_(RegisteredKey()) {
  current_call = &call_;
}

OperatorScope::~OperatorScope() { current_call = outer_; }

}  // namespace stowage
