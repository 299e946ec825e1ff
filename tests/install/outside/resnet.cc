// A residual network with batch normalization and the program's own loop: trained as it is, then
// within a memory budget. Exits 1 unless all losses are equal to the bit.
#include <torch/torch.h>

#include <functional>
#include <iostream>
#include <vector>

#include "client/torch/fit.h"

namespace nn = torch::nn;

struct BlockImpl : nn::Module {
  BlockImpl(int64_t channels_in, int64_t channels)
      : first(Convolution(channels_in, channels)),
        second(Convolution(channels, channels)),
        shortcut(nn::Conv2dOptions(channels_in, channels, 1)) {
    register_module("first", first);
    register_module("second", second);
    register_module("shortcut", shortcut);
  }
  static nn::Sequential Convolution(int64_t channels_in, int64_t channels) {
    return nn::Sequential(nn::Conv2d(nn::Conv2dOptions(channels_in, channels, 3).padding(1)),
                          nn::BatchNorm2d(channels));
  }
  at::Tensor forward(const at::Tensor& input) {
    const at::Tensor inner = at::relu(first->forward(input));
    return at::relu(second->forward(inner) + shortcut(input));
  }
  nn::Sequential first, second;
  nn::Conv2d shortcut;
};
TORCH_MODULE(Block);

nn::Sequential Network() {
  torch::manual_seed(1);
  nn::Sequential network(nn::Conv2d(nn::Conv2dOptions(3, 8, 3).padding(1)), nn::BatchNorm2d(8),
                         nn::ReLU(nn::ReLUOptions().inplace(true)));
  for (int block = 0; block < 6; ++block) {
    network->push_back(Block(block <= 3 ? 8 : 16, block < 3 ? 8 : 16));
  }
  network->push_back(nn::AdaptiveAvgPool2d(1));
  network->push_back(nn::Flatten());
  network->push_back(nn::Linear(16, 10));
  return network;
}

using Loss = std::function<at::Tensor(const at::Tensor& output)>;
using Step = std::function<at::Tensor(const at::Tensor& images, const Loss& loss)>;

std::vector<at::Tensor> Train(const nn::Sequential& network, const Step& step) {
  torch::manual_seed(2);
  torch::optim::SGD optimizer(network->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  std::vector<at::Tensor> losses;
  for (int i = 0; i < 5; ++i) {
    const at::Tensor images = torch::randn({8, 3, 16, 16});
    const at::Tensor labels = torch::randint(10, {8}, at::kLong);
    optimizer.zero_grad();
    losses.push_back(step(images, [&](const at::Tensor& output) {
      return nn::functional::cross_entropy(output, labels);
    }));
    nn::utils::clip_grad_norm_(network->parameters(), 1.0);
    optimizer.step();
  }
  return losses;
}

int main() {
  nn::Sequential plain = Network();
  const std::vector<at::Tensor> expected =
      Train(plain, [&](const at::Tensor& images, const Loss& loss) {
        const at::Tensor value = loss(plain->forward(images));
        value.backward();
        return value.detach();
      });

  nn::Sequential network = Network();
  const auto any_loss = [](const at::Tensor& output) { return output.logsumexp(1).mean(); };
  stowage::Fit fit(network, torch::randn({8, 3, 16, 16}), any_loss, {.memory = "40%"});
  const std::vector<at::Tensor> losses = Train(
      network, [&](const at::Tensor& images, const Loss& loss) { return fit.step(images, loss); });
  std::cout << fit.summary() << fit.report();

  for (size_t i = 0; i < losses.size(); ++i) {
    if (!at::equal(losses[i], expected[i])) return std::cout << "step " << i << " differs\n", 1;
  }
  std::cout << losses.size() << " losses are equal\n";
}
