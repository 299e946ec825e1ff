// Offsets for blocks of memory whose lifetimes are all known ahead, so that those alive at the same
// time do not overlap and little more is taken than the most that is ever alive. (Offline dynamic
// storage allocation; finding the least is NP-hard.)
#ifndef STOWAGE_CLIENT_AGENT_LAYOUT_H_
#define STOWAGE_CLIENT_AGENT_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stowage {

// Alive from moment `begin` until before moment `end`. Moments are program order, not time.
struct MemoryBlock {
  int64_t bytes = 0;
  size_t begin = 0;
  size_t end = 0;
};

struct Layout {
  std::vector<int64_t> offsets;  // by block, in bytes, multiples of the alignment
  int64_t bytes = 0;             // what holds them all
};

// The most bytes alive at any moment, each block's size rounded up to `alignment`: no layout takes
// less.
int64_t PeakOf(const std::vector<MemoryBlock>& blocks, int64_t alignment);

// Places the blocks one after another at the lowest offset that is free all their life, in several
// orders, each of which is then changed at random for as long as that helps: within some 1 % of the
// peak for schedules of real chains, in milliseconds to a second or two. Where more than a few
// million pairs of blocks are alive together, each block where it fits best in order of time.
// Deterministic. Requires: sizes below 2^62 in total, none negative; begin < end; alignment > 0;
// less than 2^32 blocks. Thread-safe.
Layout LayOut(const std::vector<MemoryBlock>& blocks, int64_t alignment);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_AGENT_LAYOUT_H_
