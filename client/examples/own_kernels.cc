// Trains a network whose kernels and memory are the program's own, without a framework: every value
// lies in one arena, whose size is known before the first step. `stowage-example-own-kernels
// [PERCENT]` of the memory between the least and all, by default 30. To copy from: on a GPU the
// device is a CudaDevice, and the kernels are launched on the stream that the calls name.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "client/agent/executor.h"
#include "client/agent/host_device.h"
#include "client/lib/local_scheduler.h"
#include "solver/base/status_macros.h"
#include "solver/bounds/memory_range.h"

namespace {

constexpr int kBlocks = 12;
constexpr size_t kRows = 32;    // of a batch
constexpr size_t kWidth = 64;   // of a value
constexpr size_t kInner = 256;  // of what a block keeps for its backward
constexpr size_t kValue = kRows * kWidth;
constexpr size_t kHidden = kRows * kInner;
constexpr int64_t kFloat = sizeof(float);

std::span<float> Floats(stowage::DeviceSpan span, size_t offset, size_t count) {
  return {reinterpret_cast<float*>(span.data) + offset, count};
}

// out += a b, of rows x inner and inner x columns; a transposed one is read by its columns.
struct Matrix {
  const float* data;
  size_t row_step;
  size_t column_step;
};
void AddProduct(Matrix a, Matrix b, size_t rows, size_t inner, size_t columns, float* out) {
  for (size_t row = 0; row < rows; ++row) {
    for (size_t k = 0; k < inner; ++k) {
      const float factor = a.data[row * a.row_step + k * a.column_step];
      const float* const from = b.data + k * b.row_step;
      for (size_t column = 0; column < columns; ++column) {
        out[row * columns + column] += factor * from[column * b.column_step];
      }
    }
  }
}

// y = x + tanh(x up) down. The parameters and their gradients are not part of the chain.
struct Block {
  std::vector<float> up, down, up_gradient, down_gradient;
};

class Network final : public stowage::ArenaStages {
 public:
  Network() : blocks_(kBlocks), batch_(kValue), target_(kValue) {
    std::mt19937 random(1);
    std::uniform_real_distribution<float> weight(-0.1F, 0.1F);
    const auto fill = [&](std::vector<float>& values, size_t count) {
      values.resize(count);
      for (float& value : values) value = weight(random);
    };
    for (Block& block : blocks_) {
      fill(block.up, kWidth * kInner);
      fill(block.down, kInner * kWidth);
      block.up_gradient.resize(block.up.size());
      block.down_gradient.resize(block.down.size());
    }
    fill(batch_, kValue);
    fill(target_, kValue);
  }

  absl::Status Begin(stowage::DeviceSpan input, void* /*stream*/) override {
    std::ranges::copy(batch_, Floats(input, 0, kValue).begin());
    return absl::OkStatus();
  }

  absl::Status Forward(const stowage::ForwardCall& call,
                       const stowage::ForwardSpans& spans) override {
    const std::span<float> input = Floats(spans.input, 0, kValue);
    if (call.stage > kBlocks) return Loss(input), absl::OkStatus();
    // What the backward needs follows the output where it is saved.
    const std::span<float> hidden = stowage::Saves(call.kind) ? Floats(spans.value, kValue, kHidden)
                                                              : Floats(spans.workspace, 0, kHidden);
    const Block& block = blocks_[static_cast<size_t>(call.stage) - 1];
    std::ranges::fill(hidden, 0.0F);
    AddProduct({input.data(), kWidth, 1}, {block.up.data(), kInner, 1}, kRows, kWidth, kInner,
               hidden.data());
    for (float& value : hidden) value = std::tanh(value);
    const std::span<float> output = Floats(spans.value, 0, kValue);
    std::ranges::copy(input, output.begin());
    AddProduct({hidden.data(), kInner, 1}, {block.down.data(), kWidth, 1}, kRows, kInner, kWidth,
               output.data());
    return absl::OkStatus();
  }

  absl::Status Backward(const stowage::BackwardCall& call,
                        const stowage::BackwardSpans& spans) override {
    const std::span<float> input = Floats(spans.input, 0, kValue);
    const std::span<float> result = Floats(spans.input_gradient, 0, kValue);
    if (call.stage > kBlocks) {
      for (size_t i = 0; i < kValue; ++i) result[i] = 2 * (input[i] - target_[i]) / kValue;
      return absl::OkStatus();
    }
    Block& block = blocks_[static_cast<size_t>(call.stage) - 1];
    const std::span<float> gradient = Floats(spans.gradient, 0, kValue);
    const std::span<float> hidden = Floats(spans.value, kValue, kHidden);
    const std::span<float> inner = Floats(spans.workspace, 0, kHidden);
    AddProduct({hidden.data(), 1, kInner}, {gradient.data(), kWidth, 1}, kInner, kRows, kWidth,
               block.down_gradient.data());
    std::ranges::fill(inner, 0.0F);
    AddProduct({gradient.data(), kWidth, 1}, {block.down.data(), 1, kWidth}, kRows, kWidth, kInner,
               inner.data());
    for (size_t i = 0; i < kHidden; ++i) inner[i] *= 1 - hidden[i] * hidden[i];
    AddProduct({input.data(), 1, kWidth}, {inner.data(), kInner, 1}, kWidth, kRows, kInner,
               block.up_gradient.data());
    std::ranges::copy(gradient, result.begin());
    AddProduct({inner.data(), kInner, 1}, {block.up.data(), 1, kInner}, kRows, kInner, kWidth,
               result.data());
    return absl::OkStatus();
  }

