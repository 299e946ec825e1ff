// Trains transformers in two ways, by turns: under Stowage's schedules, and with a checkpoint
// around each block as programs write it by hand, whose rerun ends as soon as every saved tensor
// exists. At the peak of the checkpoints it compares times; below it, at what memory Stowage is
// still as fast. All on the host, with one thread.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/torch/base/memory_meter.h"
#include "client/torch/fit.h"
#include "client/torch/native/saved_tensors.h"
#include "client/torch/profile/plain_step.h"
#include "client/torch/stages/replay.h"
#include "client/torch/stages/torch_stages.h"
#include "client/train/networks.h"
#include "tests/benchmark/benchmark_flags.h"

namespace stowage {
namespace {

namespace nn = torch::nn;

using Forward = std::function<at::Tensor(const at::Tensor&)>;

struct Sizes {
  int rounds = 21;
  int batch = 4;
  int layers = 8;
  int width = 256;
  int sequence = 128;
};

constexpr int kVocabulary = 1000;
constexpr double kDropout = 0.1;

// A network whose blocks begin after stage 0 and end before the last one.
struct Blocks {
  Network network;
  size_t stages_per_block = 1;
};

Blocks Gpt2(const Sizes& sizes) {
  Network network = *MakeNetwork("gpt2", {.batch = sizes.batch,
                                          .layers = sizes.layers,
                                          .width = sizes.width,
                                          .sequence = sizes.sequence,
                                          .vocabulary = kVocabulary,
                                          .dropout = kDropout});
  return {std::move(network), 2};
}

nn::Linear Unbiased(int64_t in, int64_t out) {
  return nn::Linear(nn::LinearOptions(in, out).bias(false));
}

// The root mean square normalization of Zhang and Sennrich 2019.
class Norm : public nn::Module {
 public:
  explicit Norm(int64_t width) : scale_(register_parameter("scale", at::ones({width}))) {}
  at::Tensor forward(const at::Tensor& input) {
    return input * at::rsqrt(input.square().mean(-1, /*keepdim=*/true) + 1e-6) * scale_;
  }

 private:
  at::Tensor scale_;
};

// The first half of a block of LLaMA (Touvron et al. 2023, section 2.2): attention with rotary
// positions.
class LlamaAttention : public nn::Module {
 public:
  LlamaAttention(int64_t width, int64_t sequence)
      : norm_(register_module("norm", std::make_shared<Norm>(width))),
        query_(register_module("query", Unbiased(width, width))),
        key_(register_module("key", Unbiased(width, width))),
        value_(register_module("value", Unbiased(width, width))),
        projection_(register_module("projection", Unbiased(width, width))) {
    const at::Tensor rates = at::pow(10000.0, at::arange(0, kHead, 2) * (-1.0 / kHead));
    const at::Tensor angles = at::outer(at::arange(sequence), rates);
    cosine_ = at::cat({angles.cos(), angles.cos()}, -1);
    sine_ = at::cat({angles.sin(), angles.sin()}, -1);
    later_ = at::ones({sequence, sequence}, at::kBool).triu(1);
  }

  at::Tensor forward(const at::Tensor& input) {
    const at::Tensor normed = norm_->forward(input);
    const at::Tensor query = Rotated(Heads(query_(normed)));
    const at::Tensor key = Rotated(Heads(key_(normed)));
    const at::Tensor scores = query.matmul(key.transpose(2, 3)) * (1.0 / std::sqrt(kHead));
    const at::Tensor weights = scores.masked_fill(later_, -1e9).softmax(-1);
    const at::Tensor mixed = weights.matmul(Heads(value_(normed)));
    return input + projection_(mixed.transpose(1, 2).reshape(input.sizes()));
  }

 private:
  static constexpr int64_t kHead = 64;

  static at::Tensor Heads(const at::Tensor& projected) {
    return projected.view({projected.size(0), projected.size(1), -1, kHead}).transpose(1, 2);
  }

  at::Tensor Rotated(const at::Tensor& heads) const {
    const auto halves = heads.chunk(2, -1);
    return heads * cosine_ + at::cat({-halves[1], halves[0]}, -1) * sine_;
  }

