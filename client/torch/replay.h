// What a stage's forward reads besides its input and its parameters, the same every time it runs in
// a step: random numbers and the buffers of its module.
#ifndef STOWAGE_CLIENT_TORCH_REPLAY_H_
#define STOWAGE_CLIENT_TORCH_REPLAY_H_

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <vector>

namespace stowage {

// The random generators, of the host and of `device`, and some tensors, as they were when this was
// made. May throw, as LibTorch.
class RandomAndBuffers {
 public:
  RandomAndBuffers(std::vector<at::Tensor> tensors, c10::Device device);

  std::vector<at::Tensor> Now() const;  // copies of all
  // Writes only what has changed: some cannot be written, and are not.
  void Restore();

 private:
  std::vector<at::Generator> generators_;
  std::vector<at::Tensor> tensors_;
  std::vector<at::Tensor> then_;  // generators' states, then tensors
};

// The first run of a step goes ahead as it would alone; the others see the random generators and
// the buffers as it saw them, and leave no trace: dropout drops the same, running statistics move
// once a step. Everything here may throw, as LibTorch. One thread at a time.
class Replay {
 public:
  // `module` may be null. The generators: those of the host and of `device`.
  Replay(std::shared_ptr<torch::nn::Module> module, c10::Device device);

  void First(const std::function<void()>& forward);
  void Again(const std::function<void()>& forward);
  void Forget();  // the step is over
  // The first run wrote a buffer that it never wrote before, so that Again() cannot show how it
  // was.
  bool is_late() const { return late_; }

 private:
  using Tensors = std::vector<at::Tensor>;

  // Sets what is defined, of generators and buffers.
  void Load(const Tensors& states, const Tensors& contents);

  std::shared_ptr<torch::nn::Module> module_;
  std::vector<at::Generator> generators_;
  Tensors states_;    // by generator, before the first run; undefined where that drew nothing
  Tensors buffers_;   // of the module, at the first run
  Tensors contents_;  // by buffer, before the first run; undefined where that writes nothing
  std::vector<bool> written_;  // by buffer: whether a first run writes it,
  std::vector<bool> modes_;    // as found in these modes of the module and its parts
  bool late_ = false;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_REPLAY_H_
