#include "client/torch/native/saved_tensors.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <memory>
#include <utility>

namespace stowage {
namespace {

using torch::autograd::SavedVariableHooks;

thread_local const SavedTensorScope::Save* current_save = nullptr;

class Hooks final : public SavedVariableHooks {
 public:
  explicit Hooks(const SavedTensorScope::Save& save) : save_(save) {}
  // Called once, when the tensor is saved, so the scope still exists.
  void call_pack_hook(const at::Tensor& tensor) override { saved_ = save_(tensor); }
  at::Tensor call_unpack_hook() override { return saved_(); }

 private:
  const SavedTensorScope::Save& save_;
  SavedTensor saved_;
};

// Default hooks have an interface in Python only; in C++ the engine provides them.
class Engine final : public torch::autograd::Engine {
 public:
  std::unique_ptr<SavedVariableHooks> get_default_saved_variable_hooks() override {
    if (current_save == nullptr) return nullptr;
    return std::make_unique<Hooks>(*current_save);
  }

  // In LibTorch 2 only the first engine of a process that runs a backward starts its threads, which
  // may have been LibTorch's own.
  void StartThreads() {
    initialize_device_threads_pool();
    if (device_ready_queues_.empty()) start_device_threads();
  }
};

torch::autograd::Engine& EngineOfProcess() {
  // Never destroyed: its threads may outlive static objects.
  static Engine* const engine = [] {
    auto* const made = new Engine();
    made->StartThreads();
    return made;
  }();
  return *engine;
}

}  // namespace

SavedTensorScope::SavedTensorScope(Save save) : save_(std::move(save)), outer_(current_save) {
  static const bool installed = [] {
    torch::autograd::set_default_engine_stub(&EngineOfProcess);
    return true;
  }();
  (void)installed;
  current_save = &save_;
}

SavedTensorScope::~SavedTensorScope() { current_save = outer_; }

}  // namespace stowage
