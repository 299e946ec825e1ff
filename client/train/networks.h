// Networks to train, cut into stages where a single tensor passes between layers, with random data.
#ifndef STOWAGE_CLIENT_TRAIN_NETWORKS_H_
#define STOWAGE_CLIENT_TRAIN_NETWORKS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/torch/stages/torch_stages.h"

namespace stowage {

struct NetworkOptions {
  c10::Device device = c10::kCPU;
  int batch = 8;
  int image = 224;         // of a network for images: pixels per side
  int channels = 64;       // of a network for images: of its first block
  int classes = 1000;      // of a network for images
  int layers = 12;         // of a transformer
  int width = 768;         // of a transformer: numbers per token, 64 per head
  int sequence = 256;      // of a transformer: tokens
  int vocabulary = 50257;  // of a transformer
  double dropout = 0.1;    // of a transformer
};

struct Network {
  std::vector<TorchStage> stages;
  at::Tensor input;
  TorchLoss loss;  // cross entropy with random classes or tokens
};

// "resnet18", "resnet50", "resnet101" (He et al. 2016, section 4), "densenet121" (Huang et al.
// 2017, section 3) and "gpt2" (Radford et al. 2019, section 2.3; its last layer does not share the
// embedding's weights). In graph mode the two halves of a gpt2 block are one unit; any other stage
// is a unit of its own.
std::vector<std::string> NetworkNames();

// Initialized by LibTorch's random generator. Errors: INVALID_ARGUMENT for an unknown name.
absl::StatusOr<Network> MakeNetwork(absl::string_view name, const NetworkOptions& options);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_TRAIN_NETWORKS_H_
