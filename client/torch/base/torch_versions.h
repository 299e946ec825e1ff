// What differs between the LibTorch 1.13 of Debian and LibTorch 2.
#ifndef STOWAGE_CLIENT_TORCH_BASE_TORCH_VERSIONS_H_
#define STOWAGE_CLIENT_TORCH_BASE_TORCH_VERSIONS_H_

#include <ATen/autocast_mode.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>
#include <torch/version.h>

#include <cstddef>
#include <memory>
#include <type_traits>

#if TORCH_VERSION_MAJOR >= 2
#include <c10/core/AutogradState.h>
#endif

namespace stowage {

// A new function of autograd's graph, as Edge::function holds it: by std::shared_ptr, or in later
// versions by c10::intrusive_ptr.
template <typename Function>
auto MakeNode() {
  using Pointer = decltype(torch::autograd::Edge::function);
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<torch::autograd::Node>>) {
    return std::make_shared<Function>();
  } else {
    return c10::make_intrusive<Function>();
  }
}

#if TORCH_VERSION_MAJOR >= 2

inline bool AutocastOnGpu() { return at::autocast::is_autocast_enabled(at::kCUDA); }
inline bool AutocastOnCpu() { return at::autocast::is_autocast_enabled(at::kCPU); }
inline void SetAutocastOnCpu(bool on) { at::autocast::set_autocast_enabled(at::kCPU, on); }

// The number of hooks that run before the function, those of tensors included.
inline size_t HooksBefore(torch::autograd::Node& node) {
  return node.pre_hooks().size() + node.tensor_pre_hooks().size();
}

// While in scope, backwards run on the calling thread alone: to hand each stage's to a GPU's thread
// and back takes longer than to enqueue a small stage.
class OnThisThread {
 public:
  OnThisThread() { State().set_multithreading_enabled(false); }
  ~OnThisThread() { State().set_multithreading_enabled(before_); }
  OnThisThread(const OnThisThread&) = delete;
  OnThisThread& operator=(const OnThisThread&) = delete;

 private:
  static c10::AutogradState& State() { return c10::AutogradState::get_tls_state(); }

  const bool before_ = State().get_multithreading_enabled();
};

#else

inline bool AutocastOnGpu() { return at::autocast::is_enabled(); }
inline bool AutocastOnCpu() { return at::autocast::is_cpu_enabled(); }
inline void SetAutocastOnCpu(bool on) { at::autocast::set_cpu_enabled(on); }

inline size_t HooksBefore(torch::autograd::Node& node) { return node.pre_hooks().size(); }

// LibTorch 1 has no such setting.
class OnThisThread {
 public:
  OnThisThread() {}
};

#endif

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_BASE_TORCH_VERSIONS_H_