  std::shared_ptr<Norm> norm_;
  nn::Linear query_, key_, value_, projection_;
  at::Tensor cosine_, sine_, later_;
};

// The second half: SwiGLU.
class LlamaLayers : public nn::Module {
 public:
  explicit LlamaLayers(int64_t width)
      : norm_(register_module("norm", std::make_shared<Norm>(width))),
        gate_(register_module("gate", Unbiased(width, width * 8 / 3))),
        up_(register_module("up", Unbiased(width, width * 8 / 3))),
        down_(register_module("down", Unbiased(width * 8 / 3, width))) {}

  at::Tensor forward(const at::Tensor& input) {
    const at::Tensor normed = norm_->forward(input);
    return input + down_(at::silu(gate_(normed)) * up_(normed));
  }

 private:
  std::shared_ptr<Norm> norm_;
  nn::Linear gate_, up_, down_;
};

// A LLaMA's last normalization and its classifier.
class LlamaHead : public nn::Module {
 public:
  explicit LlamaHead(int64_t width)
      : norm_(register_module("norm", std::make_shared<Norm>(width))),
        tokens_(register_module("tokens", Unbiased(width, kVocabulary))) {}
  at::Tensor forward(const at::Tensor& input) { return tokens_(norm_->forward(input)); }

 private:
  std::shared_ptr<Norm> norm_;
  nn::Linear tokens_;
};

template <typename Module>
TorchStage StageOf(std::string name, std::shared_ptr<Module> module) {
  return {.name = std::move(name),
          .forward = [module](const at::Tensor& input) { return module->forward(input); },
          .module = module};
}

Blocks Llama(const Sizes& sizes) {
  Network network;
  const nn::Embedding embedding(kVocabulary, sizes.width);
  network.stages.push_back(StageOf("embedding", embedding.ptr()));
  for (int layer = 0; layer < sizes.layers; ++layer) {
    const std::string block = absl::StrCat("block", layer);
    network.stages.push_back(StageOf(
        block + ".attention", std::make_shared<LlamaAttention>(sizes.width, sizes.sequence)));
    network.stages.push_back(
        StageOf(block + ".layers", std::make_shared<LlamaLayers>(sizes.width)));
  }
  network.stages.push_back(StageOf("head", std::make_shared<LlamaHead>(sizes.width)));
  network.input = at::randint(kVocabulary, {sizes.batch, sizes.sequence}, at::kLong);
  network.loss = [target = at::randint(kVocabulary, {sizes.batch * sizes.sequence}, at::kLong)](
                     const at::Tensor& output) {
    return nn::functional::cross_entropy(output.view({-1, kVocabulary}), target);
  };
  return {std::move(network), 2};
}

// A block between its forward and its backward: the input, and what the rerun saves.
class Checkpoint {
 public:
  Checkpoint(Forward block, const at::Tensor& input)
      : block_(std::move(block)), input_(input.detach()) {}

  size_t Count() { return count_++; }

  at::Tensor Saved(size_t index) {
    if (input_.defined()) Rerun();
    return std::exchange(saved_[index], {});
  }

 private:
  struct AllSaved {};

  void Rerun() {
    RandomAndBuffers now({}, input_.device());
    random_.Restore();
    const at::AutoGradMode gradients(true);
    const SavedTensorScope scope([this](const at::Tensor& tensor) -> SavedTensor {
      saved_.push_back(tensor.detach());
      if (saved_.size() == count_) throw AllSaved();
      return [] { return at::Tensor(); };
    });
    try {
      block_(std::exchange(input_, {}).detach().requires_grad_());
    } catch (const AllSaved&) {
    }
    now.Restore();
  }

