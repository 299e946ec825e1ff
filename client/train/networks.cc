#include "client/train/networks.h"

#include <ATen/ATen.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace stowage {
namespace {

namespace nn = torch::nn;

template <typename Module>
TorchStage StageOf(std::string name, std::shared_ptr<Module> module) {
  return {.name = std::move(name),
          .forward = [module](const at::Tensor& input) { return module->forward(input); },
          .module = module};
}

nn::Conv2d Convolution(int in, int out, int kernel, int stride) {
  return nn::Conv2d(
      nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

// A convolution and its normalization.
class ConvNorm : public nn::Module {
 public:
  ConvNorm(int in, int out, int kernel, int stride)
      : convolution_(register_module("conv", Convolution(in, out, kernel, stride))),
        normalization_(register_module("bn", nn::BatchNorm2d(out))) {}
  at::Tensor forward(const at::Tensor& input) { return normalization_(convolution_(input)); }

 private:
  nn::Conv2d convolution_;
  nn::BatchNorm2d normalization_;
};

// A ResNet's first convolution and pooling.
class Stem : public nn::Module {
 public:
  explicit Stem(int channels)
      : first_(register_module("first", std::make_shared<ConvNorm>(3, channels, 7, 2))) {}
  at::Tensor forward(const at::Tensor& input) {
    return at::max_pool2d(first_->forward(input).relu_(), 3, 2, 1);
  }

 private:
  std::shared_ptr<ConvNorm> first_;
};

// The two kinds of residual block: two 3x3 convolutions, or 1x1, 3x3 and 1x1.
enum class BlockKind { kBasic, kBottleneck };

struct ResidualShape {
  int in = 0;     // channels of the input
  int inner = 0;  // channels between the convolutions
  int out = 0;    // channels of the output
  int stride = 1;
  BlockKind kind = BlockKind::kBasic;
};

// A ResNet's residual block. Its additions and ReLUs are in place on tensors that it has computed
// itself: a stage may not write into its input. The shortcut is a 1x1 convolution if it changes the
// shape.
class Residual : public nn::Module {
 public:
  explicit Residual(const ResidualShape& shape) {
    const auto [in, inner, out, stride, kind] = shape;
    if (kind == BlockKind::kBottleneck) {
      Add(in, inner, 1, 1);
      Add(inner, inner, 3, stride);
      Add(inner, out, 1, 1);
    } else {
      Add(in, inner, 3, stride);
      Add(inner, out, 3, 1);
    }
    if (stride != 1 || in != out) {
      shortcut_ = register_module("past", std::make_shared<ConvNorm>(in, out, 1, stride));
    }
  }
  at::Tensor forward(const at::Tensor& input) {
    at::Tensor output = input;
    for (size_t i = 0; i < parts_.size(); ++i) {
      output = parts_[i]->forward(output);
      if (i + 1 < parts_.size()) output.relu_();
    }
    output += shortcut_ == nullptr ? input : shortcut_->forward(input);
    return output.relu_();
  }

 private:
  void Add(int in, int out, int kernel, int stride) {
    parts_.push_back(register_module(absl::StrCat("part", parts_.size()),
                                     std::make_shared<ConvNorm>(in, out, kernel, stride)));
  }

  std::vector<std::shared_ptr<ConvNorm>> parts_;
  std::shared_ptr<ConvNorm> shortcut_;
};

// A ResNet's last pooling and its classifier.
class Head : public nn::Module {
 public:
  Head(int in, int classes) : classes_(register_module("fc", nn::Linear(in, classes))) {}
  at::Tensor forward(const at::Tensor& input) { return classes_(input.mean({2, 3})); }

 private:
  nn::Linear classes_;
};

// Random images and classes.
void AddImages(const NetworkOptions& options, Network* network) {
  network->input = at::randn({options.batch, 3, options.image, options.image});
  network->loss =
      [target = at::randint(options.classes, {options.batch}, at::kLong).to(options.device)](
          const at::Tensor& output) { return nn::functional::cross_entropy(output, target); };
}

// `blocks`: residual blocks in each of the four layers.
Network ResNet(const std::array<int, 4>& blocks, BlockKind kind, const NetworkOptions& options) {
  Network network;
  network.stages.push_back(StageOf("stem", std::make_shared<Stem>(options.channels)));
  int in = options.channels;
  for (size_t layer = 0; layer < blocks.size(); ++layer) {
    const int inner = options.channels << layer;
    const int out = kind == BlockKind::kBottleneck ? 4 * inner : inner;
    for (int block = 0; block < blocks[layer]; ++block) {
      const int stride = layer > 0 && block == 0 ? 2 : 1;
      network.stages.push_back(
          StageOf(absl::StrCat("layer", layer + 1, ".", block),
                  std::make_shared<Residual>(ResidualShape{in, inner, out, stride, kind})));
      in = out;
    }
  }
  network.stages.push_back(StageOf("head", std::make_shared<Head>(in, options.classes)));
  AddImages(options, &network);
  return network;
}

// Normalization, ReLU and convolution.
class NormConv : public nn::Module {
 public:
  NormConv(int in, int out, int kernel)
      : normalization_(register_module("bn", nn::BatchNorm2d(in))),
        convolution_(register_module("conv", Convolution(in, out, kernel, 1))) {}
  at::Tensor forward(const at::Tensor& input) {
    return convolution_(normalization_(input).relu_());
  }

 private:
  nn::BatchNorm2d normalization_;
  nn::Conv2d convolution_;
};

// A DenseNet's layer: appends `growth` channels to its input.
class DenseLayer : public nn::Module {
 public:
  DenseLayer(int in, int growth)
      : first_(register_module("first", std::make_shared<NormConv>(in, 4 * growth, 1))),
        second_(register_module("second", std::make_shared<NormConv>(4 * growth, growth, 3))) {}
  at::Tensor forward(const at::Tensor& input) {
    return at::cat({input, second_->forward(first_->forward(input))}, 1);
  }

 private:
  std::shared_ptr<NormConv> first_;
  std::shared_ptr<NormConv> second_;
};

// Between the blocks of a DenseNet: halves channels, height and width.
class Transition : public nn::Module {
 public:
  explicit Transition(int in)
      : half_(register_module("half", std::make_shared<NormConv>(in, in / 2, 1))) {}
  at::Tensor forward(const at::Tensor& input) { return at::avg_pool2d(half_->forward(input), 2); }

 private:
  std::shared_ptr<NormConv> half_;
};

// A DenseNet's last normalization, its pooling and its classifier.
class DenseHead : public nn::Module {
 public:
  DenseHead(int in, int classes)
      : normalization_(register_module("bn", nn::BatchNorm2d(in))),
        head_(register_module("head", std::make_shared<Head>(in, classes))) {}
  at::Tensor forward(const at::Tensor& input) {
    return head_->forward(normalization_(input).relu_());
  }

 private:
  nn::BatchNorm2d normalization_;
  std::shared_ptr<Head> head_;
};

// One stage for each layer: a block's layers pass one growing tensor of all features.
Network DenseNet(const std::array<int, 4>& blocks, const NetworkOptions& options) {
  const int growth = std::max(1, options.channels / 2);
  Network network;
  network.stages.push_back(StageOf("stem", std::make_shared<Stem>(options.channels)));
  int channels = options.channels;
  for (size_t block = 0; block < blocks.size(); ++block) {
    if (block > 0) {
      network.stages.push_back(
          StageOf(absl::StrCat("transition", block), std::make_shared<Transition>(channels)));
      channels /= 2;
    }
    for (int layer = 0; layer < blocks[block]; ++layer) {
      network.stages.push_back(StageOf(absl::StrCat("block", block + 1, ".", layer),
                                       std::make_shared<DenseLayer>(channels, growth)));
      channels += growth;
    }
  }
  network.stages.push_back(StageOf("head", std::make_shared<DenseHead>(channels, options.classes)));
  AddImages(options, &network);
  return network;
}

// The sum of token and position embeddings, with dropout.
class Embedding : public nn::Module {
 public:
  explicit Embedding(const NetworkOptions& options)
      : tokens_(register_module("wte", nn::Embedding(options.vocabulary, options.width))),
        places_(register_module("wpe", nn::Embedding(options.sequence, options.width))),
        dropout_(register_module("drop", nn::Dropout(options.dropout))) {}
  at::Tensor forward(const at::Tensor& input) {
    const at::Tensor places = at::arange(input.size(1), input.options());
    return dropout_(tokens_(input) + places_(places));
  }

 private:
  nn::Embedding tokens_;
  nn::Embedding places_;
  nn::Dropout dropout_;
};

// The first half of a transformer block: attention with a residual connection.
class Attention : public nn::Module {
 public:
  explicit Attention(const NetworkOptions& options)
      : width_(options.width),
        heads_(std::max(1, options.width / 64)),
        norm_(register_module("ln_1", nn::LayerNorm(nn::LayerNormOptions({options.width})))),
        qkv_(register_module("c_attn", nn::Linear(options.width, 3 * options.width))),
        projection_(register_module("c_proj", nn::Linear(options.width, options.width))),
        dropout_(register_module("drop", nn::Dropout(options.dropout))) {}
  at::Tensor forward(const at::Tensor& input) {
    return input + dropout_(projection_(Attend(norm_(input))));
  }

 private:
  at::Tensor Attend(const at::Tensor& input) {
    const int64_t batch = input.size(0);
    const int64_t length = input.size(1);
    const auto split = qkv_(input).view({batch, length, 3, heads_, width_ / heads_}).unbind(2);
    const at::Tensor query = split[0].transpose(1, 2);
    const at::Tensor key = split[1].transpose(1, 2);
    const at::Tensor value = split[2].transpose(1, 2);
    // Tokens attend to themselves and earlier ones.
    const at::Tensor later = at::ones({length, length}, input.options().dtype(at::kBool)).triu(1);
    const double scale = 1 / std::sqrt(static_cast<double>(width_) / static_cast<double>(heads_));
    at::Tensor weights = (query.matmul(key.transpose(2, 3)) * scale).masked_fill(later, -1e9);
    weights = dropout_(weights.softmax(-1));
    return weights.matmul(value).transpose(1, 2).reshape({batch, length, width_});
  }

  const int64_t width_;
  const int64_t heads_;
  nn::LayerNorm norm_;
  nn::Linear qkv_;
  nn::Linear projection_;
  nn::Dropout dropout_;
};

// The second half: two linear layers with a residual connection.
class Perceptron : public nn::Module {
 public:
  explicit Perceptron(const NetworkOptions& options)
      : norm_(register_module("ln_2", nn::LayerNorm(nn::LayerNormOptions({options.width})))),
        up_(register_module("c_fc", nn::Linear(options.width, 4 * options.width))),
        down_(register_module("c_out", nn::Linear(4 * options.width, options.width))),
        dropout_(register_module("drop", nn::Dropout(options.dropout))) {}
  at::Tensor forward(const at::Tensor& input) {
    return input + dropout_(down_(at::gelu(up_(norm_(input)))));
  }

 private:
  nn::LayerNorm norm_;
  nn::Linear up_;
  nn::Linear down_;
  nn::Dropout dropout_;
};

// Logits of the next token.
class TokenHead : public nn::Module {
 public:
  explicit TokenHead(const NetworkOptions& options)
      : norm_(register_module("ln_f", nn::LayerNorm(nn::LayerNormOptions({options.width})))),
        tokens_(register_module(
            "lm_head",
            nn::Linear(nn::LinearOptions(options.width, options.vocabulary).bias(false)))) {}
  at::Tensor forward(const at::Tensor& input) { return tokens_(norm_(input)); }

 private:
  nn::LayerNorm norm_;
  nn::Linear tokens_;
};

// Two stages a layer: attention and perceptron, each with its residual connection inside, so that
// one tensor passes between stages. Graph mode fuses the two of a layer.
Network Transformer(const NetworkOptions& options) {
  Network network;
  network.stages.push_back(StageOf("embedding", std::make_shared<Embedding>(options)));
  for (int layer = 0; layer < options.layers; ++layer) {
    const std::string block = absl::StrCat("h.", layer);
    for (TorchStage half : {StageOf(block + ".attn", std::make_shared<Attention>(options)),
                            StageOf(block + ".mlp", std::make_shared<Perceptron>(options))}) {
      half.fusion_group = block;
      network.stages.push_back(std::move(half));
    }
  }
  network.stages.push_back(StageOf("head", std::make_shared<TokenHead>(options)));
  const auto tokens = [&options] {
    return at::randint(options.vocabulary, {options.batch, options.sequence}, at::kLong);
  };
  network.input = tokens();
  network.loss = [target = tokens().to(options.device).view({-1})](const at::Tensor& output) {
    return nn::functional::cross_entropy(output.view({-1, output.size(-1)}), target);
  };
  return network;
}

}  // namespace

std::vector<std::string> NetworkNames() {
  return {"resnet18", "resnet50", "resnet101", "densenet121", "gpt2"};
}

absl::StatusOr<Network> MakeNetwork(absl::string_view name, const NetworkOptions& options) {
  Network network;
  if (name == "resnet18") {
    network = ResNet({2, 2, 2, 2}, BlockKind::kBasic, options);
  } else if (name == "resnet50") {
    network = ResNet({3, 4, 6, 3}, BlockKind::kBottleneck, options);
  } else if (name == "resnet101") {
    network = ResNet({3, 4, 23, 3}, BlockKind::kBottleneck, options);
  } else if (name == "densenet121") {
    network = DenseNet({6, 12, 24, 16}, options);
  } else if (name == "gpt2") {
    network = Transformer(options);
  } else {
    return absl::InvalidArgumentError(absl::StrCat("network: \"", name, "\" is not one of ",
                                                   absl::StrJoin(NetworkNames(), ", ")));
  }
  network.input = network.input.to(options.device);
  for (const TorchStage& stage : network.stages) stage.module->to(options.device);
  return network;
}

}  // namespace stowage
