#include "tests/support/network_chains.h"

#include <cmath>
#include <cstdint>
#include <random>

namespace stowage {
namespace {

constexpr double kMebibyte = 1 << 20;
constexpr double kMillisecond = 1e-3;
constexpr int kGroups = 4;

// std::mt19937 is the same everywhere, the distributions of <random> are not.
class Random {
 public:
  double Between(double low, double high) {
    return low + (high - low) * std::ldexp(static_cast<double>(bits_()), -32);
  }

 private:
  std::mt19937 bits_{1};
};

struct Place {
  int group = 0;
  double position = 0;  // in it, from 0 to below 1
};

Place PlaceOf(int stage_index, int stages) {
  const double place = static_cast<double>(stage_index) * kGroups / stages;
  const int group = static_cast<int>(place);
  return {group, place - group};
}

int64_t Mebibytes(double size) { return static_cast<int64_t>(size * kMebibyte); }

}  // namespace

Chain EqualNetwork(int stages) {
  Chain chain;
  chain.input_bytes = Mebibytes(10);
  Stage stage;
  stage.forward_seconds = kMillisecond;
  stage.backward_seconds = 2 * kMillisecond;
  stage.output_bytes = Mebibytes(10);
  stage.saved_bytes = Mebibytes(30);
  chain.stages.assign(static_cast<size_t>(stages), stage);
  return chain;
}

Chain ResnetLikeNetwork(int stages) {
  Random random;
  Chain chain;
  chain.input_bytes = Mebibytes(16);
  for (int i = 0; i < stages; ++i) {
    const double output = 64.0 / (1 << PlaceOf(i, stages).group);
    Stage stage;
    stage.forward_seconds = random.Between(0.5, 1.5) * kMillisecond;
    stage.backward_seconds = 2 * stage.forward_seconds;
    stage.output_bytes = Mebibytes(output);
    stage.saved_bytes = Mebibytes(output * random.Between(2.5, 3.5));
    stage.backward_overhead_bytes = Mebibytes(output / 2);
    chain.stages.push_back(stage);
  }
  return chain;
}

Chain DensenetLikeNetwork(int stages) {
  Random random;
  Chain chain;
  chain.input_bytes = Mebibytes(16);
  for (int i = 0; i < stages; ++i) {
    const auto [block, position] = PlaceOf(i, stages);
    const double output = 64.0 / (1 << block) * (0.3 + 0.7 * position);
    Stage stage;
    stage.forward_seconds = random.Between(0.5, 1.5) * (0.5 + position) * kMillisecond;
    stage.backward_seconds = 2 * stage.forward_seconds;
    stage.output_bytes = Mebibytes(output);
    stage.saved_bytes = Mebibytes(output * random.Between(1.5, 3) + 4);
    chain.stages.push_back(stage);
  }
  return chain;
}

}  // namespace stowage
