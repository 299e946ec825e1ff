#include "client/agent/layout.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/support/layouts.h"

namespace stowage {
namespace {

TEST(LayOut, NeedsNoBytesForNoBlocks) {
  EXPECT_EQ(LayOut({}, 256).bytes, 0);
  EXPECT_EQ(LayOut({{0, 0, 5}}, 256).bytes, 0);
}

TEST(LayOut, ReusesSpaceOfBlocksWithDisjointLifetimes) {
  EXPECT_EQ(LayOut({{100, 0, 2}, {100, 2, 4}, {100, 4, 6}}, 1).bytes, 100);
}

TEST(LayOut, RoundsEachBlockUp) {
  const Layout layout = LayOut({{1, 0, 2}, {257, 0, 2}}, 256);
  EXPECT_EQ(layout.bytes, 768);
  EXPECT_EQ(PeakOf({{1, 0, 2}, {257, 0, 2}}, 256), 768);
}

TEST(LayOut, ReachesThePeakWherePlacingInOrderOfTimeDoesNot) {
  // Placed in order of time, the second block prevents the fourth from using the space of the
  // first.
  const std::vector<MemoryBlock> blocks = {{2, 0, 2}, {1, 1, 5}, {1, 0, 1}, {3, 2, 5}};
  EXPECT_EQ(LayOut(blocks, 1).bytes, PeakOf(blocks, 1));
}

TEST(LayOut, OverlapsNoRandomBlocks) {
  std::mt19937 random(1);
  for (int round = 0; round < 100; ++round) {
    std::vector<MemoryBlock> blocks(random() % 60);
    for (MemoryBlock& block : blocks) {
      block.bytes = random() % 5 == 0 ? 0 : static_cast<int64_t>(random() % 1000);
      block.begin = random() % 50;
      block.end = block.begin + 1 + random() % 20;
    }
    const int64_t alignment = int64_t{1} << (random() % 9);
    const Layout layout = LayOut(blocks, alignment);
    ExpectSound(blocks, layout, alignment);
    EXPECT_GE(layout.bytes, PeakOf(blocks, alignment));
  }
}

TEST(LayOut, OverlapsNoBlocksWhereThereAreTooManyToSearch) {
  std::mt19937 random(1);
  std::vector<MemoryBlock> blocks(20'000);
  for (size_t i = 0; i < blocks.size(); ++i) {
    blocks[i] = {static_cast<int64_t>(random() % 1000), i, 2 * blocks.size() - i};
    if (i % 3 == 0) blocks[i].end = i + 1 + random() % 100;
  }
  const Layout layout = LayOut(blocks, 16);
  ExpectSound(blocks, layout, 16);
  EXPECT_LE(static_cast<double>(layout.bytes), 1.01 * static_cast<double>(PeakOf(blocks, 16)));
}

}  // namespace
}  // namespace stowage
