// Offline dynamic storage allocation: offsets for blocks of memory with known lifetimes, so that
// blocks alive at the same time do not overlap and the region is little larger than the most bytes
// ever alive. Finding the smallest region is NP-hard.
#ifndef STOWAGE_CLIENT_AGENT_LAYOUT_H_
#define STOWAGE_CLIENT_AGENT_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stowage {

// Alive in [begin, end). Moments are positions in program order, not times.
struct MemoryBlock {
  int64_t bytes = 0;
  size_t begin = 0;
  size_t end = 0;
};

struct Layout {
  std::vector<int64_t> offsets;  // by block, in bytes, multiples of the alignment
  int64_t bytes = 0;             // size of the region
};

// The most bytes alive at any moment, with each block's size rounded up to `alignment`: a lower
// bound on the size of any layout.
int64_t PeakOf(const std::vector<MemoryBlock>& blocks, int64_t alignment);

// First fit by local search over the order of placement; best fit in order of time where more than
// a few million pairs of blocks are alive together. About 1 % above the peak for schedules of real
// chains, in milliseconds to two seconds. Deterministic. Thread-safe.
// Requires: no negative size, less than 2^62 bytes in total; begin < end; alignment > 0; less than
// 2^32 blocks.
Layout LayOut(const std::vector<MemoryBlock>& blocks, int64_t alignment);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_AGENT_LAYOUT_H_
