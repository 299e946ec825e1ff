// Makes every run of a stage's forward within a step read the same random numbers and buffers, so
// that a recomputation has the same result.
#ifndef STOWAGE_CLIENT_TORCH_STAGES_REPLAY_H_
#define STOWAGE_CLIENT_TORCH_STAGES_REPLAY_H_

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace stowage {

// The states of random generators at some time, outside LibTorch's allocator: they are the host's
// and no part of a chain's memory, whose device is the host in tests. Members may throw LibTorch's
// exceptions.
class RandomStates {
 public:
  RandomStates() = default;  // of none
  explicit RandomStates(std::vector<at::Generator> generators);
  // Of the default generators of the host and of `device`.
  explicit RandomStates(c10::Device device);

  // Keeps those of generators that numbers were drawn from between this and `other`, which has the
  // same ones: Restore() leaves the others alone, from which other stages may have drawn.
  void ForgetUnchanged(const RandomStates& other);
  // The states of the same generators at this time.
  RandomStates Current() const { return RandomStates(generators_); }
  bool empty() const { return generators_.empty(); }
  void Restore() const;

 private:
  std::vector<at::Generator> generators_;
  std::vector<std::vector<uint8_t>> states_;  // by generator
};

// A snapshot of the random generators of the host and of `device`, and of some tensors. Members may
// throw LibTorch's exceptions.
class RandomAndBuffers {
 public:
  RandomAndBuffers(std::vector<at::Tensor> tensors, c10::Device device);

  // Copies of the current generator states and tensors.
  std::vector<at::Tensor> Current() const;
  // Writes the snapshot back. Writes only tensors that have changed, since some are read-only.
  void Restore();

 private:
  std::vector<at::Generator> generators_;
  std::vector<at::Tensor> tensors_;
  std::vector<at::Tensor> snapshot_;  // generators' states, then tensors
};

// For one stage. The first run of a step reads and writes generators and buffers as without
// Stowage. Later runs start from the same generator states and buffers and restore the current ones
// afterwards: dropout has the same mask, and running statistics are updated once a step. Members
// may throw LibTorch's exceptions. One thread at a time.
class Replay {
 public:
  // `module` may be null. Covers the generators of the host and of `device`.
  Replay(std::shared_ptr<torch::nn::Module> module, c10::Device device);

  // First() is needed only in steps that call Again().
  void First(const std::function<void()>& forward);
  void Again(const std::function<void()>& forward);
  void EndStep();
  // The first run wrote a buffer that no earlier step's first run wrote, so that its content before
  // this step is lost and Again() would be wrong.
  bool missed_buffer() const { return missed_buffer_; }

 private:
  using Tensors = std::vector<at::Tensor>;

  // Sets the buffers whose entry is defined.
  void Load(const Tensors& contents);

  std::shared_ptr<torch::nn::Module> module_;
  std::vector<at::Generator> generators_;
  RandomStates states_;  // before the first run, of the generators that it drew from
  Tensors buffers_;      // of the module, at the first run
  Tensors contents_;     // by buffer, before the first run; undefined: the run does not write it
  std::vector<bool> written_;  // by buffer: whether first runs write it
  // In which `written_` was observed: the training modes of the module and its parts.
  std::vector<bool> modes_;
  bool missed_buffer_ = false;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TORCH_STAGES_REPLAY_H_
