// A small transformer with dropout and accumulated gradients in the program's own loop: trained as
// it is, then within a memory budget. Exits 1 unless all losses are equal to the bit.
#include <torch/torch.h>

#include <functional>
#include <iostream>
#include <vector>

#include "client/torch/fit.h"

namespace nn = torch::nn;

constexpr int64_t kTokens = 50;
constexpr int64_t kWidth = 32;

struct BlockImpl : nn::Module {
  BlockImpl()
      : attention_norm(nn::LayerNormOptions({kWidth})),
        attention(nn::MultiheadAttentionOptions(kWidth, 4)),
        inner(nn::LayerNorm(nn::LayerNormOptions({kWidth})), nn::Linear(kWidth, 4 * kWidth),
              nn::GELU(), nn::Linear(4 * kWidth, kWidth), nn::Dropout(0.1)) {
    register_module("attention_norm", attention_norm);
    register_module("attention", attention);
    register_module("inner", inner);
  }
  at::Tensor forward(const at::Tensor& input) {  // length, batch, width
    const at::Tensor normal = attention_norm(input);
    const at::Tensor attended = input + std::get<0>(attention(normal, normal, normal));
    return attended + inner->forward(attended);
  }
  nn::LayerNorm attention_norm;
  nn::MultiheadAttention attention;
  nn::Sequential inner;
};
TORCH_MODULE(Block);

nn::Sequential Network() {
  torch::manual_seed(1);
  nn::Sequential network(nn::Embedding(kTokens, kWidth));
  for (int block = 0; block < 6; ++block) network->push_back(Block());
  network->push_back(nn::Linear(kWidth, kTokens));
  return network;
}

using Loss = std::function<at::Tensor(const at::Tensor& output)>;
using Step = std::function<at::Tensor(const at::Tensor& tokens, const Loss& loss)>;

std::vector<at::Tensor> Train(const nn::Sequential& network, const Step& step) {
  torch::manual_seed(2);
  torch::optim::Adam optimizer(network->parameters(), torch::optim::AdamOptions(1e-3));
  std::vector<at::Tensor> losses;
  for (int i = 0; i < 6; ++i) {
    const at::Tensor text = torch::randint(kTokens, {17, 4}, at::kLong);
    losses.push_back(step(text.slice(0, 0, 16), [&](const at::Tensor& logits) {
      return nn::functional::cross_entropy(logits.flatten(0, 1), text.slice(0, 1).flatten());
    }));
    if (i % 2 == 1) {  // each two batches
      optimizer.step();
      optimizer.zero_grad();
    }
  }
  return losses;
}

int main() {
  nn::Sequential plain = Network();
  const std::vector<at::Tensor> expected =
      Train(plain, [&](const at::Tensor& tokens, const Loss& loss) {
        const at::Tensor value = loss(plain->forward(tokens));
        value.backward();
        return value.detach();
      });

  nn::Sequential network = Network();
  const auto any_loss = [](const at::Tensor& logits) { return logits.logsumexp(2).mean(); };
  const at::Tensor sample = torch::zeros({16, 4}, at::kLong);
  stowage::Fit fit(network, sample, any_loss, {.memory = "40%"});
  const std::vector<at::Tensor> losses = Train(
      network, [&](const at::Tensor& tokens, const Loss& loss) { return fit.step(tokens, loss); });
  std::cout << fit.summary() << fit.report();

  for (size_t i = 0; i < losses.size(); ++i) {
    if (!at::equal(losses[i], expected[i])) return std::cout << "step " << i << " differs\n", 1;
  }
  std::cout << losses.size() << " losses are equal\n";
}
