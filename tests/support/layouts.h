// Checks that a layout is valid.
#ifndef STOWAGE_TESTS_SUPPORT_LAYOUTS_H_
#define STOWAGE_TESTS_SUPPORT_LAYOUTS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <vector>

#include "client/agent/layout.h"

namespace stowage {

// Fails if two blocks overlap in time and memory, or an offset is not aligned. Sweeps over begins
// and keeps the ranges of the blocks alive.
inline void ExpectSound(const std::vector<MemoryBlock>& blocks, const Layout& layout,
                        int64_t alignment) {
  ASSERT_EQ(layout.offsets.size(), blocks.size());
  std::vector<size_t> by_begin(blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i) by_begin[i] = i;
  std::sort(by_begin.begin(), by_begin.end(),
            [&](size_t a, size_t b) { return blocks[a].begin < blocks[b].begin; });
  std::multimap<size_t, size_t> alive;  // by end
  std::map<int64_t, int64_t> taken;     // from, to
  for (const size_t i : by_begin) {
    while (!alive.empty() && alive.begin()->first <= blocks[i].begin) {
      taken.erase(layout.offsets[alive.begin()->second]);
      alive.erase(alive.begin());
    }
    const int64_t from = layout.offsets[i];
    const int64_t to = from + blocks[i].bytes;
    ASSERT_EQ(from % alignment, 0);
    ASSERT_GE(from, 0);
    ASSERT_LE(to, layout.bytes);
    if (blocks[i].bytes == 0) continue;
    const auto next = taken.lower_bound(from);
    ASSERT_TRUE(next == taken.end() || to <= next->first);
    ASSERT_TRUE(next == taken.begin() || std::prev(next)->second <= from);
    taken.emplace(from, to);
    alive.emplace(blocks[i].end, i);
  }
}

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_LAYOUTS_H_