  absl::Status End(stowage::DeviceSpan /*input_gradient*/, void* /*stream*/) override {
    return absl::OkStatus();
  }

  void Descend(float rate) {
    for (Block& block : blocks_) {
      for (auto [weights, gradients] : {std::pair{&block.up, &block.up_gradient},
                                        std::pair{&block.down, &block.down_gradient}}) {
        for (size_t i = 0; i < weights->size(); ++i) (*weights)[i] -= rate * (*gradients)[i];
        std::ranges::fill(*gradients, 0.0F);
      }
    }
  }

  float loss() const { return loss_; }  // of the last step

 private:
  void Loss(std::span<const float> output) {
    loss_ = 0;
    for (size_t i = 0; i < kValue; ++i) {
      loss_ += (output[i] - target_[i]) * (output[i] - target_[i]) / kValue;
    }
  }

  std::vector<Block> blocks_;
  std::vector<float> batch_, target_;
  float loss_ = 0;
};

// Sizes as the kernels above use them; the times of a step that stores everything, shared out.
stowage::Chain ChainOf(double forward_seconds, double backward_seconds) {
  stowage::Chain chain;
  chain.input_bytes = kValue * kFloat;
  for (int l = 1; l <= kBlocks; ++l) {
    stowage::Stage& stage = chain.stages.emplace_back();
    stage.forward_seconds = forward_seconds / kBlocks;
    stage.backward_seconds = backward_seconds / kBlocks;
    stage.output_bytes = kValue * kFloat;
    stage.saved_bytes = (kValue + kHidden) * kFloat;
    stage.forward_overhead_bytes = kHidden * kFloat;
    stage.backward_overhead_bytes = kHidden * kFloat;
  }
  return chain;
}

struct Training {
  int64_t arena_bytes = 0;
  std::vector<float> losses;
  double forward_seconds = 0;
  double backward_seconds = 0;
};

absl::StatusOr<Training> Train(const stowage::Chain& chain, int64_t memory_bytes) {
  stowage::SolveRequest request;
  request.chain = chain;
  request.platform.memory_bytes = memory_bytes;
  ASSIGN_OR_RETURN(const stowage::SolveResult solved,
                   stowage::LocalScheduler({}).Solve(request, {}));
  if (solved.answer->outcome == stowage::Outcome::kInfeasible) {
    return absl::ResourceExhaustedError("no schedule fits: allow more memory");
  }
  ASSIGN_OR_RETURN(const stowage::ArenaPlan plan,
                   stowage::MakeArenaPlan(chain, request.platform, solved.answer->schedule));
  stowage::HostDevice device;
  ASSIGN_OR_RETURN(const auto executor, stowage::ArenaExecutor::Create(&plan, &device));
  Network network;
  Training training;
  training.arena_bytes = plan.device.layout.bytes;
  for (int step = 0; step < 5; ++step) {
    ASSIGN_OR_RETURN(const stowage::StepReport report,
                     executor->Step(&network, stowage::Timing::kEveryCommand));
    for (size_t i = 0; i < plan.commands.size(); ++i) {
      const stowage::CommandTimes& times = report.commands[i];
      (plan.commands[i].kind == stowage::OperationKind::kBackward ? training.backward_seconds
                                                                  : training.forward_seconds) +=
          (times.end_seconds - times.start_seconds) / 5;
    }
    training.losses.push_back(network.loss());
    network.Descend(20);
  }
  return training;
}

absl::Status Run(double percent) {
  const stowage::Chain sizes = ChainOf(1, 2);
  const int64_t most = stowage::StoreAllPeakBytes(sizes);
  const int64_t least = stowage::FloorOfMemory(sizes).bytes;
  ASSIGN_OR_RETURN(const Training plain, Train(sizes, most));
  const auto memory =
      least + static_cast<int64_t>(percent / 100 * static_cast<double>(most - least));
  ASSIGN_OR_RETURN(const Training planned,
                   Train(ChainOf(plain.forward_seconds, plain.backward_seconds), memory));
  std::printf("everything stored: an arena of %lld bytes, losses",
              static_cast<long long>(plain.arena_bytes));
  for (const float loss : plain.losses) std::printf(" %.6f", loss);
  std::printf("\nwithin %lld bytes: an arena of %lld bytes, losses", static_cast<long long>(memory),
              static_cast<long long>(planned.arena_bytes));
  for (const float loss : planned.losses) std::printf(" %.6f", loss);
  std::printf("\n");
  return planned.losses == plain.losses ? absl::OkStatus()
                                        : absl::InternalError("the losses differ");
}

}  // namespace

int main(int argc, char** argv) {
  const absl::Status status = Run(argc > 1 ? std::atof(argv[1]) : 30);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