  const Forward block_;
  at::Tensor input_;
  RandomAndBuffers random_{{}, at::kCPU};
  size_t count_ = 0;
  std::vector<at::Tensor> saved_;
};

at::Tensor Checkpointed(const Forward& block, const at::Tensor& input) {
  const auto checkpoint = std::make_shared<Checkpoint>(block, input);
  const SavedTensorScope scope([checkpoint](const at::Tensor&) -> SavedTensor {
    return [checkpoint, index = checkpoint->Count()] { return checkpoint->Saved(index); };
  });
  return block(input);
}

at::Tensor CheckpointedStep(const Blocks& blocks) {
  const std::vector<TorchStage>& stages = blocks.network.stages;
  at::Tensor value = stages.front().forward(blocks.network.input);
  for (size_t begin = 1; begin + 1 < stages.size(); begin += blocks.stages_per_block) {
    const auto block = [&stages, begin, end = begin + blocks.stages_per_block](at::Tensor x) {
      for (size_t stage = begin; stage < end; ++stage) x = stages[stage].forward(x);
      return x;
    };
    value = Checkpointed(block, value);
  }
  const at::Tensor loss = blocks.network.loss(stages.back().forward(std::move(value)));
  loss.backward();
  return loss.detach();
}

double Seconds(const std::function<void()>& step) {
  const auto begin = std::chrono::steady_clock::now();
  step();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class Comparison {
 public:
  Comparison(std::string name, std::function<Blocks(const Sizes&)> make, const Sizes& sizes)
      : name_(std::move(name)), make_(std::move(make)), sizes_(sizes), loop_(Made()) {}

  void Print() {
    const int64_t peak = PeakOf([this] { CheckpointedStep(loop_); });
    const int64_t plain = *PlainPeakBytes(loop_.network.stages, loop_.network.input,
                                          loop_.network.loss, &HostMemory());
    absl::PrintF("%s: checkpoints take %.2f MB, plain steps %.2f MB\n", name_, peak / 1e6,
                 plain / 1e6);
    for (const double part : {1.0, 0.95, 0.9, 0.85, 0.8}) {
      for (const bool options : {false, true}) PrintRow(peak, part, options);
    }
  }

 private:
  // The same weights and numbers each time.
  Blocks Made() const {
    at::manual_seed(1);
    return make_(sizes_);
  }

  int64_t PeakOf(const std::function<void()>& step) const {
    const TorchStages stages(loop_.network.stages, {});
    return *StepPeakBytes(stages, loop_.network.input, &HostMemory(), [&] {
      step();
      return absl::OkStatus();
    });
  }

  void PrintRow(int64_t peak, double part, bool options) {
    const Blocks planned = Made();
    const Network& network = planned.network;
    std::optional<Fit> fit;
    try {
      fit.emplace(network.stages, network.input, network.loss,
                  FitOptions{.memory = absl::StrCat(static_cast<int64_t>(peak * part)),
                             .save_options = options});
    } catch (const c10::Error& error) {
      absl::PrintF("%5.2f  %-8s  no schedule fits\n", part, options ? "options" : "whole");
      return;
    }
    std::vector<double> ratios, seconds;
    for (int round = 0; round < sizes_.rounds; ++round) {
      const double loop = Seconds([this] { CheckpointedStep(loop_); });
      seconds.push_back(Seconds([&] { fit->step(network.input, network.loss); }));
      ratios.push_back(seconds.back() / loop);
    }
    const int64_t taken = PeakOf([&] { fit->step(network.input, network.loss); });
    absl::PrintF("%5.2f  %-8s  step %.1f ms, %.3f of the checkpoints'; peak %.3f of theirs\n", part,
                 options ? "options" : "whole", Median(seconds) * 1e3, Median(ratios),
                 static_cast<double>(taken) / peak);
  }

  const std::string name_;
  const std::function<Blocks(const Sizes&)> make_;
  const Sizes sizes_;
  const Blocks loop_;
};

int Main(int argc, char** argv) {
  Sizes sizes;
  BenchmarkFlags flags(
      "stowage_early_stop_comparison",
      "Steps of a GPT-2 and a LLaMA under Stowage's schedules, beside a checkpoint "
      "around each block whose rerun ends early: time and memory");
  flags.AddNumber<int>("--rounds", {1, 1000}, &sizes.rounds, "steps of each, by turns");
  flags.AddNumber<int>("--batch", {1, 64}, &sizes.batch, "sequences");
  flags.AddNumber<int>("--layers", {1, 96}, &sizes.layers, "blocks");
  flags.AddNumber<int>("--width", {64, 4096}, &sizes.width, "numbers per token, 64 per head");
  flags.AddNumber<int>("--sequence", {2, 4096}, &sizes.sequence, "tokens");
  if (const auto code = flags.Parse(argc, argv)) return *code;
  at::set_num_threads(1);
  HostMemory();
  Comparison("GPT-2", Gpt2, sizes).Print();
  Comparison("LLaMA", Llama, sizes).Print();
  return 0;
}

}  // namespace
}  // namespace stowage

int main(int argc, char** argv) { return stowage::Main(argc, argv); }
