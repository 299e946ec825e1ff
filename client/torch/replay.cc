#include "client/torch/replay.h"

#include <ATen/ATen.h>

#include <cstddef>
#include <mutex>
#include <utility>

#include "absl/cleanup/cleanup.h"

namespace stowage {
namespace {

at::Tensor StateOf(at::Generator& generator) {
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void SetState(at::Generator& generator, const at::Tensor& state) {
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

}  // namespace

Replay::Replay(std::shared_ptr<torch::nn::Module> module, c10::Device device)
    : module_(std::move(module)) {
  generators_.push_back(at::globalContext().defaultGenerator(at::kCPU));
  if (!device.is_cpu()) generators_.push_back(at::globalContext().defaultGenerator(device));
}

void Replay::First(const std::function<void()>& forward) {
  states_.clear();
  for (at::Generator& generator : generators_) states_.push_back(StateOf(generator));
  buffers_ = module_ == nullptr ? Tensors() : module_->buffers();
  // LibTorch does not tell who writes a buffer (batch normalization writes past its versions), so
  // it is found by comparing.
  const bool learns = module_ != nullptr &&
                      (written_.size() != buffers_.size() || training_ != module_->is_training());
  contents_.assign(buffers_.size(), {});
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (learns || written_[i]) contents_[i] = buffers_[i].clone();
  }
  forward();
  for (size_t i = 0; i < generators_.size(); ++i) {
    if (at::equal(states_[i], StateOf(generators_[i]))) states_[i].reset();
  }
  if (!learns) return;
  training_ = module_->is_training();
  written_.assign(buffers_.size(), false);
  for (size_t i = 0; i < buffers_.size(); ++i) {
    written_[i] = !at::equal(contents_[i], buffers_[i]);
    if (!written_[i]) contents_[i].reset();
  }
}

void Replay::Again(const std::function<void()>& forward) {
  Tensors states(states_.size());
  Tensors contents(contents_.size());
  for (size_t i = 0; i < states.size(); ++i) {
    if (states_[i].defined()) states[i] = StateOf(generators_[i]);
  }
  for (size_t i = 0; i < contents.size(); ++i) {
    if (contents_[i].defined()) contents[i] = buffers_[i].clone();
  }
  Load(states_, contents_);
  const auto back = absl::MakeCleanup([&] { Load(states, contents); });
  forward();
}

void Replay::Load(const Tensors& states, const Tensors& contents) {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < states.size(); ++i) {
    if (states[i].defined()) SetState(generators_[i], states[i]);
  }
  for (size_t i = 0; i < contents.size(); ++i) {
    if (contents[i].defined()) buffers_[i].copy_(contents[i]);
  }
}

void Replay::Forget() {
  states_.clear();
  contents_.clear();
  buffers_.clear();
}

}  // namespace stowage
