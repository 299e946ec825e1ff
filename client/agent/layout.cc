// Two algorithms for the layout of memory blocks.
//
// 1. First fit in a given order: each block gets the lowest offset at which it overlaps none of the
//    placed blocks that are alive together with it. Some order leads to an optimal layout, so this
//    searches orders: five sorted ones (by lifetime, size, size x lifetime, begin, end) start one
//    hill climb each. A step moves one block to an earlier place in the order, and is kept unless
//    the region grows. By successive halving: all climbs get an equal share of a round's effort,
//    then the better half of them, until one is left or a layout is within 1/kCloseEnough of the
//    peak.
//    Invariant: every layout is sound; only its size changes.
// 2. Best fit in order of time, where listing the pairs of neighbours would take too much memory:
//    a block takes the smallest free gap that holds it, and gaps are merged when blocks end.
#include "client/agent/layout.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <utility>

namespace stowage {
namespace {

// The unit of effort is one pair of neighbours visited; placing a block costs kEffortPerBlock more.
constexpr int64_t kMaxEffort = 60'000'000;  // of all searches together
constexpr int64_t kEffortPerBlock = 4;
constexpr int64_t kMaxSteps = 4000;      // of one search in one round
constexpr int64_t kCloseEnough = 200;    // a layout within 1/200 of the peak ends the search
constexpr size_t kMaxPairs = 6'000'000;  // some 100 MB; with more, best fit is used

int64_t AlignedUp(int64_t bytes, int64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

std::vector<MemoryBlock> Aligned(std::vector<MemoryBlock> blocks, int64_t alignment) {
  for (MemoryBlock& block : blocks) block.bytes = AlignedUp(block.bytes, alignment);
  return blocks;
}

// Calls begin(block) and end(block) in order of their moments, ends before begins of one moment.
// Stops when begin() returns false.
void Sweep(const std::vector<MemoryBlock>& blocks, const std::function<bool(size_t)>& begin,
           const std::function<void(size_t)>& end) {
  std::vector<size_t> begins(blocks.size());
  std::iota(begins.begin(), begins.end(), size_t{0});
  std::vector<size_t> ends = begins;
  std::stable_sort(begins.begin(), begins.end(),
                   [&](size_t a, size_t b) { return blocks[a].begin < blocks[b].begin; });
  std::stable_sort(ends.begin(), ends.end(),
                   [&](size_t a, size_t b) { return blocks[a].end < blocks[b].end; });
  size_t ended = 0;
  for (const size_t block : begins) {
    for (; ended < ends.size() && blocks[ends[ended]].end <= blocks[block].begin; ++ended) {
      end(ends[ended]);
    }
    if (!begin(block)) return;
  }
}

// For each block, the blocks that are alive together with it, in compressed sparse rows.
class Neighbours {
 public:
  // nullopt: more than kMaxPairs.
  static std::optional<Neighbours> Of(const std::vector<MemoryBlock>& blocks) {
    std::vector<std::pair<uint32_t, uint32_t>> pairs;
    std::vector<uint32_t> alive;
    Sweep(
        blocks,
        [&](size_t block) {
          const auto number = static_cast<uint32_t>(block);
          for (const uint32_t other : alive) pairs.emplace_back(number, other);
          alive.push_back(number);
          return pairs.size() <= kMaxPairs;
        },
        [&](size_t block) { alive.erase(std::find(alive.begin(), alive.end(), block)); });
    if (pairs.size() > kMaxPairs) return std::nullopt;
    // Counting sort of the pairs by block: degrees, their prefix sums, then the entries.
    Neighbours neighbours;
    neighbours.first_.assign(blocks.size() + 1, 0);
    for (const auto& [a, b] : pairs) {
      ++neighbours.first_[a + 1];
      ++neighbours.first_[b + 1];
    }
    std::partial_sum(neighbours.first_.begin(), neighbours.first_.end(), neighbours.first_.begin());
    neighbours.all_.resize(2 * pairs.size());
    std::vector<size_t> place(neighbours.first_.begin(), neighbours.first_.end() - 1);
    for (const auto& [a, b] : pairs) {
      neighbours.all_[place[a]++] = b;
      neighbours.all_[place[b]++] = a;
    }
    return neighbours;
  }

  // Calls visit(other) for every neighbour of `block`.
  template <typename Visit>
  void ForEach(size_t block, const Visit& visit) const {
    for (size_t i = first_[block]; i < first_[block + 1]; ++i) visit(all_[i]);
  }
  int64_t entries() const { return static_cast<int64_t>(all_.size()); }  // two for each pair

 private:
  std::vector<size_t> first_;  // by block: the index in all_ of its first neighbour
  std::vector<uint32_t> all_;  // neighbours, block by block
};

// First fit: places blocks in a given order, each at the lowest offset that is free in its
// lifetime.
class Placement {
 public:
  Placement(const std::vector<MemoryBlock>& blocks, const Neighbours& neighbours)
      : blocks_(blocks), neighbours_(neighbours) {}

  Layout InOrder(const std::vector<size_t>& order) {
    Layout layout;
    layout.offsets.assign(blocks_.size(), -1);
    for (const size_t block : order) {
      layout.offsets[block] = LowestOffset(block, layout.offsets);
      layout.bytes = std::max(layout.bytes, layout.offsets[block] + blocks_[block].bytes);
    }
    return layout;
  }

 private:
  // The lowest gap between placed neighbours that holds the block.
  int64_t LowestOffset(size_t block, const std::vector<int64_t>& offsets) {
    taken_.clear();
    neighbours_.ForEach(block, [&](size_t other) {
      if (offsets[other] < 0 || blocks_[other].bytes == 0) return;
      taken_.emplace_back(offsets[other], offsets[other] + blocks_[other].bytes);
    });
    std::sort(taken_.begin(), taken_.end());
    int64_t offset = 0;
    for (const auto& [from, to] : taken_) {
      if (from - offset >= blocks_[block].bytes) break;
      offset = std::max(offset, to);
    }
    return offset;
  }

  const std::vector<MemoryBlock>& blocks_;
  const Neighbours& neighbours_;
  std::vector<std::pair<int64_t, int64_t>> taken_;  // ranges of placed neighbours; reused
};

std::vector<size_t> OrderBy(const std::vector<MemoryBlock>& blocks,
                            const std::function<double(const MemoryBlock&)>& key) {
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::vector<double> keys;
  keys.reserve(blocks.size());
  for (const MemoryBlock& block : blocks) keys.push_back(key(block));
  std::stable_sort(order.begin(), order.end(),
                   [&keys](size_t a, size_t b) { return keys[a] < keys[b]; });
  return order;
}

// The five orders that searches start from: longest-lived, largest, largest area, earliest, latest.
std::vector<std::vector<size_t>> FirstOrders(const std::vector<MemoryBlock>& blocks) {
  const auto life = [](const MemoryBlock& b) { return static_cast<double>(b.end - b.begin); };
  const auto bytes = [](const MemoryBlock& b) { return static_cast<double>(b.bytes); };
  return {OrderBy(blocks, [&](const MemoryBlock& b) { return -life(b); }),
          OrderBy(blocks, [&](const MemoryBlock& b) { return -bytes(b); }),
          OrderBy(blocks, [&](const MemoryBlock& b) { return -bytes(b) * life(b); }),
          OrderBy(blocks, [&](const MemoryBlock& b) { return static_cast<double>(b.begin); }),
          OrderBy(blocks, [&](const MemoryBlock& b) { return -static_cast<double>(b.end); })};
}

// One random step: moves a block that reaches the top of the region, or with probability 1/2 one of
// its neighbours, to an earlier place in the order. Only this can lower the top.
void MoveOneEarlier(const std::vector<MemoryBlock>& blocks, const Neighbours& neighbours,
                    const Layout& layout, std::mt19937* random, std::vector<size_t>* order) {
  const auto below = [random](size_t bound) { return static_cast<size_t>((*random)()) % bound; };
  std::vector<size_t> candidates;
  for (size_t block = 0; block < blocks.size(); ++block) {
    if (layout.offsets[block] + blocks[block].bytes == layout.bytes) candidates.push_back(block);
  }
  size_t moved = candidates[below(candidates.size())];
  if (below(2) == 0) {
    candidates.clear();
    neighbours.ForEach(moved, [&](size_t other) { candidates.push_back(other); });
    if (!candidates.empty()) moved = candidates[below(candidates.size())];
  }
  const auto from = std::find(order->begin(), order->end(), moved);
  const auto place = static_cast<size_t>(from - order->begin());
  std::rotate(order->begin() + static_cast<std::ptrdiff_t>(below(place + 1)), from, from + 1);
}

// One hill climb over orders. Steps to layouts of equal size are kept, to leave plateaus.
class Search {
 public:
  Search(const std::vector<MemoryBlock>& blocks, const Neighbours& neighbours, int64_t peak,
         std::vector<size_t> order)
      : blocks_(&blocks),
        neighbours_(&neighbours),
        peak_(peak),
        order_(std::move(order)),
        layout_(Placement(blocks, neighbours).InOrder(order_)) {}

  const Layout& layout() const { return layout_; }
  bool Done() const { return layout_.bytes <= peak_ + peak_ / kCloseEnough; }

  void Spend(int64_t effort) {
    Placement placement(*blocks_, *neighbours_);
    const int64_t effort_per_step =
        2 * neighbours_->entries() + static_cast<int64_t>(blocks_->size()) * kEffortPerBlock;
    std::vector<size_t> changed;
    effort = std::min(effort, kMaxSteps * effort_per_step);
    for (; effort > 0 && !Done(); effort -= effort_per_step) {
      changed = order_;
      MoveOneEarlier(*blocks_, *neighbours_, layout_, &random_, &changed);
      Layout layout = placement.InOrder(changed);
      if (layout.bytes > layout_.bytes) continue;
      layout_ = std::move(layout);
      order_.swap(changed);
    }
  }

 private:
  const std::vector<MemoryBlock>* blocks_;
  const Neighbours* neighbours_;
  int64_t peak_;
  std::mt19937 random_{1};
  std::vector<size_t> order_;
  Layout layout_;
};

Layout BestOrder(const std::vector<MemoryBlock>& blocks, const Neighbours& neighbours,
                 int64_t peak) {
  std::vector<Search> searches;
  for (std::vector<size_t>& order : FirstOrders(blocks)) {
    searches.emplace_back(blocks, neighbours, peak, std::move(order));
    if (searches.back().Done()) return searches.back().layout();
  }
  const auto by_bytes = [](const Search& a, const Search& b) {
    return a.layout().bytes < b.layout().bytes;
  };
  // Successive halving: each round has a quarter of the effort.
  while (true) {
    for (Search& search : searches) {
      search.Spend(kMaxEffort / 4 / static_cast<int64_t>(searches.size()));
      if (search.Done()) return search.layout();
    }
    std::sort(searches.begin(), searches.end(), by_bytes);
    if (searches.size() == 1) return searches.front().layout();
    searches.erase(searches.begin() + static_cast<std::ptrdiff_t>(searches.size() + 1) / 2,
                   searches.end());
  }
}

// Places each block, in order of begin, into the smallest free gap that holds it, else at the top.
class BestFit {
 public:
  explicit BestFit(const std::vector<MemoryBlock>& blocks) : blocks_(blocks) {
    layout_.offsets.assign(blocks.size(), 0);
  }

  Layout Run() {
    Sweep(
        blocks_,
        [this](size_t block) {
          Begin(block);
          return true;
        },
        [this](size_t block) {
          if (blocks_[block].bytes > 0) Free(layout_.offsets[block], blocks_[block].bytes);
        });
    return std::move(layout_);
  }

 private:
  void Begin(size_t block) {
    const int64_t bytes = blocks_[block].bytes;
    if (bytes == 0) return;
    const auto found = by_bytes_.lower_bound({bytes, 0});
    if (found != by_bytes_.end()) {
      const auto [free_bytes, offset] = *found;
      Take(offset, free_bytes);
      layout_.offsets[block] = offset;
      if (free_bytes > bytes) Free(offset + bytes, free_bytes - bytes);
      return;
    }
    // No gap is large enough: at the top, from the beginning of a gap that ends there.
    int64_t offset = layout_.bytes;
    if (!by_offset_.empty()) {
      const auto [last, last_bytes] = *by_offset_.rbegin();
      if (last + last_bytes == layout_.bytes) {
        offset = last;
        Take(last, last_bytes);
      }
    }
    layout_.offsets[block] = offset;
    layout_.bytes = offset + bytes;
  }

  // Removes a gap.
  void Take(int64_t offset, int64_t bytes) {
    by_offset_.erase(offset);
    by_bytes_.erase({bytes, offset});
  }

  // Adds a gap and merges it with its neighbours.
  void Free(int64_t offset, int64_t bytes) {
    const auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.begin()) {
      const auto [before, before_bytes] = *std::prev(next);
      if (before + before_bytes == offset) {
        Take(before, before_bytes);
        return Free(before, before_bytes + bytes);
      }
    }
    if (next != by_offset_.end() && next->first == offset + bytes) {
      bytes += next->second;
      Take(next->first, next->second);
    }
    by_offset_.emplace(offset, bytes);
    by_bytes_.emplace(bytes, offset);
  }

  const std::vector<MemoryBlock>& blocks_;
  Layout layout_;
  // The gaps below layout_.bytes; no two touch. Both containers hold the same gaps.
  std::map<int64_t, int64_t> by_offset_;            // offset, bytes
  std::set<std::pair<int64_t, int64_t>> by_bytes_;  // bytes, offset
};

}  // namespace

int64_t PeakOf(const std::vector<MemoryBlock>& blocks, int64_t alignment) {
  int64_t alive = 0;
  int64_t peak = 0;
  Sweep(
      blocks,
      [&](size_t block) {
        alive += AlignedUp(blocks[block].bytes, alignment);
        peak = std::max(peak, alive);
        return true;
      },
      [&](size_t block) { alive -= AlignedUp(blocks[block].bytes, alignment); });
  return peak;
}

Layout LayOut(const std::vector<MemoryBlock>& unaligned, int64_t alignment) {
  const std::vector<MemoryBlock> blocks = Aligned(unaligned, alignment);
  const int64_t peak = PeakOf(blocks, 1);
  const std::optional<Neighbours> neighbours = Neighbours::Of(blocks);
  if (!neighbours.has_value()) return BestFit(blocks).Run();
  return BestOrder(blocks, *neighbours, peak);
}

}  // namespace stowage
