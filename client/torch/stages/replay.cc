// Which buffers a forward writes is learned from the first step in each combination of training
// modes, by comparing all buffers before and after the run. Later steps copy only those buffers.
// A buffer that is written later for the first time is detected by its version and reported.
#include "client/torch/stages/replay.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "client/torch/base/torch_guarded.h"

namespace stowage {
namespace {

// The default generators that operations on `device` may draw from.
std::vector<at::Generator> GeneratorsOf(c10::Device device) {
  std::vector<at::Generator> generators = {at::globalContext().defaultGenerator(at::kCPU)};
  if (!device.is_cpu()) generators.push_back(at::globalContext().defaultGenerator(device));
  return generators;
}

at::Tensor StateOf(at::Generator generator) {
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void SetState(at::Generator& generator, const at::Tensor& state) {
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

// is_training() of the module and of all modules in it.
std::vector<bool> ModesOf(torch::nn::Module* module) {
  std::vector<bool> modes;
  if (module == nullptr) return modes;
  for (const auto& part : module->modules()) modes.push_back(part->is_training());
  return modes;
}

}  // namespace

RandomStates::RandomStates(c10::Device device) : RandomStates(GeneratorsOf(device)) {}

RandomStates::RandomStates(std::vector<at::Generator> generators)
    : generators_(std::move(generators)) {
  for (const at::Generator& generator : generators_) {
    const at::Tensor state = StateOf(generator);
    const auto* const data = state.data_ptr<uint8_t>();
    states_.emplace_back(data, data + state.numel());
  }
}

void RandomStates::ForgetUnchanged(const RandomStates& other) {
  for (size_t i = states_.size(); i-- > 0;) {
    if (states_[i] != other.states_[i]) continue;
    states_.erase(states_.begin() + static_cast<std::ptrdiff_t>(i));
    generators_.erase(generators_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void RandomStates::Restore() const {
  for (size_t i = 0; i < generators_.size(); ++i) {
    at::Generator generator = generators_[i];
    const at::Tensor state = at::empty({static_cast<int64_t>(states_[i].size())}, at::kByte);
    std::copy(states_[i].begin(), states_[i].end(), state.data_ptr<uint8_t>());
    SetState(generator, state);
  }
}

RandomAndBuffers::RandomAndBuffers(std::vector<at::Tensor> tensors, c10::Device device)
    : generators_(GeneratorsOf(device)), tensors_(std::move(tensors)) {
  snapshot_ = Current();
}

std::vector<at::Tensor> RandomAndBuffers::Current() const {
  std::vector<at::Tensor> now;
  for (const at::Generator& generator : generators_) now.push_back(StateOf(generator));
  for (const at::Tensor& tensor : tensors_) now.push_back(tensor.detach().clone());
  return now;
}

void RandomAndBuffers::Restore() {
  const at::NoGradGuard no_grad;  // writing a tensor in place must not be recorded
  for (size_t i = 0; i < snapshot_.size(); ++i) {
    if (i < generators_.size()) {
      SetState(generators_[i], snapshot_[i]);
    } else if (at::Tensor& tensor = tensors_[i - generators_.size()];
               !at::equal(tensor, snapshot_[i])) {
      tensor.copy_(snapshot_[i]);
    }
  }
}

Replay::Replay(std::shared_ptr<torch::nn::Module> module, c10::Device device)
    : module_(std::move(module)), generators_(GeneratorsOf(device)) {}

void Replay::First(const std::function<void()>& forward) {
  states_ = RandomStates(generators_);
  buffers_ = module_ == nullptr ? Tensors() : module_->buffers();
  // Versions alone do not show all writes: batch normalization writes without changing them.
  std::vector<bool> modes = ModesOf(module_.get());
  const bool learns = written_.size() != buffers_.size() || modes_ != modes;
  missed_buffer_ = false;
  std::vector<int64_t> versions;
  for (const at::Tensor& buffer : buffers_) versions.push_back(buffer._version());
  contents_.assign(buffers_.size(), {});
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (learns || written_[i]) contents_[i] = buffers_[i].clone();
  }
  forward();
  states_.ForgetUnchanged(states_.Current());
  if (!learns) {
    // A write to a buffer without a copy: its old content is lost for this step's recomputations.
    for (size_t i = 0; i < buffers_.size(); ++i) {
      if (written_[i] || buffers_[i]._version() == versions[i]) continue;
      written_[i] = true;
      missed_buffer_ = true;
    }
    return;
  }
  // The copies of buffers that the run has not written are freed.
  modes_ = std::move(modes);
  written_.assign(buffers_.size(), false);
  for (size_t i = 0; i < buffers_.size(); ++i) {
    written_[i] = !at::equal(contents_[i], buffers_[i]);
    if (!written_[i]) contents_[i].reset();
  }
}

void Replay::Again(const std::function<void()>& forward) {
  // Saves the current state, runs with the first run's state, and restores the current state.
  const RandomStates states = states_.Current();
  Tensors contents(contents_.size());
  for (size_t i = 0; i < contents.size(); ++i) {
    if (contents_[i].defined()) contents[i] = buffers_[i].clone();
  }
  states_.Restore();
  Load(contents_);
  try {
    forward();
  } catch (...) {
    // The first error counts; one of restoring is dropped.
    (void)TorchGuarded([&] {
      states.Restore();
      Load(contents);
      return absl::OkStatus();
    });
    throw;
  }
  states.Restore();
  Load(contents);
}

void Replay::Load(const Tensors& contents) {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < contents.size(); ++i) {
    if (contents[i].defined()) buffers_[i].copy_(contents[i]);
  }
}

void Replay::EndStep() {
  missed_buffer_ = false;
  states_ = RandomStates();
  contents_.clear();
  buffers_.clear();
}

}  // namespace stowage
