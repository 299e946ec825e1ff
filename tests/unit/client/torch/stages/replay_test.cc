#include "client/torch/stages/replay.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <set>
#include <vector>

namespace stowage {
namespace {

// Of the generators of `numbers`, draws a number each.
void Draw(const std::vector<at::Generator>& generators, const std::set<size_t>& numbers) {
  for (const size_t i : numbers) at::rand({1}, generators[i]);
}

// The number that each generator draws next, without drawing it.
std::vector<float> Next(const std::vector<at::Generator>& generators) {
  std::vector<float> next;
  for (const at::Generator& generator : generators) {
    next.push_back(at::rand({1}, generator.clone()).item<float>());
  }
  return next;
}

// Two generators, as the host and a GPU have one each.
TEST(RandomStates, RestoreTheGeneratorsAloneThatWereDrawnFrom) {
  for (const std::set<size_t>& drawn : std::vector<std::set<size_t>>{{}, {0}, {1}, {0, 1}}) {
    const std::vector<at::Generator> generators = {at::detail::createCPUGenerator(1),
                                                   at::detail::createCPUGenerator(2)};
    const RandomStates before(generators);
    Draw(generators, drawn);
    RandomStates states(generators);
    states.ForgetUnchanged(before);
    EXPECT_EQ(states.empty(), drawn.empty());
    std::vector<float> expected = Next(generators);
    Draw(generators, {0, 1});
    const std::vector<float> later = Next(generators);
    for (size_t i = 0; i < generators.size(); ++i) {
      if (drawn.count(i) == 0) expected[i] = later[i];
    }
    states.Restore();
    EXPECT_EQ(Next(generators), expected) << drawn.size() << " drawn from";
  }
}

}  // namespace
}  // namespace stowage
